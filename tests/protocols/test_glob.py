"""The glob matcher against a literal transcription of Redis's recursive one."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crdtstream.protocols.glob import matches, tokens_of


def reference(pattern: bytes, name: bytes) -> bool:
    """`stringmatchlen` as Redis writes it, exponential as it is."""
    while pattern and name:
        if pattern[0] == ord("*"):
            pattern = pattern.lstrip(b"*")
            return not pattern or any(reference(pattern, name[i:]) for i in range(len(name)))
        if pattern[0] == ord("["):
            matched, pattern = reference_class(pattern[1:], name[0])
            if not matched:
                return False
        elif pattern[0] != ord("?"):
            if pattern[0] == ord("\\") and len(pattern) >= 2:
                pattern = pattern[1:]
            if pattern[0] != name[0]:
                return False
        pattern, name = pattern[1:], name[1:]
        if not name:
            pattern = pattern.lstrip(b"*")
    return not pattern and not name


def reference_class(pattern: bytes, byte: int) -> tuple[bool, bytes]:
    """Whether the byte is in the class, and the pattern from the class's last character on."""
    inverted = pattern[:1] == b"^"
    pattern = pattern[inverted:]
    found = False
    while pattern and pattern[0] != ord("]"):
        if pattern[0] == ord("\\") and len(pattern) >= 2:
            pattern = pattern[1:]
            found |= pattern[0] == byte
        elif len(pattern) >= 3 and pattern[1] == ord("-"):
            low, high = sorted(b - 256 if b > 127 else b for b in (pattern[0], pattern[2]))
            found |= low <= (byte - 256 if byte > 127 else byte) <= high
            pattern = pattern[2:]
        else:
            found |= pattern[0] == byte
        pattern = pattern[1:]
    return found != inverted, pattern or b"]"


patterns = st.lists(st.sampled_from([b"a", b"b", b"c", b"*", b"?", b"[", b"]", b"^", b"-", b"\\", b"\xff"]), max_size=9)
names = st.lists(st.sampled_from([b"a", b"b", b"c", b"]", b"-", b"^", b"\\", b"[", b"\xff", b"\x80"]), max_size=6)


@given(patterns.map(b"".join), names.map(b"".join))
@example(b"[", b"a")
@example(b"[^", b"a")
@example(b"[a-", b"-")
@example(b"a[^b", b"ac")
@example(b"a*", b"a")
@example(b"*", b"")
def test_matches_as_redis_does(pattern: bytes, name: bytes) -> None:
    assert matches(tokens_of(pattern), name) == reference(pattern, name)


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        (b"h?llo", b"hallo", True),
        (b"h*llo", b"heeeello", True),
        (b"h[ae]llo", b"hillo", False),
        (b"h[^e]llo", b"hello", False),
        (b"h[a-b]llo", b"hbllo", True),
        (b"h\\*llo", b"h*llo", True),
        (b"h\\*llo", b"hallo", False),
        (b"*a*b*c", b"xaxbxc", True),
        (b"", b"", True),
        (b"", b"a", False),
    ],
)
def test_examples(pattern: bytes, name: bytes, expected: bool) -> None:
    assert matches(tokens_of(pattern), name) is expected


def test_hostile_pattern_ends() -> None:
    assert not matches(tokens_of(b"*a" * 50 + b"b"), b"a" * 1000)
