"""Backups beside turns: what a failure leaves, and that one moment is described however much is written meanwhile."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from crdtstream.core.entries.block import BLOCK_ENTRIES
from crdtstream.runtime import backups as backups_module
from crdtstream.runtime import saver as saver_module
from crdtstream.runtime.backups import target_of
from crdtstream.settings.config import Limits
from crdtstream.storage.backup import BackupError, check_files, read_description
from crdtstream.storage.disk import DiskFailed, OpenFile, RealDisk
from tests.core.spilled_blocks import SlowFile, spill_all
from tests.running_region import Running, config_of, running, until

SMALL = Limits(stop_checkpoint_ms_max=0, digest_entries_max=1)


async def add(region: Running, count: int) -> None:
    wire = await region.connect()
    for number in range(count):
        assert (await wire.ask("XADD", f"x{number % 5}", "*", "f", "v" * 100)).startswith(b"$")
        await wire.line()


async def test_it_describes_one_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More is written while the state is summed up, and while files are copied."""
    monkeypatch.setattr(backups_module, "SLICE_ENTRIES", 1)
    async with running(config_of(tmp_path, SMALL, backup_directory=str(tmp_path / "backups"))) as region:
        await add(region, 50)
        wire = await region.connect()
        await wire.send(b"CRDT.BACKUP a\r\n")
        await add(region, 100)
        assert await wire.line() == b"*8\r\n"
    description = read_description(str(tmp_path / "backups" / "a"))
    check_files(str(tmp_path / "backups" / "a"), description)
    assert 50 <= sum(description.vector.values()) <= 160


async def test_a_failure_is_told_and_leaves_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(source: str, path: str, size_bytes: int | None = None) -> None:
        raise DiskFailed(f"no room for {size_bytes} bytes of {source} in {path}: simulated")

    monkeypatch.setattr(backups_module, "copy_file", fail)
    async with running(config_of(tmp_path, SMALL, backup_directory=str(tmp_path / "backups"))) as region:
        await add(region, 5)
        wire = await region.connect()
        assert (await wire.ask("CRDT.BACKUP", "a")).startswith(b"-ERR the backup failed: no room")
        assert list((tmp_path / "backups" / "a").iterdir()) == []
        monkeypatch.undo()
        assert await wire.ask("CRDT.BACKUP", "a") == b"*8\r\n"


async def test_a_checkpoint_that_fails_is_the_end_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_disk: RealDisk, _name: str, _data: bytes) -> None:
        raise DiskFailed("no room: simulated")

    monkeypatch.setattr(RealDisk, "replace", fail)
    async with running(config_of(tmp_path, SMALL, backup_directory=str(tmp_path / "backups"))) as region:
        await add(region, 5)
        wire = await region.connect()
        assert (await wire.ask("CRDT.BACKUP", "a")).startswith(b"-ERR the backup failed: its checkpoint failed")
    assert not (tmp_path / "backups").exists()


async def test_a_stop_meanwhile_leaves_no_backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for the file that is being copied, not for the others."""
    began = asyncio.Event()

    async def never(*_given: object) -> None:
        began.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(backups_module.Backups, "_digest", never)
    async with running(config_of(tmp_path, SMALL, backup_directory=str(tmp_path / "backups"))) as region:
        await add(region, 5)
        wire = await region.connect()
        await wire.send(b"CRDT.BACKUP a\r\n")
        await began.wait()
    with pytest.raises(BackupError, match="holds no whole backup"):
        read_description(str(tmp_path / "backups" / "a"))


@pytest.mark.parametrize("is_damaged", [False, True])
async def test_what_was_spilled_without_its_sum_is_read_beside_the_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_damaged: bool
) -> None:
    monkeypatch.setattr(saver_module, "SUMMED_BYTES_A_S", -1)
    monkeypatch.setattr(OpenFile, "at_once", lambda *_: None)
    async with running(config_of(tmp_path, SMALL, backup_directory=str(tmp_path / "backups"))) as region:
        await add(region, 5 * 3 * BLOCK_ENTRIES)
        node = region.loop.node
        assert spill_all(node.replica.keyspace, SlowFile(), node.open_blocks, sums=False) >= 10
        if is_damaged:
            monkeypatch.setattr(OpenFile, "read", lambda _self, _offset, length: bytes(length))
        wire = await region.connect()
        answer = await wire.ask("CRDT.BACKUP", "a")
        assert answer.startswith(b"-ERR the backup failed: damage in" if is_damaged else b"*8")
        assert node.replica.reads.waited == 0
        assert node.context.block_reads.read_blocks >= (1 if is_damaged else 10)
        assert node.replica.keyspace.digests == 0


async def test_several_at_once(tmp_path: Path) -> None:
    async with running(config_of(tmp_path, SMALL, backup_directory=str(tmp_path / "backups"))) as region:
        await add(region, 5)
        wires = [await region.connect() for _ in range(3)]
        for number, wire in enumerate(wires):
            await wire.send(b"CRDT.BACKUP %d\r\n" % number)
        assert [await wire.line() for wire in wires] == [b"*8\r\n"] * 3
        await until(lambda: not region.loop.node.saving.running, "the checkpoint ends")
    for number in range(3):
        read_description(str(tmp_path / "backups" / str(number)))


def test_where_a_client_may_have_it(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "out").symlink_to(tmp_path)
    root = str(tmp_path / "root")
    assert target_of(root, "a/b") == f"{root}/a/b" == target_of(root, f"{root}/a/b")
    for wanted in (".", "..", "../root-2", "/etc", "out/x", f"{root}/../x"):
        with pytest.raises(BackupError, match="is not below"):
            target_of(root, wanted)
