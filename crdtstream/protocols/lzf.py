"""LZF, which compresses strings in payloads of Redis; only reading, in steps, because no library reads a part.

A control byte below 32 is followed by as many bytes and one more. Any other one repeats at least three bytes from up
to 8,192 bytes before: its high three bits are the count less 2, and 7 means that a byte with more of it follows; its
low five bits and the next byte are the distance less 1. So one byte grows to 88 bytes at the most.

Reference: `lzf_d.c` of LibLZF.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from crdtstream.protocols.listpack import DumpFault

# A step ends after so many controls; a control costs what copying so many bytes does.
STEP_CONTROLS: Final = 1_024
CONTROL_BYTES: Final = 16


def decompressing(data: bytes, size: int) -> Generator[int, None, bytes]:
    """The `size` bytes that LZF has compressed; yields the cost of each step in bytes, and raises DumpFault."""
    out = bytearray()
    at = 0
    while at < len(data) and len(out) <= size:
        before = len(out)
        controls = 0
        while at < len(data) and controls < STEP_CONTROLS:
            at = read_control(data, at, out)
            controls += 1
        yield len(out) - before + CONTROL_BYTES * controls
    if len(out) != size:
        raise DumpFault("compressed data has another size than it says")
    return bytes(out)


def read_control(data: bytes, at: int, out: bytearray) -> int:
    """Do what the control byte at this offset says; returns the offset of the next one."""
    control = data[at]
    if control < 32:
        out += data[at + 1 : at + 2 + control]
        return at + 2 + control
    count = control >> 5
    at += 1
    if count == 7:
        count += byte_at(data, at)
        at += 1
    repeat(out, (control & 0x1F) << 8 | byte_at(data, at), count + 2)
    return at + 1


def repeat(out: bytearray, distance: int, count: int) -> None:
    """Append `count` bytes that begin `distance` + 1 before the end; what they append may be among them."""
    start = len(out) - distance - 1
    if start < 0:
        raise DumpFault("compressed data refers to what is before its beginning")
    found = out[start : start + count]
    if len(found) < count:
        found = (found * (count // len(found) + 1))[:count]
    out += found


def byte_at(data: bytes, at: int) -> int:
    if at >= len(data):
        raise DumpFault("compressed data ends early")
    return data[at]


def decompressed(data: bytes, size: int) -> bytes:
    """All steps at once."""
    steps = decompressing(data, size)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            whole: bytes = end.value
            return whole
