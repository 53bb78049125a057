"""Backups of a region of several shards: taken under load, one shard killed meanwhile, checked, restored, started."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from crdtstream.admin import shard_backups
from crdtstream.admin.backups import NO_ANSWER, NOT_WHOLE, REFUSED, BackupRefusal
from crdtstream.admin.taking import request_backup
from crdtstream.cli.app import app
from crdtstream.observing.access import Access
from crdtstream.processes.clients import client_of
from crdtstream.processes.region import CLUSTER, RegionProcess
from crdtstream.processes.sharded import ShardedRegion
from crdtstream.processes.waiting import until
from crdtstream.storage.backup import link_or_copy

SHARDS = 3
# Keys of the shards 0, 1 and 2: their hash slots are 3300, 7365 and 15495.
KEYS = ("b", "c", "a")
# So many that a backup takes a while.
BEFORE = 60_000


def run(*words: object) -> Result:
    result = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "160"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def back_up(region: RegionProcess, to: Path, *more: object) -> Result:
    return run("backup", "--node", f"127.0.0.1:{region.port}", "--to", to, "--json", *more)


def states(result: Result) -> dict[int, str]:
    return {row["shard"]: row["state"] for row in json.loads(result.stdout)["backups"]}


class Writer(threading.Thread):
    """Adds entries to shards 0 and 2, until the end."""

    def __init__(self, region: ShardedRegion) -> None:
        super().__init__(daemon=True)
        self._region = region
        self._ends = threading.Event()
        self.acknowledged = 0

    def run(self) -> None:
        while not self._ends.is_set():
            for shard in (0, 2):
                self._region.ask_shard(shard, "XADD", KEYS[shard], "*", "n", self.acknowledged)
            self.acknowledged += 1

    def end(self) -> None:
        self._ends.set()
        self.join()


class Backups:
    """A region of three shards, its whole backup, and what the commands said on the way there."""

    def __init__(self, region: ShardedRegion, directory: Path, failed: Result, taken: Result) -> None:
        self.region = region
        self.directory = directory
        self.failed = failed
        self.taken = taken

    @property
    def rows(self) -> list[dict[str, Any]]:
        return list(json.loads(self.taken.stdout)["backups"])


def kill_within_backup(region: ShardedRegion, to: Path) -> Result:
    """Take a backup, and kill shard 1 once it has begun with its own."""
    found: list[Result] = []
    taking = threading.Thread(target=lambda: found.append(back_up(region, to)))
    process = region.process_of(1)
    taking.start()
    until((to / "shard-001").exists, "shard 1 has begun")
    os.kill(process, signal.SIGKILL)
    taking.join()
    return found[0]


@pytest.fixture(scope="module")
def backups(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backups]:
    directory = tmp_path_factory.mktemp("shards")
    with ShardedRegion(1, directory, SHARDS) as region:
        region.start(backup_directory=directory / "backups", id_mode="liberal")
        region.await_serving()
        with region.client() as client:
            assert [client.execute_command("CLUSTER", "KEYSLOT", key) for key in KEYS] == [3300, 7365, 15495]
        for shard, key in enumerate(KEYS):
            with client_of(region.port + shard) as client:
                pipeline = client.pipeline(transaction=False)
                for number in range(BEFORE if shard == 1 else 100):
                    pipeline.execute_command("XADD", key, f"{number + 1}-1", "n", number)
                pipeline.execute()
        writer = Writer(region)
        writer.start()
        failed = kill_within_backup(region, directory / "backups" / "monday")
        region.await_shard(1)
        taken = back_up(region, directory / "backups" / "monday")
        writer.end()
        assert writer.acknowledged
        yield Backups(region, directory / "backups" / "monday", failed, taken)


def test_a_shard_that_is_killed_meanwhile_is_taken_again_and_the_others_are_kept(backups: Backups) -> None:
    assert backups.failed.exit_code == NO_ANSWER, backups.failed.output
    assert states(backups.failed) == {0: "taken", 1: "failed", 2: "taken"}
    assert json.loads(backups.failed.stdout)["next"].startswith("Repeat the command")
    assert "shard 1: 127.0.0.1" in backups.failed.stderr and "did not answer" in backups.failed.stderr
    assert backups.taken.exit_code == 0, backups.taken.output
    assert states(backups.taken) == {0: "kept", 1: "taken", 2: "kept"}
    assert sorted(path.name for path in backups.directory.iterdir()) == ["shard-000", "shard-001", "shard-002"]
    assert [row["shards"] for row in backups.rows] == [SHARDS] * SHARDS


def test_a_whole_backup_is_not_taken_for_a_new_one(backups: Backups) -> None:
    again = back_up(backups.region, backups.directory)
    assert again.exit_code == REFUSED and "has a backup of every shard" in again.stderr


def test_what_is_restored_starts_with_the_digests_of_the_backup(backups: Backups, tmp_path: Path) -> None:
    result = run("restore", backups.directory, "--data", tmp_path / "region1", "--cluster", CLUSTER, "--json")
    assert result.exit_code == 0, result.output
    assert states(result) == dict.fromkeys(range(SHARDS), "restored")
    assert f"--shards {SHARDS}" in json.loads(result.stdout)["next"]
    with ShardedRegion(1, tmp_path, SHARDS - 1) as refused:
        refused.start(id_mode="liberal")
        assert refused.await_end() == 2 and f"was founded with --shards {SHARDS}, not 2" in refused.log()
    with ShardedRegion(1, tmp_path, SHARDS) as restored:
        restored.start(id_mode="liberal")
        restored.await_serving()
        assert [digest.decode() for digest in restored.digests()] == [row["digest"] for row in backups.rows]
        assert restored.ask_shard(1, "XLEN", KEYS[1]) == BEFORE


def test_it_is_checked_and_what_is_missing_or_damaged_is_named(backups: Backups, tmp_path: Path) -> None:
    assert run("backup", "--verify", backups.directory).exit_code == 0
    copy = Path(shutil.copytree(backups.directory, tmp_path / "copy"))
    shutil.rmtree(copy / "shard-002")
    result = run("backup", "--verify", copy, "--json")
    assert result.exit_code == NOT_WHOLE and states(result) == {0: "whole", 1: "whole", 2: "missing"}
    assert "has no backup of shard 2" in result.stderr and "--shard" in result.stderr
    assert run("backup", "--verify", copy, "--shard", "0-1").exit_code == 0
    assert run("backup", "--verify", copy, "--shard", "3").exit_code == REFUSED
    (file, *_) = (copy / "shard-000").glob("state-*")
    file.write_bytes(file.read_bytes() + b"x")
    result = run("backup", "--verify", copy, "--json")
    assert states(result) == {0: "failed", 1: "whole", 2: "missing"} and file.name in result.stderr
    (copy / "shard-001").rename(copy / "shard-002")
    result = run("backup", "--verify", copy, "--json")
    assert states(result)[2] == "failed" and "is a backup of shard 1 of 3" in result.stderr


def test_a_machine_with_some_of_the_shards_restores_these(backups: Backups, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(backups.directory, tmp_path / "copy"))
    shutil.rmtree(copy / "shard-000")
    result = run("restore", copy, "--data", tmp_path / "data")
    assert result.exit_code == NOT_WHOLE and "has no backup of shard 0" in result.stderr
    assert not (tmp_path / "data").exists()
    result = run("restore", copy, "--data", tmp_path / "data", "--shard", "1-2")
    assert result.exit_code == 0 and f"--shards {SHARDS} --shard 1-2" in result.stdout
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["shard-001", "shard-002", "shards.json"]


def test_a_restore_that_did_not_end_is_refused_and_named(backups: Backups, tmp_path: Path) -> None:
    data = tmp_path / "region1"
    assert run("restore", backups.directory, "--data", data).exit_code == 0
    (data / "shards.json").unlink()
    result = run("restore", backups.directory, "--data", data)
    assert result.exit_code == REFUSED and f"{data} is not empty" in result.stderr
    with ShardedRegion(1, tmp_path, SHARDS) as region:
        region.start(id_mode="liberal")
        assert region.await_end() == 2 and "if a restore did not end" in region.log()


def test_one_shard_is_not_taken_for_a_region(backups: Backups, tmp_path: Path) -> None:
    result = run("restore", backups.directory / "shard-001", "--data", tmp_path / "data")
    assert result.exit_code == REFUSED and "the backup of shard 1 of 3 alone" in result.stderr
    assert run("backup", "--verify", backups.directory / "shard-001").exit_code == 0


def test_a_stream_comes_back_into_the_shard_that_has_it_there(backups: Backups, tmp_path: Path) -> None:
    with ShardedRegion(2, tmp_path, SHARDS - 1) as two:
        two.start(id_mode="liberal")
        two.await_serving()
        into = f"127.0.0.1:{two.port}"
        for key in (KEYS[0], KEYS[2]):
            result = run("restore", backups.directory, "--stream", key, "--into", into, "--json")
            assert result.exit_code == 0 and json.loads(result.stdout)["entries"] >= 100, result.output
        assert [two.ask_shard(shard, "DBSIZE") for shard in (0, 1)] == [1, 1]
        absent = run("restore", backups.directory, "--stream", "absent", "--into", into)
        assert absent.exit_code == REFUSED and "has no stream 'absent'" in absent.stderr
        named = run("restore", backups.directory, "--stream", KEYS[0], "--into", into, "--shard", "0")
        assert named.exit_code == REFUSED and "leave it out" in named.stderr


def test_what_lies_on_another_machine_is_named(
    backups: Backups, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that machine would have it: a directory that this one has not."""
    monkeypatch.setattr(
        shard_backups, "request_backup", lambda *words: os.path.join("/elsewhere", os.path.basename(words[2]))
    )
    result = back_up(backups.region, tmp_path / "other", "--shard", "1")
    assert result.exit_code == NO_ANSWER and states(result) == {1: "elsewhere"}
    assert not json.loads(result.stdout)["next"], "a shard elsewhere would refuse to write there again"
    assert "wrote /elsewhere/shard-001, which this machine does not have" in result.stderr
    assert "run crdtstream backup --verify /elsewhere --shard 1 there" in result.stderr


