"""Glob patterns of KEYS, SCAN and PSUBSCRIBE: matched byte for byte like Redis, in time that no pattern makes explode.

A pattern becomes one token for each byte that it matches, which is the set of bytes allowed there, or `STAR`. A
mismatch goes back to the last star only, which is sufficient for globs, so the time is at most pattern length times
name length.

Reference: `stringmatchlen` of Redis, including its oddities: an unterminated class ends with the pattern, ranges
compare signed bytes, and a star does not match an empty name.
"""

from __future__ import annotations

STAR = None
Token = bytes | None

ANY = bytes(range(256))
_STAR, _QUESTION, _OPEN, _CLOSE, _CARET, _BACKSLASH, _DASH = b"*?[]^\\-"


def tokens_of(pattern: bytes) -> list[Token]:
    tokens: list[Token] = []
    at = 0
    while at < len(pattern):
        byte = pattern[at]
        if byte == _STAR:
            if not tokens or tokens[-1] is not STAR:
                tokens.append(STAR)
        elif byte == _QUESTION:
            tokens.append(ANY)
        elif byte == _OPEN:
            allowed, at = class_at(pattern, at + 1)
            tokens.append(allowed)
        else:
            if byte == _BACKSLASH and at + 1 < len(pattern):
                at += 1
            tokens.append(pattern[at : at + 1])
        at += 1
    return tokens


def class_at(pattern: bytes, at: int) -> tuple[bytes, int]:
    """The bytes that a class allows, and the index of its last character; `at` is just after the opening bracket."""
    negated = pattern[at : at + 1] == b"^"
    if negated:
        at += 1
    allowed: set[int] = set()
    end = len(pattern)
    while at < end and pattern[at] != _CLOSE:
        if pattern[at] == _BACKSLASH and at + 1 < end:
            at += 1
            allowed.add(pattern[at])
        elif at + 2 < end and pattern[at + 1] == _DASH:
            allowed.update(range_of(pattern[at], pattern[at + 2]))
            at += 2
        else:
            allowed.add(pattern[at])
        at += 1
    chosen = bytes(byte for byte in range(256) if (byte in allowed) != negated)
    return chosen, min(at, end - 1)


def range_of(one: int, other: int) -> list[int]:
    """All bytes between the two, in either order; bytes compare as signed."""
    low, high = sorted((signed(one), signed(other)))
    return [byte for byte in range(256) if low <= signed(byte) <= high]


def signed(byte: int) -> int:
    return byte - 256 if byte > 127 else byte


def matches(tokens: list[Token], name: bytes) -> bool:
    if not name:
        return not tokens
    at = index = 0
    retry_token = retry_at = -1
    while at < len(name):
        token = tokens[index] if index < len(tokens) else b""
        if token is STAR:
            retry_token, retry_at = index, at
            index += 1
        elif name[at] in token:
            index += 1
            at += 1
        elif retry_token >= 0:
            retry_at += 1
            index, at = retry_token + 1, retry_at
        else:
            return False
    return all(token is STAR for token in tokens[index:])
