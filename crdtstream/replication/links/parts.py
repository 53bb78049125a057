"""Batches that are too large for one message travel in parts, and go on in another link where one was lost.

A part names its batch and the byte at which it begins. A batch is relayed in the bytes that its origin made, so what
one peer has begun another one may continue, and parts may be of any size.

Receiving. The parts of a batch are put together in one `Assembly`, whichever links they come by: a byte that is there
already is passed over. When its link is lost, an assembly is kept for `parts_keep_ms`; what is kept counts in
`inbox_bytes_max`, but the newest assembly is kept whatever its size, so that a batch arrives however large it is. The
Hello of each new link names the assemblies, with a checksum of what they hold.

Sending. A `Cutter` begins behind what the peer holds if its own batch of that name is as long and begins with the same
bytes, and at the first byte otherwise. Then the peer drops what it holds. On one link it goes on where it stopped,
unless the peer says that it dropped what it was sent (`Links.parts_dropped`).

Peers that speak a protocol before `PARTS_SINCE` number the parts of a batch, which are all of one size, and begin again
in each link.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final
from zlib import crc32

from crdtstream.core.values.causality import VersionVector
from crdtstream.protocols.codec import BatchHeader, CodecError, decode_header
from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication.values.wire_values import WireError, to_origin

# Origin, first and last counter (both inclusive), size in bytes.
Name = tuple[int, int, int, int]

# How many assemblies are kept, and named in a Hello, however small.
KEPT_MAX: Final = 256


def read_name(batch: wire.BatchName, bytes_max: int) -> Name:
    """The name of a batch of at most `bytes_max` bytes; WireError if it can be none."""
    if not 0 < batch.first <= batch.last:
        raise WireError(f"a batch with the counters {batch.first} to {batch.last}")
    if batch.size_bytes > bytes_max:
        raise WireError(f"a batch exceeds batch_bytes_max = {bytes_max} bytes")
    return (to_origin(batch.slot), batch.first, batch.last, batch.size_bytes)


def write_name(name: Name) -> wire.BatchName:
    origin, first, last, size_bytes = name
    return wire.BatchName(slot=origin, first=first, last=last, size_bytes=size_bytes)


class Assembly:
    """The first bytes of a batch, and all of it once they are `whole`."""

    __slots__ = ("_data", "crc32", "idle_ms", "name", "whole")

    def __init__(self, name: Name) -> None:
        self.name = name
        self.crc32 = 0
        self.idle_ms = 0
        self.whole: bytes | None = None
        self._data = bytearray()

    @property
    def held_bytes(self) -> int:
        return len(self._data)

    def add(self, offset: int, payload: bytes) -> None:
        """Add the bytes that begin at this offset, of which some may be there. Others in their place, from the start of
        the batch on, begin it again.
        """
        if self.whole is not None:
            return
        held = len(self._data)
        if not payload or offset > held or offset + len(payload) > self.name[3]:
            raise WireError(
                f"a part of {len(payload)} bytes begins at byte {offset} of a batch of {self.name[3]} bytes, of which"
                f" {held} are here"
            )
        if offset == 0 and self._data[: len(payload)] != payload[:held]:
            self._data.clear()
            held = self.crc32 = 0
        self._append(payload[held - offset :])

    def _append(self, payload: bytes) -> None:
        self._data += payload
        self.crc32 = crc32(payload, self.crc32)
        self.idle_ms = 0
        if len(self._data) == self.name[3]:
            self.whole = bytes(self._data)
            self._data = bytearray()

    def batch(self) -> tuple[BatchHeader, bytes]:
        """The whole batch, whose header must be what its parts say."""
        if self.whole is None:
            raise WireError("the last part of a batch arrived before others")
        header = decode_header(self.whole)
        if (header.origin, header.first, header.last) != self.name[:3]:
            raise CodecError("a batch has another name than its parts")
        return header, self.whole

    def check(self) -> None:
        assert self.whole is not None or self.held_bytes < self.name[3], "a batch with all of its parts is not whole"
        assert self.crc32 == crc32(self._data if self.whole is None else self.whole), "the checksum is of other bytes"


class Assemblies:
    """The batches of which only the first parts are here, by name; those that a link began to bring last come last."""

    __slots__ = ("_by_name",)

    def __init__(self) -> None:
        self._by_name: dict[Name, Assembly] = {}

    def open(self, name: Name) -> Assembly:
        """The assembly of this batch, for a link that brings its parts."""
        assembly = self._by_name.pop(name, None) or Assembly(name)
        self._by_name[name] = assembly
        return assembly

    def add(self, assembly: Assembly, offset: int, payload: bytes) -> None:
        """Add a part; once the batch is whole, the links that bring it hold it, and nobody else."""
        assembly.add(offset, payload)
        if assembly.whole is not None:
            self.drop(assembly.name)

    def drop(self, name: Name) -> None:
        self._by_name.pop(name, None)

    def clear(self) -> None:
        self._by_name.clear()

    def rows(self) -> list[wire.Unfinished]:
        """What a Hello says of them."""
        return [
            wire.Unfinished(batch=write_name(name), held_bytes=one.held_bytes, crc32=one.crc32)
            for name, one in self._by_name.items()
            if one.held_bytes
        ]

    def kept(self, used: Collection[Assembly]) -> list[Assembly]:
        """Those that none of the links uses, the oldest first."""
        return [one for one in self._by_name.values() if one not in used]

    def tick(self, used: Collection[Assembly], passed_ms: int, keep_ms: int, vector: VersionVector) -> None:
        """Drop what has been kept for `keep_ms`, and what has been applied."""
        for one in self.kept(used):
            one.idle_ms += passed_ms
            if one.idle_ms >= keep_ms or vector.contains(one.name[0], one.name[2]):
                self.drop(one.name)

    def bound(self, used: Collection[Assembly], bytes_max: int) -> None:
        """Keep at most so many bytes besides those that links use, or else the newest assembly alone."""
        kept = self.kept(used)
        held_bytes = sum([one.held_bytes for one in kept])
        for one in kept[:-1]:
            if held_bytes > bytes_max or len(self._by_name) > KEPT_MAX:
                held_bytes -= one.held_bytes
                self.drop(one.name)

    def check(self) -> None:
        for name, one in self._by_name.items():
            assert name == one.name, "an assembly under another name"
            assert one.whole is None, "a whole batch is kept"
            one.check()


class Numbered:
    """The parts of one batch on one link, as protocols before `PARTS_SINCE` number them."""

    __slots__ = ("_bytes_max", "_count", "_data", "_next")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._data = bytearray()
        self._next = 0
        self._count = 0

    @property
    def held_bytes(self) -> int:
        return len(self._data)

    def add(self, part: wire.Part) -> bytes | None:
        """Add a part; return the whole batch with its last part, else None."""
        if part.index == 0:
            self._data = bytearray()
            self._next = 0
            self._count = part.count
        if part.index != self._next or part.count != self._count or part.index >= part.count or not part.payload:
            raise WireError(f"part {part.index} of {part.count} arrived after {self._next} of {self._count} parts")
        if len(self._data) + len(part.payload) > self._bytes_max:
            raise WireError(f"a batch exceeds batch_bytes_max = {self._bytes_max} bytes")
        self._data += part.payload
        self._next += 1
        if self._next < self._count:
            return None
        whole = bytes(self._data)
        self._data = bytearray()
        self._next = self._count = 0
        return whole

    def check(self) -> None:
        assert len(self._data) <= self._bytes_max, "the incomplete batch is too large"


class Cutter:
    """Cuts batches into parts for one peer, one batch after another."""

    __slots__ = ("_at", "_held", "_index", "_name", "_named", "_payload", "_piece_bytes", "_stopped")

    def __init__(self) -> None:
        self._named = False
        # What the peer holds of a batch, and the checksum of that.
        self._held: dict[Name, tuple[int, int]] = {}
        # The batch whose parts were interrupted on this link, and how much of it was sent.
        self._stopped: tuple[Name, int] | None = None
        self._payload = b""
        self._name: Name = (0, 0, 0, 0)
        self._at = 0
        self._index = 0
        self._piece_bytes = 0

    def greet(self, unfinished: Iterable[wire.Unfinished]) -> None:
        """The peer names the batches of its parts, and says which ones it has begun."""
        self._named = True
        for row in unfinished:
            name = read_name(row.batch, row.batch.size_bytes)
            if 0 < row.held_bytes < name[3] and len(self._held) < KEPT_MAX:
                self._held[name] = (row.held_bytes, row.crc32)

    def is_cutting(self) -> bool:
        return self._at < len(self._payload)

    def begin(self, payload: bytes, piece_bytes: int) -> None:
        header = decode_header(payload)
        self._name = (header.origin, header.first, header.last, len(payload))
        self._payload = payload
        self._at = self._beginning() if self._named else 0
        self._index = 0
        self._piece_bytes = piece_bytes

    def _beginning(self) -> int:
        """The first byte that the peer lacks."""
        if self._stopped is not None and self._stopped[0] == self._name:
            at, self._stopped = self._stopped[1], None
            return at
        held_bytes, checksum = self._held.pop(self._name, (0, 0))
        return held_bytes if crc32(memoryview(self._payload)[:held_bytes]) == checksum else 0

    def stop(self) -> None:
        """Something else is sent first. The link keeps order, so the peer will hold what was sent."""
        if self.is_cutting():
            self._stopped = (self._name, self._at)
        self._payload = b""
        self._at = 0

    def forget(self) -> None:
        """The peer dropped the parts that it was sent: their batch begins at its start."""
        self._stopped = None

    def part(self, restart: int, piece_bytes: int) -> wire.Part:
        """The next part, of at most so many bytes; to a peer that numbers parts, of the size that the first one had."""
        size_bytes = self._name[3]
        if self._named:
            part = wire.Part(restart=restart, batch=write_name(self._name), offset_bytes=self._at)
        else:
            piece_bytes = self._piece_bytes
            # Division rounded up.
            part = wire.Part(restart=restart, index=self._index, count=-(-size_bytes // piece_bytes))
        part.payload = self._payload[self._at : self._at + piece_bytes]
        self._at += len(part.payload)
        self._index += 1
        if not self.is_cutting():
            self._payload = b""
            self._at = 0
        return part
