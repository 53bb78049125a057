"""Values of fields as people read them."""

from __future__ import annotations

import msgpack
import pytest

from crdtstream.dashboard.decoding import SHOWN_MAX, decoded, shown


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (b"", "text", ""),
        (b"42", "text", "42"),
        ("größer\n".encode(), "text", "größer\n"),
        (b'{"a":[1]}', "JSON", '{"a": [1]}'),
        (b'["' + b"x" * 80 + b'"]', "JSON", '[\n  "' + "x" * 80 + '"\n]'),
        (b"{broken", "text", "{broken"),
        (b"\x00\xff", "hex", "00 ff"),
        (b"\x01\x02", "hex", "01 02"),
        (b"<script>alert(1)</script>", "text", "<script>alert(1)</script>"),
        (msgpack.packb({"a": b"\xff", 1: None}), "MessagePack", '{"a": "ff", "1": null}'),
        (msgpack.packb([1, "x"]), "MessagePack", '[1, "x"]'),
        # A number alone would be MessagePack by chance.
        (b"\xcd\x01\x02", "hex", "cd 01 02"),
        (msgpack.packb({"a": 1}) + b"\xff", "hex", "81 a1 61 01 ff"),
    ],
)
def test_a_value_is_recognised(value: bytes, kind: str, text: str) -> None:
    found = decoded(value)
    assert (found.kind, found.text) == (kind, text)


def test_a_long_value_is_shortened_and_says_so() -> None:
    assert decoded(b"x" * 5_000).text == "x" * SHOWN_MAX + " … (5,000 characters)"


def test_names_stay_different() -> None:
    names = [b"\xff", b"\\xff", b"a\\b", "ä".encode()]
    assert [shown(name) for name in names] == ["\\xff", "\\\\xff", "a\\\\b", "ä"]
