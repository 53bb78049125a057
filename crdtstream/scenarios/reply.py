"""RESP2 replies as Python values, and as scenario text."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from typing import Protocol


@dataclass(frozen=True)
class ReplyError:
    """An error reply with its full text, including the code."""

    text: str


Value = None | int | str | ReplyError | list["Value"]
WIDTH_MAX = 100


class Source(Protocol):
    """Bytes of replies: of a binary file, or of the file of a socket, which waits for them."""

    def readline(self) -> bytes: ...

    def read(self, size: int, /) -> bytes: ...


def read_reply(data: bytes) -> Value:
    """Parse the only reply in `data`."""
    values = read_replies(data)
    assert len(values) == 1, f"more than one reply: {data!r}" if values else "no reply"
    return values[0]


def read_replies(data: bytes) -> list[Value]:
    """Parse all replies in `data`."""
    source = BytesIO(data)
    values: list[Value] = []
    while source.tell() < len(data):
        values.append(next_reply(source))
    return values


def next_reply(source: Source) -> Value:
    """Parse the next reply; EOFError if the source ends before it does."""
    line = source.readline()
    if not line.endswith(b"\r\n"):
        raise EOFError("the reply ends early")
    kind, rest = line[:1], line[1:-2].decode()
    if kind == b"+":
        return rest
    if kind == b"-":
        return ReplyError(rest)
    if kind == b":":
        return int(rest)
    if kind == b"$":
        return None if int(rest) < 0 else _text(source, int(rest))
    assert kind == b"*", f"no RESP2 reply begins with {kind!r}"
    return None if int(rest) < 0 else [next_reply(source) for _ in range(int(rest))]


def _text(source: Source, size: int) -> str:
    data = source.read(size + 2)
    if len(data) < size + 2:
        raise EOFError("the reply ends early")
    return data[:size].decode(errors="backslashreplace")


def show(value: Value) -> str:
    if value is None:
        return "nil"
    if isinstance(value, ReplyError):
        return f"! {value.text}"
    if isinstance(value, list):
        return "[" + ", ".join(show(item) for item in value) + "]"
    return str(value) if value != "" else '""'


def show_reply(value: Value) -> list[str]:
    """Format a reply on one line, or with one line for each element if that would be too long."""
    line = show(value)
    if not isinstance(value, list) or len(line) <= WIDTH_MAX:
        return [line]
    return ["[" + show(value[0]), *(show(item) for item in value[1:-1]), show(value[-1]) + "]"]
