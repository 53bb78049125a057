"""Block files as releases before wrote them: formats 2 and 3, for tests of what still reads them."""

from __future__ import annotations

import struct

from crdtstream.core.entries.block import Block
from crdtstream.core.entries.packed_block import Codec, folded
from crdtstream.protocols.columns import column_bytes
from crdtstream.storage.checksums import crc32
from simulations.disk import SimulatedDisk

_HEADER = struct.Struct("<8sIQ")
_SECTION = struct.Struct("<IQ")
_PACKED = struct.Struct("<B8Q16s")
OLD_HEADER_BYTES = _HEADER.size + 4 + _SECTION.size


def as_format_2(block: Block, count: int) -> bytes:
    data = block.entry_slice(0, count)
    ms_base, counter_base, columns = block.kept(count)
    widths = bytes([column.itemsize if column else 0 for column in columns])
    head = struct.pack("<4Q4s", count, len(data), ms_base, counter_base, widths)
    return b"".join([head, *[column_bytes(column) for column in columns], data])


def raw_as_format_3(block: Block, count: int) -> bytes:
    return b"\0" + as_format_2(block, count)


def packed_as_format_3(block: Block) -> bytes:
    """A block that has its packed form, or that gets one here, but not in column layout."""
    ms_base, counter_base = block.bases()
    form = block.packed_form
    packed, layout = (form.packed, form.in_column_layout) if form is not None else (b"", False)
    listed, listed_sum = 0, 0
    if not packed:
        columns = block.kept(block.count)[2]
        packed = Codec().pack(folded(columns, block.data()))
        listed, listed_sum = (columns[2][0], sum(columns[2])) if columns[2] else (0, 0)
    elif form is not None:
        listed, listed_sum = form.first_listed, form.counter_sum
    flags = 1 | (2 if layout else 0) | (4 if block.lists_counters() else 0)
    about = (block.count, block.byte_count, ms_base, counter_base, len(packed))
    return _PACKED.pack(flags, *about, *block.id_at(0), listed, listed_sum.to_bytes(16, "little")) + packed


def write_old_file(disk: SimulatedDisk, name: str, number: int, version: int, payload: bytes) -> tuple[int, int]:
    """Put this in place of a file, as one section; return how the manifest names it."""
    disk.delete(name)
    head = _HEADER.pack(b"CRDTSEC\n", version, number)
    head += crc32(head, 0).to_bytes(4, "little")
    checksum = crc32(payload, (number * 0x9E3779B1 + len(head)) & 0xFFFFFFFF)
    data = head + _SECTION.pack(checksum, len(payload)) + payload
    disk.create(name, 0)
    disk.write(name, 0, data)
    disk.sync(name)
    return number, len(data)
