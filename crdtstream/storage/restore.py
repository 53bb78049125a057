"""The start of a node from its disk: the checkpoint, if there is one, then the log behind it.

The manifest names the checkpoint's files, and checksums cover their whole content. Any corruption stops the start, with
file and offset, because the log that the checkpoint replaced may be gone. A region that spills reads packed blocks only
when they are opened, so corruption of one is found then.
"""

from __future__ import annotations

from crdtstream.core.entries.block import Block
from crdtstream.core.entries.packed_block import BlockDamaged
from crdtstream.core.entries.spilled import PLACE_BITS
from crdtstream.protocols.columns import CodecError
from crdtstream.protocols.manifest import Manifest, UnknownFormat, decode_manifest
from crdtstream.protocols.rows import Rows
from crdtstream.protocols.state_rows import StateReader
from crdtstream.storage.block_files import BlockReader
from crdtstream.storage.checkpoint import MANIFEST, Checkpointer, block_file, state_file
from crdtstream.storage.disk import Disk
from crdtstream.storage.log import Log, open_log
from crdtstream.storage.recovery import CheckpointDamaged
from crdtstream.storage.sections import read_sections, read_version
from crdtstream.storage.segment import FormatUnknown
from crdtstream.storage.stored import Stored, does_spill


def open_storage(
    disk: Disk, stored: Stored, *, salt: int, segment_bytes_max: int, with_sums: bool = True
) -> tuple[Log, Checkpointer]:
    """Restore `stored` from its disk, and delete files of an unfinished checkpoint. Without the sums that it has of
    spilled blocks, a digest reads them all.
    """
    try:
        manifest, old = load_checkpoint(disk, stored, with_sums)
        log = replay_log(disk, stored, manifest, salt, segment_bytes_max)
    except BlockDamaged as damaged:
        raise block_damaged(damaged) from damaged
    checkpointer = Checkpointer(disk, log, stored, manifest, old)
    checkpointer.clean()
    stored.open_blocks.reads.forget_counts()
    return log, checkpointer


def replay_log(disk: Disk, stored: Stored, manifest: Manifest | None, salt: int, segment_bytes_max: int) -> Log:
    begun, through = (0, 0) if manifest is None else (manifest.begun, manifest.through)
    return open_log(
        disk,
        stored.recover,
        salt=salt,
        segment_bytes_max=segment_bytes_max,
        position_from=begun + 1,
        durable=through,
    )


def block_damaged(damaged: BlockDamaged) -> CheckpointDamaged:
    """The error of a start that has to unpack a damaged block: because a tree was trimmed inside it, or because the log
    removes entries of it.
    """
    block, offset = damaged.block, 0
    place = block.place if isinstance(block, Block) else 0
    if block.handle is not None:
        place, offset = block.handle.place, block.handle.offset
    number, index = place >> PLACE_BITS, place & ((1 << PLACE_BITS) - 1)
    return CheckpointDamaged(block_file(number), offset, f"block {index} of the file, {damaged.reason}")


def load_checkpoint(disk: Disk, stored: Stored, with_sums: bool) -> tuple[Manifest | None, set[int]]:
    """Restore what the checkpoint has; returns its manifest, and which block files are in an old format."""
    if MANIFEST not in disk.names():
        return None, set()
    manifest = read_manifest(disk)
    stored.restore(manifest)
    blocks = BlockReader(disk, stored.open_blocks, does_spill(stored), with_sums)
    for number, byte_count in manifest.block_files:
        blocks.read(block_file(number), number, byte_count)
    reader = StateReader(blocks.blocks)
    for number, byte_count in manifest.state_files:
        name = state_file(number)
        version = read_version(disk, name, number)
        for offset, payload in read_sections(disk, name, number, byte_count, version):
            read_state(name, offset, payload, reader, stored)
    if manifest.state_files:
        read_last_section(state_file(manifest.state_files[-1][0]), reader, stored)
    return manifest, blocks.old


def read_manifest(disk: Disk) -> Manifest:
    try:
        return decode_manifest(disk.read(MANIFEST, 0, disk.size(MANIFEST)))
    except UnknownFormat as unknown:
        raise FormatUnknown(f"{MANIFEST}: {unknown}: run the release that wrote it, or a newer one") from unknown
    except CodecError as error:
        raise CheckpointDamaged(MANIFEST, 0, str(error)) from error


def read_state(name: str, offset: int, payload: bytes, reader: StateReader, stored: Stored) -> None:
    """Restore every stream of a section except the last, which may continue in the next section."""
    restore = stored.restore_key
    try:
        rows = Rows(payload)
        while not rows.done():
            done = reader.add(rows.next())
            if done is not None:
                restore(*done)
    except CodecError as error:
        raise CheckpointDamaged(name, offset, str(error)) from error


def read_last_section(name: str, reader: StateReader, stored: Stored) -> None:
    try:
        done = reader.end()
    except CodecError as error:
        raise CheckpointDamaged(name, 0, str(error)) from error
    if done is not None:
        stored.restore_key(*done)
