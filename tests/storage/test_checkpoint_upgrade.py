"""A directory as releases before left it: started from, and continued, until none of its files is in use.

Blocks have their real size here, so that compiled code is tested as well.
"""

from __future__ import annotations

from array import array

import msgpack
import pytest

from crdtstream.core.entries.packed_block import OpenBlockCache
from crdtstream.core.entries.spilled import PLACE_BITS
from crdtstream.core.values.entry_id import STRICT
from crdtstream.protocols.columns import read_column
from crdtstream.protocols.manifest import encode_manifest
from crdtstream.protocols.rows import Row, Rows
from crdtstream.protocols.state_rows import tree_row
from crdtstream.storage import checkpoint
from crdtstream.storage.block_files import BlockReader
from crdtstream.storage.blocks import RAW_FORMAT
from crdtstream.storage.checkpoint import MANIFEST, block_file, state_file
from crdtstream.storage.restore import read_manifest
from crdtstream.storage.sections import FORMAT_VERSION, read_sections, read_version
from simulations.cluster import Cluster
from simulations.disk import SimulatedDisk
from simulations.machine import Machine
from simulations.portrait import lasting
from tests.storage.old_blocks import (
    OLD_HEADER_BYTES,
    as_format_2,
    packed_as_format_3,
    raw_as_format_3,
    write_old_file,
)
from tests.storage.test_checkpoint import LIMITS, fill, same

TREE = tree_row(0, 0, array("Q"))[0]


def downgrade_blocks(
    disk: SimulatedDisk, version: int, number: int, byte_count: int, places: dict[int, int]
) -> tuple[int, int]:
    """Note in `places` where each block lies now."""
    name = block_file(number)
    reader = BlockReader(disk, OpenBlockCache(1 << 20), False)
    reader.read(name, number, byte_count)
    data = b""
    for index, (place, block) in enumerate(sorted(reader.blocks.items())):
        old_place = OLD_HEADER_BYTES + len(data) if version == RAW_FORMAT else index
        places[place] = number << PLACE_BITS | old_place
        if version == RAW_FORMAT:
            data += as_format_2(block, block.count)
        else:
            data += packed_as_format_3(block) if block.is_packed else raw_as_format_3(block, block.count)
    return write_old_file(disk, name, number, version, data)


def downgrade_state(
    disk: SimulatedDisk, version: int, number: int, byte_count: int, places: dict[int, int]
) -> tuple[int, int]:
    name = state_file(number)
    data = b""
    for _, payload in read_sections(disk, name, number, byte_count, FORMAT_VERSION):
        rows = Rows(payload)
        while not rows.done():
            data += msgpack.packb(moved(rows.next(), places))
    return write_old_file(disk, name, number, version, data)


def moved(row: Row, places: dict[int, int]) -> Row:
    if row[0] != TREE:
        return row
    _, origin, head, blocks = row
    assert isinstance(origin, int) and isinstance(head, int)
    return tree_row(origin, head, array("Q", [places[place] for place in read_column(blocks, "places")]))


def downgrade(disk: SimulatedDisk, version: int) -> None:
    """Everything that the manifest names becomes this format."""
    manifest = read_manifest(disk)
    places: dict[int, int] = {}
    manifest.block_files = [downgrade_blocks(disk, version, *each, places) for each in manifest.block_files]
    manifest.state_files = [downgrade_state(disk, version, *each, places) for each in manifest.state_files]
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


@pytest.mark.parametrize("version", [RAW_FORMAT, 3])
def test_a_region_goes_on_from_files_of_both_formats(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next checkpoints rewrite what is old, as far as a checkpoint copies; a single file at least."""
    monkeypatch.setattr(checkpoint, "FILE_BYTES_MAX", 1 << 16)
    monkeypatch.setattr(checkpoint, "SECTION_BYTES_MAX", 1 << 14)
    monkeypatch.setattr(checkpoint, "COPIED_BYTES_MAX", 1)
    cluster = Cluster(1, STRICT, limits=LIMITS)
    region = cluster.machines[1]
    fill(cluster, 4_000)
    region.checkpoint()
    downgrade(region.disk, version)
    assert block_formats(region) == {version}
    restart(cluster)
    region.checkpoint()
    assert block_formats(region) == {version, FORMAT_VERSION}
    restart(cluster)
    fill(cluster, 1_000)
    checkpoints = 0
    while block_formats(region) != {FORMAT_VERSION}:
        region.checkpoint()
        checkpoints += 1
        restart(cluster)
    assert 1 < checkpoints < 20


def test_old_files_wait_for_room() -> None:
    cluster = Cluster(1, STRICT, limits=LIMITS)
    region = cluster.machines[1]
    fill(cluster, 4_000)
    region.checkpoint()
    downgrade(region.disk, 3)
    restart(cluster)
    region.disk.capacity_bytes = region.disk.used_bytes() + 20_000
    fill(cluster, 10)
    region.checkpoint()
    assert block_formats(region) == {3, FORMAT_VERSION}
    region.disk.capacity_bytes = None
    region.checkpoint()
    assert block_formats(region) == {FORMAT_VERSION}
    restart(cluster)
