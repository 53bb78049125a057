"""Integers as Redis parses them in arguments: signed 64-bit decimal, no plus sign, no leading zero, no spaces.

Reference: `string2ll` and `getTimeoutFromObjectOrReply` of Redis.
"""

from __future__ import annotations

from typing import Final

from crdtstream.connections.context import CommandError
from crdtstream.connections.parking import NO_DEADLINE
from crdtstream.protocols.requests import plain_number

I64_MAX: Final = 2**63 - 1
DIGITS_MAX: Final = 20
# Any number with fewer digits fits.
I64_DIGITS: Final = 19
NOT_AN_INTEGER = "ERR value is not an integer or out of range"


def integer(text: bytes, error: str = NOT_AN_INTEGER) -> int:
    """A signed 64-bit integer; raises CommandError with the given text if it is not one."""
    plain = plain_number(text)
    if plain >= 0:
        return plain
    digits = text[1:] if text[:1] == b"-" else text
    if len(digits) > DIGITS_MAX or not digits.isdigit() or (digits[:1] == b"0" and text != b"0"):
        raise CommandError(error)
    value = int(text)
    if len(digits) >= I64_DIGITS and not -I64_MAX - 1 <= value <= I64_MAX:
        raise CommandError(error)
    return value


def deadline(text: bytes, now_ms: int) -> int:
    """When a timeout in milliseconds ends; a timeout of 0 never ends."""
    timeout_ms = integer(text, "ERR timeout is not an integer or out of range")
    if timeout_ms < 0:
        raise CommandError("ERR timeout is negative")
    if timeout_ms > I64_MAX - now_ms:
        raise CommandError("ERR timeout is out of range")
    return now_ms + timeout_ms if timeout_ms else NO_DEADLINE
