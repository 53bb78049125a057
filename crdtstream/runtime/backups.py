"""Takes backups of the running region: after a checkpoint, the files of that checkpoint and the log behind it.

The moment of a backup is fixed between two turns, together with that of a digest. The log is synced up to there before
it is copied, and files are written on a thread, one after the other. So a backup holds every write that was answered
before it was requested, and the region serves meanwhile.

Only what lies below `backup_directory` is written to: a client must not choose where a region writes.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

import structlog

from crdtstream import __version__
from crdtstream.connections.saving import Backup
from crdtstream.core.digest import Digesting
from crdtstream.core.entries.packed_block import BlockDamaged
from crdtstream.core.values.causality import origin_name
from crdtstream.region.node import Node
from crdtstream.runtime.blocked_turn import Unsettled
from crdtstream.settings.sharding import number_of
from crdtstream.storage.backup import (
    BackupError,
    BackupFiles,
    Description,
    File,
    copy_file,
    discard,
    formats,
    link_or_copy,
    make_target,
    write_description,
)
from crdtstream.storage.checkpoint import Checkpointer
from crdtstream.storage.log import Log

SLICE_ENTRIES = 1000
REST_S = 0.002
# The name of the deferred task that digests the state for a backup.
DIGESTS = "backup"

logger = structlog.get_logger()


class RunningBackup(Protocol):
    """Runs work on a thread."""

    def __call__(self, work: Callable[[], Any], /) -> Awaitable[Any]: ...


class Moment:
    """The moment of a backup: where the log ended, and what the region had applied."""

    __slots__ = ("digesting", "position", "segments", "vector")

    def __init__(self, digesting: Digesting, position: int, segments: list[tuple[str, int]]) -> None:
        assert digesting.vector is not None
        self.digesting = digesting
        self.position = position
        self.segments = segments
        self.vector = {origin_name(origin): counter for origin, counter in digesting.vector.items()}


class Backups:
    """The backups of one region; `flush` runs a turn, so that everything done so far is in the log, or raises."""

    def __init__(
        self,
        node: Node,
        log: Log,
        checkpointer: Checkpointer,
        flush: Callable[[], None],
        on_thread: RunningBackup,
        now_ms: Callable[[], int],
    ) -> None:
        self._node = node
        self._log = log
        self._checkpointer = checkpointer
        self._flush = flush
        self._on_thread = on_thread
        self._now_ms = now_ms

    async def make(self, backup: Backup) -> None:
        """Take a backup right after a checkpoint, before the next one; the client learns of a failure."""
        config = self._node.settings.config
        try:
            target = target_of(config.backup_directory, os.fsdecode(backup.wanted))
            directories = await self._on_thread(partial(make_target, target))
            await self._fill(backup, target, directories)
        except (BackupError, BlockDamaged, Unsettled, OSError) as error:
            logger.error("backup-failed", directory=os.fsdecode(backup.wanted), reason=str(error))
            self._node.backup_ended(backup, f"the backup failed: {error}")
        else:
            logger.info("backup-taken", directory=target, bytes=backup.byte_count, position=backup.position)
            self._node.backup_ended(backup)

    async def _fill(self, backup: Backup, target: str, directories: list[str]) -> None:
        digesting = Digesting(self._node.replica)
        try:
            moment = await self._fix(digesting)
            files = await self._copy(target, moment)
            await self._digest(digesting)
            await self._on_thread(partial(write_description, target, self._describe(moment, files), directories))
        except Exception:
            with suppress(OSError):
                await self._on_thread(partial(discard, target))
            raise
        finally:
            digesting.release()
            self._node.context.deferred_work.forget(DIGESTS)
        backup.directory, backup.position = target, moment.position
        backup.files, backup.byte_count = len(files), sum(file.size_bytes for file in files)

    async def _fix(self, digesting: Digesting) -> Moment:
        """Sum up the state, until all that is left belongs to one moment; then that moment is durable."""
        while True:
            self._flush()
            self._step(digesting)
            if digesting.is_fixed():
                break
            await asyncio.sleep(REST_S)
        manifest = self._checkpointer.manifest
        assert manifest is not None
        moment = Moment(digesting, self._log.last_position, self._log.extents(manifest.begun + 1))
        self._node.synced(await self._on_thread(self._log.sync))
        return moment

    async def _copy(self, target: str, moment: Moment) -> list[File]:
        data, manifest = self._node.settings.config.data, self._checkpointer.manifest
        assert manifest is not None
        pieces = BackupFiles(manifest, moment.segments)
        files = [await self._on_thread(partial(link_or_copy, data, target, name)) for name in pieces.whole]
        for name, end in pieces.segments:
            source, path = os.path.join(data, name), os.path.join(target, name)
            files.append(await self._on_thread(partial(copy_file, source, path, end)))
        return files

    async def _digest(self, digesting: Digesting) -> None:
        self._step(digesting)
        while not digesting.done:
            await asyncio.sleep(REST_S)
            self._step(digesting)

    def _step(self, digesting: Digesting) -> None:
        """Go on for a slice, unless spilled blocks are read for it."""
        work = partial(digesting.step, SLICE_ENTRIES)
        self._node.context.deferred_work.run(DIGESTS, work, is_patient=False)

    def _describe(self, moment: Moment, files: list[File]) -> Description:
        config, digest = self._node.settings.config, moment.digesting.digest
        assert digest is not None
        shards = self._node.context.shards
        return Description(
            region=config.region,
            name=config.name,
            cluster=config.cluster,
            id_mode=config.id_mode,
            origin=origin_name(self._node.replica.applied.origin),
            position=moment.position,
            vector=moment.vector,
            digest=digest.hex(),
            taken_ms=self._now_ms(),
            release=__version__,
            formats=formats(),
            files=files,
            shard=number_of(config),
            shards=config.shards,
            epoch=0 if shards is None else shards.epoch,
        )


def target_of(allowed: str, wanted: str) -> str:
    """The directory that a client named, if it lies below the one where backups are allowed."""
    root = os.path.realpath(allowed)
    target = os.path.realpath(os.path.join(root, wanted))
    if target == root or os.path.commonpath([root, target]) != root:
        raise BackupError(f"{wanted} is not below {root}: name a directory below the region's --backup-directory")
    return target
