"""Logs on simulated disks, turns of records for them, and calls of the kernel that fail."""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random
from typing import NoReturn

from crdtstream.protocols.log_port import NewRecord
from crdtstream.storage.disk import Disk
from crdtstream.storage.log import Log, open_log
from simulations.disk import SimulatedDisk

SALT = 0x5EED5A17
SEGMENT_BYTES = 20_000
Kept = list[NewRecord]


def opened(disk: Disk, segment_bytes_max: int = SEGMENT_BYTES, position_from: int = 1) -> tuple[Log, Kept]:
    kept: Kept = []

    def replay(position: int, kind: int, payload: bytes) -> None:
        assert position == position_from + len(kept)
        kept.append((kind, payload))

    log = open_log(disk, replay, salt=SALT, segment_bytes_max=segment_bytes_max, position_from=position_from)
    log.check()
    return log, kept


def read_all(log: Log, position: int, bytes_max: int) -> Kept:
    found: Kept = []
    while records := log.read(position, bytes_max):
        for number, kind, payload in records:
            assert number == position
            found.append((kind, payload))
            position += 1
    return found


def turn(count: int, size: int = 100, start: int = 0) -> Kept:
    return [((start + i) % 7, b"%d:" % (start + i) + b"p" * size) for i in range(count)]


def failing(number: int) -> Callable[..., NoReturn]:
    """A system call that fails with this error."""

    def fail(*_: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    return fail


class Run:
    """A log under random turns, syncs, kills and crashes, against a list of what was appended.

    With a MortalDisk the power also goes inside an append, a sync or a recovery.
    """

    def __init__(self, disk: SimulatedDisk) -> None:
        self.disk = disk
        self.appended: Kept = []
        self.synced = 0
        self.serial = 0
        self.log, _ = opened(disk)

    def step(self, action: str, random: Random) -> None:
        if action == "append":
            self.append(random)
        elif action == "sync":
            self.synced = self.log.sync()
        elif action == "room":
            assert self.log.has_room(random.randrange(1, 2 * SEGMENT_BYTES))
        else:
            if action == "crash":
                self.disk.crash(random)
            self.reopen()
        self.log.check()
        self.disk.check()

    def append(self, random: Random) -> None:
        records: Kept = []
        for _ in range(random.randrange(1, 6)):
            self.serial += 1
            records.append((random.randrange(9), b"%d:" % self.serial + bytes(random.choice((0, 50, 3_000, 9_000)))))
        self.appended += records
        assert self.log.append(records) == len(self.appended)

    def reopen(self) -> None:
        self.log, kept = opened(self.disk)
        assert len(kept) >= self.synced, "a synced record is gone"
        assert kept == self.appended[: len(kept)], "what is read back was not appended like that"
        assert (self.log.last_position, self.log.synced_position) == (len(kept), len(kept))
        self.appended = kept
        self.synced = len(kept)
        assert read_all(self.log, 1, 20_000) == kept
