"""A directory as the release before left it: started from, and continued, until files of both formats are in use.

Blocks have their real size here, so that nothing has to be replaced and compiled code is tested as well.
"""

from __future__ import annotations

from array import array

import msgpack

from crdtstream.core.entries.packed_block import OpenBlockCache
from crdtstream.core.values.entry_id import STRICT
from crdtstream.protocols.columns import read_column
from crdtstream.protocols.manifest import encode_manifest
from crdtstream.protocols.rows import Row, Rows
from crdtstream.protocols.state_rows import tree_row
from crdtstream.storage.blocks import PLACE_BITS, RAW_FORMAT, BlockPacker, BlockReader
from crdtstream.storage.checkpoint import MANIFEST, block_file, state_file
from crdtstream.storage.checksums import crc32
from crdtstream.storage.restore import read_manifest
from crdtstream.storage.sections import (
    FORMAT_VERSION,
    HEADER_BYTES,
    SECTION_BYTES,
    Draft,
    read_sections,
    read_version,
    write_section,
)
from simulations.cluster import Cluster
from simulations.disk import SimulatedDisk
from simulations.machine import Machine
from simulations.portrait import lasting
from tests.storage.test_blocks import as_format_2
from tests.storage.test_checkpoint import LIMITS, fill, run, same

TREE = tree_row(0, 0, array("Q"))[0]


def write_format_2(disk: SimulatedDisk, name: str, number: int, payload: bytes) -> tuple[int, int]:
    """Put this in place of a file, as one section; return how the manifest names it."""
    disk.delete(name)
    draft = Draft(name, number)
    draft.add([payload])
    write_section(disk, draft.drain(), BlockPacker())
    head = disk.read(name, 0, 8) + RAW_FORMAT.to_bytes(4, "little") + number.to_bytes(8, "little")
    disk.write(name, 0, head + crc32(head, 0).to_bytes(4, "little"))
    return number, draft.byte_count


def downgrade_blocks(disk: SimulatedDisk, number: int, byte_count: int, places: dict[int, int]) -> tuple[int, int]:
    """Note in `places` where each block lies now."""
    name = block_file(number)
    reader = BlockReader(OpenBlockCache(1 << 20))
    reader.begin(name, number, FORMAT_VERSION)
    for offset, payload in read_sections(disk, name, number, byte_count):
        reader.add_section(offset, payload)
    data = b""
    for place, block in reader.blocks.items():
        places[place] = number << PLACE_BITS | HEADER_BYTES + SECTION_BYTES + len(data)
        data += as_format_2(block, block.count)
    return write_format_2(disk, name, number, data)


def downgrade_state(disk: SimulatedDisk, number: int, byte_count: int, places: dict[int, int]) -> tuple[int, int]:
    name = state_file(number)
    data = b""
    for _, payload in read_sections(disk, name, number, byte_count):
        rows = Rows(payload)
        while not rows.done():
            data += msgpack.packb(moved(rows.next(), places))
    return write_format_2(disk, name, number, data)


def moved(row: Row, places: dict[int, int]) -> Row:
    if row[0] != TREE:
        return row
    _, origin, head, blocks = row
    assert isinstance(origin, int) and isinstance(head, int)
    return tree_row(origin, head, array("Q", [places[place] for place in read_column(blocks, "places")]))


def downgrade(disk: SimulatedDisk) -> None:
    """Everything that the manifest names becomes format 2."""
    manifest = read_manifest(disk)
    places: dict[int, int] = {}
    manifest.block_files = [downgrade_blocks(disk, *each, places) for each in manifest.block_files]
    manifest.state_files = [downgrade_state(disk, *each, places) for each in manifest.state_files]
    disk.replace(MANIFEST, encode_manifest(manifest))


def block_formats(region: Machine) -> set[int]:
    files = read_manifest(region.disk).block_files
    return {read_version(region.disk, block_file(number), number) for number, _ in files}


def restart(cluster: Cluster) -> None:
    """From what is on disk comes what was."""
    region = cluster.machines[1]
    before = lasting(region.node)
    cluster.restart(1)
    assert same(lasting(region.node), before)
    region.node.check()


def test_a_region_goes_on_from_files_of_both_formats() -> None:
    cluster = Cluster(1, STRICT, limits=LIMITS)
    region = cluster.machines[1]
    fill(cluster, 4_000)
    region.checkpoint()
    downgrade(region.disk)
    assert block_formats(region) == {RAW_FORMAT}
    restart(cluster)
    fill(cluster, 1_000)
    region.checkpoint()
    assert block_formats(region) == {RAW_FORMAT, FORMAT_VERSION}
    restart(cluster)
    run(cluster, "XTRIM x MAXLEN 12")
    run(cluster, "DEL y")
    for _ in range(2):  # the second one rewrites what lies in files that are little in use
        region.checkpoint()
    assert block_formats(region) == {FORMAT_VERSION}
    restart(cluster)
