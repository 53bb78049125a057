"""Replies as a scenario shows them, read from the bytes of the wire."""

from __future__ import annotations

from io import BytesIO

import pytest

from crdtstream.protocols import replies
from crdtstream.scenarios.reply import Value, next_reply, read_replies, read_reply, show_reply

CASES: list[tuple[bytes, Value, list[str]]] = [
    (b"+OK\r\n", "OK", ["OK"]),
    (b":5\r\n", 5, ["5"]),
    (b"$3\r\n1-1\r\n", "1-1", ["1-1"]),
    (b"$-1\r\n", None, ["nil"]),
    (b"*-1\r\n", None, ["nil"]),
    (b"*0\r\n", [], ["[]"]),
]


@pytest.mark.parametrize(("data", "value", "lines"), CASES)
def test_a_reply_is_read_and_shown(data: bytes, value: Value, lines: list[str]) -> None:
    assert read_reply(data) == value
    assert show_reply(value) == lines


def test_an_error_is_told_from_a_text() -> None:
    [line] = show_reply(read_reply(b"-ERR no such key\r\n"))
    assert line == "! ERR no such key"


def test_nested_lists() -> None:
    entry = replies.array([replies.bulk(b"1-1"), replies.bulk_array([b"f", b"v"])])
    value = read_reply(replies.array([entry]))
    assert value == [["1-1", ["f", "v"]]]
    assert "".join(show_reply(value)).count("1-1") == 1


def test_several_replies_are_read_in_turn() -> None:
    assert read_replies(b":1\r\n*1\r\n+OK\r\n") == [1, ["OK"]]
    assert read_replies(b"") == []


@pytest.mark.parametrize("data", [b"", b"$5\r\nab", b"*2\r\n:1\r\n", b":1"])
def test_a_reply_that_ends_early_is_told(data: bytes) -> None:
    with pytest.raises(EOFError):
        next_reply(BytesIO(data))
