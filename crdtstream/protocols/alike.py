"""Requests alike: those of a pipeline that begin with the same bytes and differ in their last arguments.

The beginning is parsed once. Of the others only the last arguments are looked at, and only for where they end: they are
handed on as the bytes that they are. So these must be written in the one form in which they may be stored and sent: no
sign, no leading zero, CR and LF at both places. What is written otherwise ends the run, and is left to the parser.

Reference: Redis protocol specification.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from crdtstream.protocols.requests import BULK_BYTES_MIN, CR, DOLLAR, PLAIN_NUMBER_MAX, ZERO

LF: Final = 10
NINE: Final = 57
NOWHERE: Final = -1


class Alike:
    """Requests that all begin like the first one, whose arguments are `argv`. `bodies[i]` are the arguments of request
    i from the index `start` on, as RESP bulk strings; the last request ends at the offset `end`.
    """

    __slots__ = ("argv", "bodies", "end", "start")

    def __init__(self, argv: list[bytes], start: int) -> None:
        self.argv = argv
        self.start = start
        self.bodies: list[bytes] = []
        self.end = 0

    def parse(self, buffer: bytes, at: i64, begin: i64, count_max: i64, bytes_max: i64) -> None:
        """Take whole requests from the offset `at` on, which have the bytes between `at` and `begin` in common: at most
        so many, with bodies of at most so many bytes together.
        """
        prefix = buffer[at:begin]
        size: i64 = begin - at
        last: i64 = len(buffer) - size
        arguments: i64 = len(self.argv) - self.start
        bodies = self.bodies
        # A slice costs less than `startswith` with an offset.
        while count_max > 0 and at <= last and buffer[at : at + size] == prefix:
            begin = at + size
            end = end_of_bulks(buffer, begin, arguments)
            bytes_max -= end - begin
            if end == NOWHERE or bytes_max < 0:
                break
            bodies.append(buffer[begin:end])
            at = end
            count_max -= 1
        self.end = at


def end_of_bulks(buffer: bytes, at: i64, count: i64) -> i64:
    """Where the last of `count` bulk strings ends; `NOWHERE` unless all are there and are written in the one form."""
    end: i64 = len(buffer)
    while count > 0:
        if at + BULK_BYTES_MIN > end or buffer[at] != DOLLAR:
            return NOWHERE
        size: i64 = buffer[at + 1] - ZERO
        if size < 0 or size > 9:
            return NOWHERE
        at += 2
        digit: i64 = buffer[at]
        while digit != CR:
            if size < 1 or size >= PLAIN_NUMBER_MAX or digit < ZERO or digit > NINE or at + 1 == end:
                return NOWHERE
            size = size * 10 + digit - ZERO
            at += 1
            digit = buffer[at]
        after: i64 = at + 4 + size
        if after > end or buffer[at + 1] != LF or buffer[after - 2] != CR or buffer[after - 1] != LF:
            return NOWHERE
        at = after
        count -= 1
    return at
