"""Listpacks: how Redis packs the entries of a stream.

A listpack is its size (4 bytes), the number of its elements (2 bytes, 65535: unknown), the elements, and 0xff. An
element is a string or an integer, followed by its own size, written so that it can be read backwards. All numbers are
little-endian.

Reference: `listpack.c` of Redis.
"""

from __future__ import annotations

from typing import Final

HEADER_BYTES: Final = 6
END: Final = b"\xff"
COUNT_MAX: Final = 65_535
# The first byte of an integer of this many bytes.
WIDE: Final = {0xF1: 2, 0xF2: 3, 0xF3: 4, 0xF4: 8}


class DumpFault(ValueError):
    """Bytes that are not what they should be."""


# Reading


class Elements:
    """The elements of a listpack, from left to right; an integer as its decimal text, as it is for clients. Each is
    read when it is taken.
    """

    __slots__ = ("_at", "_end", "_packed")

    def __init__(self, packed: bytes) -> None:
        if len(packed) <= HEADER_BYTES or int.from_bytes(packed[:4], "little") != len(packed) or packed[-1:] != END:
            raise DumpFault("a listpack has another size than it says")
        self._packed = packed
        self._at = HEADER_BYTES
        self._end = len(packed) - 1

    def pop(self) -> bytes:
        if self._at >= self._end:
            raise DumpFault("a listpack ends early")
        value, size = element_at(self._packed, self._at)
        behind = self._at + size
        self._at = behind + back_size(size)
        if self._packed[behind : self._at] != back_of(size):
            raise DumpFault("an element has another size than stands behind it")
        if self._at > self._end:
            raise DumpFault("an element exceeds its listpack")
        return value

    def integer(self) -> int:
        try:
            return int(self.pop())
        except ValueError as error:
            raise DumpFault("text in the place of a number") from error

    def count(self) -> int:
        """A number that is not negative."""
        found = self.integer()
        if found < 0:
            raise DumpFault("a negative number of something")
        return found

    def is_done(self) -> bool:
        return self._at == self._end


def element_at(packed: bytes, at: int) -> tuple[bytes, int]:
    """An element, and its size without what follows for reading backwards."""
    first = packed[at]
    if first < 0x80:
        return b"%d" % first, 1
    if first < 0xC0:
        return text_at(packed, at, 1, first & 0x3F)
    if first < 0xE0:
        return b"%d" % signed((first & 0x1F) << 8 | byte_at(packed, at + 1), 13), 2
    if first < 0xF0:
        return text_at(packed, at, 2, (first & 0x0F) << 8 | byte_at(packed, at + 1))
    if first == 0xF0:
        return text_at(packed, at, 5, int.from_bytes(packed[at + 1 : at + 5], "little"))
    width = WIDE.get(first)
    if width is None or at + 1 + width > len(packed):
        raise DumpFault("an element of no known kind")
    return b"%d" % int.from_bytes(packed[at + 1 : at + 1 + width], "little", signed=True), 1 + width


def byte_at(packed: bytes, at: int) -> int:
    if at >= len(packed):
        raise DumpFault("an element ends early")
    return packed[at]


def text_at(packed: bytes, at: int, head: int, size: int) -> tuple[bytes, int]:
    if at + head + size > len(packed):
        raise DumpFault("a string ends early")
    return packed[at + head : at + head + size], head + size


def signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def back_size(size: int) -> int:
    """How many bytes hold the size of an element behind it."""
    if size <= 127:
        return 1
    if size < 16_383:
        return 2
    if size < 2_097_151:
        return 3
    return 4 if size < 268_435_455 else 5


# Writing


def packed_of(elements: list[bytes]) -> bytes:
    """A listpack of encoded elements."""
    body = b"".join([element + back_of(len(element)) for element in elements])
    count = min(len(elements), COUNT_MAX)
    size = HEADER_BYTES + len(body) + 1
    return b"".join([size.to_bytes(4, "little"), count.to_bytes(2, "little"), body, END])


def back_of(size: int) -> bytes:
    """The size in groups of seven bits, the highest first; all but the first have their top bit set."""
    groups = [size >> 7 * at & 0x7F for at in range(back_size(size))]
    groups.reverse()
    return bytes([group | (0x80 if at else 0) for at, group in enumerate(groups)])


def integer(value: int) -> bytes:
    if 0 <= value < 0x80:
        return bytes([value])
    if -4096 <= value < 4096:
        return (0xC000 | value & 0x1FFF).to_bytes(2, "big")
    for first, width in WIDE.items():
        if -(1 << 8 * width - 1) <= value < 1 << 8 * width - 1:
            return bytes([first]) + value.to_bytes(width, "little", signed=True)
    raise AssertionError(f"{value} has more than 64 bits")


def text(value: bytes) -> bytes:
    size = len(value)
    if size < 64:
        return bytes([0x80 | size]) + value
    if size < 4096:
        return (0xE000 | size).to_bytes(2, "big") + value
    return b"\xf0" + size.to_bytes(4, "little") + value
