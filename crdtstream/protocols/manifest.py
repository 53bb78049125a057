"""The manifest of a checkpoint: which files belong to it, and the state of the node outside its streams.

Log positions are inclusive. The vector, the members, the births and the milestones are those at `begun`; each stream is
at its own position from `begun` to `through`. So the log is replayed from `begun + 1` on. The log was durable up to
`through` before the manifest was written.

The encoding is: magic, format version, checksum of the rest, rows. The version is checked before the checksum, because
another format may use another checksum.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final

import msgpack

from crdtstream.core.members import MemberRow
from crdtstream.core.values.causality import VersionVector
from crdtstream.protocols.columns import (
    CodecError,
    column,
    flat,
    paired,
    read_bytes,
    read_column,
    read_counter,
    read_origin,
    read_u64,
    read_vector,
    vector_column,
)
from crdtstream.protocols.member_rows import member_column, read_members
from crdtstream.protocols.rows import Rows

FORMAT_VERSION: Final = 3

_MAGIC: Final = b"CRDTCKP\n"
_HEAD: Final = struct.Struct("<8sII")

Milestone = tuple[int, VersionVector]


class UnknownFormat(CodecError):
    """The manifest was written by a release that uses another format."""


class Manifest:
    """The manifest of one checkpoint; files are given as (number, size in bytes)."""

    __slots__ = (
        "begun",
        "block_files",
        "contexts",
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
        self.contexts: dict[int, VersionVector] = {}
        self.members: list[MemberRow] = []
        self.saved_ms = 0
        self.records: list[tuple[int, bytes]] = []
        self.milestones: list[Milestone] = []
        self.block_files: list[tuple[int, int]] = []
        self.state_files: list[tuple[int, int]] = []


def encode_manifest(manifest: Manifest) -> bytes:
    packer = msgpack.Packer(autoreset=False)
    files = (column(flat(manifest.block_files)), column(flat(manifest.state_files)))
    counts = (len(manifest.contexts), len(manifest.records), len(manifest.milestones))
    head = (manifest.begun, manifest.through, manifest.saved_ms, vector_column(manifest.vector))
    members = member_column(manifest.members)
    packer.pack((*head, *files, members, *counts))
    for origin, context in sorted(manifest.contexts.items()):
        packer.pack((origin, vector_column(context)))
    for kind, payload in manifest.records:
        packer.pack((kind, payload))
    for position, vector in manifest.milestones:
        packer.pack((position, vector_column(vector)))
    body = packer.bytes()
    return _HEAD.pack(_MAGIC, FORMAT_VERSION, zlib.crc32(body)) + body


def decode_manifest(data: bytes) -> Manifest:
    if len(data) <= _HEAD.size or not data.startswith(_MAGIC):
        raise CodecError("it is not a manifest")
    _, version, checksum = _HEAD.unpack_from(data)
    if version != FORMAT_VERSION:
        raise UnknownFormat(f"it has format {version} and this release reads format {FORMAT_VERSION}")
    body = data[_HEAD.size :]
    if zlib.crc32(body) != checksum:
        raise CodecError("its checksum is wrong")
    rows = Rows(body)
    head = rows.row(10, "manifest")
    begun, through, saved_ms, vector, blocks, states, members, contexts, records, milestones = head
    manifest = Manifest(read_counter(begun, "begun"), read_vector(vector))
    manifest.through = read_u64(through, "through")
    manifest.saved_ms = read_u64(saved_ms, "time")
    manifest.block_files = paired(read_column(blocks, "block files", 2))
    manifest.state_files = paired(read_column(states, "state files", 2))
    manifest.members = read_members(members)
    for _ in range(read_u64(contexts, "count of contexts")):
        origin, context = rows.row(2, "context")
        manifest.contexts[read_origin(origin, "context")] = read_vector(context)
    for _ in range(read_u64(records, "count of records")):
        kind, payload = rows.row(2, "record")
        manifest.records.append((read_u64(kind, "kind"), read_bytes(payload, "record")))
    for _ in range(read_u64(milestones, "count of milestones")):
        position, seen = rows.row(2, "milestone")
        manifest.milestones.append((read_counter(position, "milestone"), read_vector(seen)))
    rows.end()
    return manifest
