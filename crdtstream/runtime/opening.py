"""Opening the storage of a region: its state is restored from the disk."""

from __future__ import annotations

import gc
import secrets
import time

import structlog

from crdtstream import __version__
from crdtstream.region.node import Node
from crdtstream.runtime import process
from crdtstream.storage.checkpoint import Checkpointer
from crdtstream.storage.disk import DiskError, RealDisk
from crdtstream.storage.log import Log
from crdtstream.storage.release import read_release, record_release
from crdtstream.storage.restore import open_storage
from crdtstream.storage.segment import FormatUnknown
from crdtstream.storage.staged_blocks import StagedBlocks

logger = structlog.get_logger()


def open_region(disk: RealDisk, node: Node, segment_bytes_max: int) -> tuple[Log, Checkpointer]:
    """Restore the state. The garbage collector is off meanwhile, and then ignores what was restored: none of it is
    garbage.
    """
    began_s = time.monotonic()
    salt = secrets.randbelow(2**32 - 1) + 1
    # Millions of live objects are created here; a collection would visit all of them and free none.
    gc.disable()
    staged = node.exchange.fetching.blocks = StagedBlocks(disk, node.open_blocks, lambda: node.limits.hot_bytes_max)
    try:
        staged.end()  # of a transfer that this process does not know
        log, checkpointer = open_storage(disk, node, salt=salt, segment_bytes_max=segment_bytes_max)
    except FormatUnknown as unknown:
        release = read_release(disk)
        if not release:
            raise
        text = f"release {release} was the last one to write to {disk.path}, and this is {__version__}"
        raise FormatUnknown(f"{unknown}; {text}") from unknown
    finally:
        gc.enable()
    gc.freeze()
    begun = 0 if checkpointer.manifest is None else checkpointer.manifest.begun
    seconds = round(time.monotonic() - began_s, 3)
    logger.info("disk-read", checkpoint=begun, records=log.last_position - begun, seconds=seconds)
    log.sync()
    try:
        record_release(disk)
    except DiskError as error:
        logger.warning("release-unwritten", reason=str(error))
    process.give_back(time.monotonic())
    return log, checkpointer
