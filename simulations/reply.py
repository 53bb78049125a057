"""RESP2 replies as Python values, and as scenario text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReplyError:
    """An error reply with its full text, including the code."""

    text: str


Value = None | int | str | ReplyError | list["Value"]
WIDTH_MAX = 100


def read_reply(data: bytes) -> Value:
    """Parse the only reply in `data`."""
    value, end = _read(data, 0)
    assert end == len(data), f"more than one reply: {data!r}"
    return value


def read_replies(data: bytes) -> list[Value]:
    """Parse all replies in `data`."""
    values: list[Value] = []
    end = 0
    while end < len(data):
        value, end = _read(data, end)
        values.append(value)
    return values


def _read(data: bytes, start: int) -> tuple[Value, int]:
    line_end = data.index(b"\r\n", start)
    kind, rest = data[start : start + 1], data[start + 1 : line_end].decode()
    end = line_end + 2
    if kind == b"+":
        return rest, end
    if kind == b"-":
        return ReplyError(rest), end
    if kind == b":":
        return int(rest), end
    if kind == b"$":
        size = int(rest)
        return (None, end) if size < 0 else (data[end : end + size].decode(errors="backslashreplace"), end + size + 2)
    assert kind == b"*", f"no RESP2 reply begins with {kind!r}"
    if int(rest) < 0:
        return None, end
    values: list[Value] = []
    for _ in range(int(rest)):
        value, end = _read(data, end)
        values.append(value)
    return values, end


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
