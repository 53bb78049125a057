"""`crdtstream backup` and `crdtstream restore`: backups of a region that is written to, and what becomes of them."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from crdtstream.admin.backups import NO_ANSWER, NOT_WHOLE, REFUSED
from crdtstream.cli.app import app
from crdtstream.processes.ports import free_port
from crdtstream.processes.region import CLUSTER, RegionProcess, regions_in
from crdtstream.processes.waiting import until

BEFORE = 300


def run(*words: object) -> Result:
    result = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "160"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def back_up(region: RegionProcess, to: Path) -> Result:
    return run("backup", "--node", f"127.0.0.1:{region.port}", "--to", to, "--json")


class Writer(threading.Thread):
    """Adds entries of growing numbers, one after the other; `acknowledged` is how many were answered."""

    def __init__(self, region: RegionProcess) -> None:
        super().__init__(daemon=True)
        self._client = region.connect()
        self._ends = threading.Event()
        self.acknowledged = 0

    def run(self) -> None:
        while not self._ends.is_set():
            self._client.execute_command("XADD", f"s{self.acknowledged % 7}", "*", "n", self.acknowledged)
            self.acknowledged += 1

    def end(self) -> None:
        self._ends.set()
        self.join()


@contextmanager
def written_to(region: RegionProcess) -> Iterator[Writer]:
    writer = Writer(region)
    writer.start()
    try:
        yield writer
    finally:
        writer.end()


def numbers_of(region: RegionProcess) -> list[int]:
    found = [entry[1][1] for key in range(7) for entry in region.ask("XRANGE", f"s{key}", "-", "+")]
    return sorted(map(int, found))


@pytest.fixture(scope="module")
def backed_up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RegionProcess, Path, dict[str, Any], int]]:
    """A region under load, a backup of it, what the tool said, and how many adds were acknowledged before."""
    directory = tmp_path_factory.mktemp("backed_up")
    with regions_in(directory) as regions:
        (region,) = regions.make(1)
        region.start(backup_directory=directory / "backups")
        region.await_serving()
        region.create_group("s0", "g")
        with written_to(region) as writer:
            until(lambda: writer.acknowledged >= BEFORE, "there is something to back up")
            before = writer.acknowledged
            result = back_up(region, directory / "backups" / "first")
            after = writer.acknowledged
        assert result.exit_code == 0, result.output
        assert after > before, "the region was not written to meanwhile"
        yield region, directory / "backups" / "first", json.loads(result.stdout), before


def test_every_add_acknowledged_before_is_in_it_and_none_is_torn(
    backed_up: tuple[RegionProcess, Path, dict[str, Any], int], tmp_path: Path
) -> None:
    _, backup, told, before = backed_up
    assert told["region"] == 1 and told["cluster"] == CLUSTER and told["bytes"] > 0
    assert run("restore", backup, "--data", tmp_path / "region1").exit_code == 0
    with regions_in(tmp_path) as regions:
        (restored,) = regions.make(1)
        restored.start()
        restored.await_serving()
        numbers = numbers_of(restored)
        assert numbers == list(range(len(numbers))), "an add is in it, and one before it is not"
        assert len(numbers) >= before
        assert restored.digest().decode() == told["digest"]
        assert restored.origin() != told["origin"], "a restored region is a new origin"
        restored.ask("XADD", "s0", "*", "n", len(numbers))


def test_it_can_be_checked_later(backed_up: tuple[RegionProcess, Path, dict[str, Any], int]) -> None:
    _, backup, told, _ = backed_up
    result = run("backup", "--verify", backup)
    assert result.exit_code == 0 and told["digest"] in result.stdout


def test_restored_beside_its_peers_it_catches_up(tmp_path: Path) -> None:
    with regions_in(tmp_path) as regions:
        one, two = regions.make(1, 2)
        one.start(two, backup_directory=tmp_path / "backups")
        two.start(one)
        for region in (one, two):
            region.await_serving()
        one.ask("XADD", "s0", "*", "n", "0")
        assert back_up(one, tmp_path / "backups" / "a").exit_code == 0
        one.ask("XADD", "s0", "*", "n", "1")
        regions.await_agreement(one, two)
        one.kill()
        shutil.rmtree(one.data)
        result = run("restore", tmp_path / "backups" / "a", "--data", one.data)
        assert result.exit_code == 0 and "--name region1 --region 1" in result.stdout
        one.start(two)
        one.await_serving()
        until(lambda: numbers_of(one) == [0, 1], "it has caught up")
        one.ask("XADD", "s0", "*", "n", "2")
        regions.await_agreement(one, two)
        assert numbers_of(two) == [0, 1, 2]


def test_only_below_the_allowed_directory(tmp_path: Path) -> None:
    with regions_in(tmp_path) as regions:
        one, two = regions.make(1, 2)
        one.start(backup_directory=tmp_path / "backups")
        two.start()
        for region in (one, two):
            region.await_serving()
        (tmp_path / "backups").mkdir()
        (tmp_path / "backups" / "away").symlink_to(tmp_path)
        for place in (tmp_path / "elsewhere", tmp_path / "backups", tmp_path / "backups" / "away" / "x"):
            result = back_up(one, place)
            assert result.exit_code == REFUSED and "below the region's --backup-directory" in result.stderr
        assert not (tmp_path / "elsewhere").exists() and not (tmp_path / "x").exists()
        result = back_up(two, tmp_path / "backups" / "b")
        assert result.exit_code == REFUSED and "backups are off" in result.stderr
        assert back_up(one, tmp_path / "backups" / "c").exit_code == 0
        result = back_up(one, tmp_path / "backups" / "c")
        assert result.exit_code == REFUSED and "is not empty, it holds a backup" in result.stderr


def copy_of(backed_up: tuple[RegionProcess, Path, dict[str, Any], int], tmp_path: Path) -> Path:
    return Path(shutil.copytree(backed_up[1], tmp_path / "copy"))


def test_a_torn_backup_is_refused(backed_up: tuple[RegionProcess, Path, dict[str, Any], int], tmp_path: Path) -> None:
    backup = copy_of(backed_up, tmp_path)
    (backup / "backup.json").unlink()
    for words in (("restore", backup, "--data", tmp_path / "data"), ("backup", "--verify", backup)):
        result = run(*words)
        assert result.exit_code == NOT_WHOLE and "holds no whole backup" in result.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("prefix", ["manifest", "state-", "blocks-", "log-", "backup.json"])
def test_a_damaged_file_is_named(
    backed_up: tuple[RegionProcess, Path, dict[str, Any], int], tmp_path: Path, prefix: str
) -> None:
    backup = copy_of(backed_up, tmp_path)
    (file, *_) = backup.glob(f"{prefix}*")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    for words in (("restore", backup, "--data", tmp_path / "data"), ("backup", "--verify", backup)):
        result = run(*words)
        assert result.exit_code == NOT_WHOLE and file.name in result.stderr
    assert not [path for path in tmp_path.glob("data/*") if not path.name.startswith(".")]


def test_a_restore_that_cannot_be_meant_is_refused(
    backed_up: tuple[RegionProcess, Path, dict[str, Any], int], tmp_path: Path
) -> None:
    backup = backed_up[1]
    result = run("restore", backup, "--data", tmp_path / "data", "--cluster", "other")
    assert result.exit_code == REFUSED and f"of cluster {CLUSTER!r}, not of 'other'" in result.stderr
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    result = run("restore", backup, "--data", tmp_path / "full")
    assert result.exit_code == REFUSED and "is not empty" in result.stderr


def test_what_it_says_about_all_regions(
    backed_up: tuple[RegionProcess, Path, dict[str, Any], int], tmp_path: Path
) -> None:
    result = run("restore", backed_up[1], "--data", tmp_path / "data", "--cluster", CLUSTER, "--all-regions")
    assert result.exit_code == 0 and "1. Stop all regions." in result.stdout


def test_wrong_use_and_no_region(tmp_path: Path) -> None:
    assert run("backup").exit_code == REFUSED
    assert run("backup", "--node", "127.0.0.1:1").exit_code == REFUSED
    assert run("backup", "--verify", tmp_path, "--to", tmp_path).exit_code == REFUSED
    assert run("backup", "--node", "nowhere", "--to", tmp_path / "x").exit_code == REFUSED
    assert run("backup", "--node", f"127.0.0.1:{free_port()}", "--to", tmp_path / "x").exit_code == NO_ANSWER


def test_a_password_is_in_a_file_or_a_variable(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hush\n")
    with regions_in(tmp_path) as regions:
        (region,) = regions.make(1)
        region.start(backup_directory=tmp_path / "backups", requirepass_file=secret)
        until(lambda: "event=serving" in region.log(), "it serves")
        words = ["backup", "--node", f"127.0.0.1:{region.port}", "--to", tmp_path / "backups" / "one", "--json"]
        refused = run(*words)
        assert refused.exit_code != 0 and "Authentication required" in refused.output
        assert run(*words, "--password-file", secret).exit_code == 0
    shown = run("backup", "--password", "hush")
    assert shown.exit_code == REFUSED and "hush" not in shown.output and "--password-file" in shown.output