def test_a_backup_that_another_machine_has_is_kept(
    backups: Backups, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command is repeated after another shard has failed: what it says of this one is the same."""
    there = backups.directory.parent / "there"

    def on_another_machine(node: str, access: Access, directory: str) -> str:
        request_backup(node, access, str(there / os.path.basename(directory)))
        return directory

    monkeypatch.setattr(shard_backups, "request_backup", on_another_machine)
    first, again = [back_up(backups.region, tmp_path / "other", "--shard", "1") for _ in range(2)]
    assert states(again) == {1: "elsewhere"} and again.exit_code == NO_ANSWER, again.stderr
    assert again.stdout == first.stdout and again.stderr == first.stderr


def test_one_that_is_still_at_work_fails_when_its_files_are_removed(tmp_path: Path) -> None:
    (tmp_path / "shard-001").mkdir()
    (tmp_path / "shard-001" / "manifest").touch()
    shard_backups.remove_unfinished(str(tmp_path / "shard-001"))
    assert not list(tmp_path.iterdir())
    (tmp_path / "source").touch()
    with pytest.raises(FileNotFoundError):
        link_or_copy(str(tmp_path), str(tmp_path / "shard-001"), "source")


def test_a_directory_that_cannot_be_looked_into_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: str) -> list[str]:
        raise PermissionError(13, "Permission denied", path)

    (tmp_path / "shard-001").mkdir()
    monkeypatch.setattr(os, "listdir", refused)
    assert not shard_backups.is_of_shards(str(tmp_path))
    with pytest.raises(BackupRefusal, match=r"cannot remove .*shard-001, a backup that was not finished: Permission"):
        shard_backups.remove_unfinished(str(tmp_path / "shard-001"))


def test_files_that_no_backup_has_are_left_alone(backups: Backups) -> None:
    strange = backups.directory.parent / "strange"
    (strange / "shard-001").mkdir(parents=True)
    (strange / "shard-001" / "notes").touch()
    result = back_up(backups.region, strange)
    assert result.exit_code == REFUSED and states(result) == {0: "taken", 1: "failed", 2: "taken"}
    assert "is not empty, it holds what looks like" in result.stderr
    assert (strange / "shard-001" / "notes").exists()
