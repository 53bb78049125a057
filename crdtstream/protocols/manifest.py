"""The manifest of a checkpoint: which files belong to it, and what a node knows besides its streams.

Positions of the log are inclusive: the vector, the members, the births and the milestones are those of `begun`, the
streams are each at a position of its own from `begun` to `through`. So the log is replayed from `begun + 1` on, and it
was durable up to `through` before the manifest was written.

As bytes: magic, format version, checksum of the rest, and rows. The version is judged before the checksum, since
another format may check itself in another way.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final

import msgpack

from crdtstream.core.causality import VersionVector
from crdtstream.core.members import EVICTED, FOLLOWED, MemberRow
from crdtstream.protocols.columns import (
    CodecError,
    column,
    flat,
    paired,
    read_bytes,
    read_column,
    read_counter,
    read_row,
    read_slot,
    read_u64,
)
from crdtstream.protocols.rows import Rows

FORMAT_VERSION: Final = 2

_MAGIC: Final = b"CRDTCKP\n"
_HEAD: Final = struct.Struct("<8sII")

Milestone = tuple[int, VersionVector]


class UnknownFormat(CodecError):
    """Written by a release with another format."""


class Manifest:
    """One checkpoint; files are (number, size in bytes)."""

    __slots__ = (
        "begun",
        "block_files",
        "members",
        "milestones",
        "records",
        "saved_ms",
        "state_files",
        "through",
        "vector",
    )

    def __init__(self, begun: int, vector: VersionVector) -> None:
        self.begun = begun
        self.through = begun
        self.vector = vector
        self.members: list[MemberRow] = []
        self.saved_ms = 0
        self.records: list[tuple[int, bytes]] = []
        self.milestones: list[Milestone] = []
        self.block_files: list[tuple[int, int]] = []
        self.state_files: list[tuple[int, int]] = []


def encode_manifest(manifest: Manifest) -> bytes:
    packer = msgpack.Packer(autoreset=False)
    files = (column(flat(manifest.block_files)), column(flat(manifest.state_files)))
    counts = (len(manifest.records), len(manifest.milestones))
    head = (manifest.begun, manifest.through, manifest.saved_ms, _vector_column(manifest.vector))
    members = column([number for row in manifest.members for number in row])
    packer.pack((*head, *files, members, *counts))
    for kind, payload in manifest.records:
        packer.pack((kind, payload))
    for position, vector in manifest.milestones:
        packer.pack((position, _vector_column(vector)))
    body = packer.bytes()
    return _HEAD.pack(_MAGIC, FORMAT_VERSION, zlib.crc32(body)) + body


def decode_manifest(data: bytes) -> Manifest:
    if len(data) <= _HEAD.size or not data.startswith(_MAGIC):
        raise CodecError("it is no manifest")
    _, version, checksum = _HEAD.unpack_from(data)
    if version != FORMAT_VERSION:
        raise UnknownFormat(f"it has format {version} and this release reads format {FORMAT_VERSION}")
    body = data[_HEAD.size :]
    if zlib.crc32(body) != checksum:
        raise CodecError("its checksum is wrong")
    rows = Rows(body)
    head = read_row(rows.next(), 9, "manifest")
    begun, through, saved_ms, vector, blocks, states, members, records, milestones = head
    manifest = Manifest(read_counter(begun, "begun"), _read_vector(vector))
    manifest.through = read_u64(through, "through")
    manifest.saved_ms = read_u64(saved_ms, "time")
    manifest.block_files = paired(read_column(blocks, "block files", 2))
    manifest.state_files = paired(read_column(states, "state files", 2))
    manifest.members = read_members(members)
    for _ in range(read_u64(records, "count of records")):
        kind, payload = read_row(rows.next(), 2, "record")
        manifest.records.append((read_u64(kind, "kind"), read_bytes(payload, "record")))
    for _ in range(read_u64(milestones, "count of milestones")):
        position, seen = read_row(rows.next(), 2, "milestone")
        manifest.milestones.append((read_counter(position, "milestone"), _read_vector(seen)))
    rows.end()
    return manifest


def read_members(value: object) -> list[MemberRow]:
    numbers = read_column(value, "members", 3)
    rows = list(zip(numbers[0::3], numbers[1::3], numbers[2::3], strict=True))
    for slot, sponsor, counter in rows:
        read_slot(slot, "member")
        if sponsor not in (EVICTED, FOLLOWED):
            read_slot(sponsor - FOLLOWED if sponsor > FOLLOWED else sponsor, "sponsor")
        if sponsor != EVICTED:
            read_counter(counter, "counter of a join")
    return rows


def _vector_column(vector: VersionVector) -> bytes:
    return column(flat(vector.items()))


def _read_vector(value: object) -> VersionVector:
    vector = VersionVector()
    for slot, counter in paired(read_column(value, "vector", 2)):
        vector.advance(read_slot(slot, "vector"), read_counter(counter, "vector"))
    return vector
