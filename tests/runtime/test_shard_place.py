"""The directory of a shard says where it is at home, and a start elsewhere needs the end of the log that it names."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from crdtstream.runtime.shard_map_file import ShardMapFile
from crdtstream.runtime.shard_place import (
    ANYWHERE,
    PLACE,
    Claim,
    DirectoryPlace,
    DirectoryRefused,
    is_at_home,
    open_directory,
    read_place,
    record_place,
)
from crdtstream.settings.config import Config, ConfigError
from crdtstream.settings.sharding import of_shard
from crdtstream.storage.disk import LOCK, DiskFailed, RealDisk
from crdtstream.supervisor.founding import found_or_follow

HERE, THERE = "127.0.0.1:6380", "b.example.net:7001"
END = 17


@pytest.fixture
def region(tmp_path: Path) -> Config:
    return Config(name="east", region=1, cluster="c", shards=2, data=str(tmp_path / "data"))


@pytest.fixture
def config(region: Config) -> Config:
    """The settings of shard 1, which runs here."""
    with closing(RealDisk(region.data)) as disk:
        found_or_follow(region, disk)
    return of_shard(region, 1)


@pytest.fixture
def disk(config: Config) -> Iterator[RealDisk]:
    with closing(open_directory(config)) as opened:
        yield opened


def claim(config: Config, disk: RealDisk) -> Claim:
    return Claim(config, disk, ShardMapFile(config))


def start(config: Config, disk: RealDisk, stopped: bool = False, end: int = END) -> Claim:
    made = claim(config, disk)
    made.require_place()
    made.confirm(end, stopped)
    return made


def send_away(region: Config) -> None:
    with closing(RealDisk(region.data)) as disk:
        found_or_follow(replace(region, shard="0", announce=("1=b.example.net:7000",)), disk)


def test_at_home_it_starts_after_a_crash_too(config: Config, disk: RealDisk) -> None:
    start(config, disk)
    assert read_place(disk) == DirectoryPlace(HERE)


def test_it_moves_and_only_the_new_place_may_go_on(region: Config, config: Config, disk: RealDisk) -> None:
    start(config, disk).hand_over(THERE, END)
    with pytest.raises(DirectoryRefused, match=f"handed over to {THERE}, and this machine has it at {HERE}: if"):
        start(config, disk, stopped=True)
    send_away(region)
    for settings in (config, replace(config, replace=True)):
        with pytest.raises(ConfigError, match=f"shard 1 has moved to {THERE}: nothing is left to do here") as refused:
            start(settings, disk)
        assert refused.type is ConfigError, "nothing that is brought here would be right"
    assert read_place(disk) == DirectoryPlace(THERE, END)


def test_where_it_was_handed_to_the_log_has_to_end_as_it_did(config: Config, disk: RealDisk) -> None:
    record_place(disk, DirectoryPlace(HERE, END))
    for end in (END - 1, END + 1):
        with pytest.raises(DirectoryRefused, match=f"ends at record {end}, and shard 1 was handed over at .* {END}"):
            start(config, disk, True, end)
    start(config, disk, True)
    assert read_place(disk) == DirectoryPlace(HERE)
    start(config, disk, False, END + 9)


def test_a_machine_with_another_address_needs_the_mark_of_a_stop(config: Config, disk: RealDisk) -> None:
    """Its volume may be a snapshot of one that goes on."""
    record_place(disk, DirectoryPlace(THERE))
    with pytest.raises(DirectoryRefused, match=f"ran at {THERE} and was not stopped there, so .* may be a snapshot"):
        start(config, disk, stopped=False)
    start(config, disk, stopped=True)
    assert read_place(disk) == DirectoryPlace(HERE)


def copied(config: Config) -> Config:
    copy = f"{config.data}-copy"
    shutil.copytree(config.data, copy, ignore=shutil.ignore_patterns(LOCK))
    return replace(config, data=copy)


@pytest.mark.parametrize("stopped", [True, False])
def test_a_copy_that_was_not_handed_over_does_not_start_elsewhere(
    config: Config, disk: RealDisk, stopped: bool
) -> None:
    """The original may be started again, even if both end with the mark of a stop."""
    record_place(disk, DirectoryPlace(THERE))
    copy = copied(config)
    with closing(open_directory(copy)) as there:
        with pytest.raises(DirectoryRefused, match=f"ran at {THERE}, and .* is a copy that was not handed over"):
            start(copy, there, stopped)
        assert read_place(there) == DirectoryPlace(THERE, is_copy=True)
        start(replace(copy, replace=True), there)
        assert read_place(there) == DirectoryPlace(HERE)


def test_a_copy_of_what_was_handed_over_starts_and_is_an_original_then(config: Config, disk: RealDisk) -> None:
    record_place(disk, DirectoryPlace(HERE, END))
    copy = copied(config)
    with closing(open_directory(copy)) as there:
        start(copy, there, stopped=True)
        assert read_place(there) == DirectoryPlace(HERE)


def test_a_directory_that_was_renamed_is_no_copy(config: Config) -> None:
    with closing(open_directory(config)) as before:
        record_place(before, DirectoryPlace(THERE))
    renamed = Path(config.data).rename(f"{config.data}-renamed")
    with closing(RealDisk(str(renamed))) as after:
        assert read_place(after) == DirectoryPlace(THERE)


@pytest.mark.parametrize(
    "place", [DirectoryPlace(THERE, END), DirectoryPlace(THERE), DirectoryPlace(HERE, END + 1), None]
)
def test_an_operator_who_knows_better_replaces(config: Config, disk: RealDisk, place: DirectoryPlace | None) -> None:
    disk.delete(PLACE) if place is None else record_place(disk, place)
    start(replace(config, replace=True), disk)
    assert read_place(disk) == DirectoryPlace(HERE)


def test_one_that_was_to_move_and_crashed_before_starts_again(region: Config, config: Config, disk: RealDisk) -> None:
    start(config, disk)
    send_away(region)
    start(config, disk)
    assert read_place(disk) == DirectoryPlace(HERE), "until it hands over"


def test_a_copy_is_not_handed_over(region: Config, config: Config, disk: RealDisk) -> None:
    """It may be older than what the shard went on with."""
    start(config, disk)
    copy = copied(config)
    send_away(region)
    with closing(open_directory(copy)) as there:
        text = f"is not handed over to {THERE}, because .* is a copy that has not served since it was made: remove it"
        with pytest.raises(ConfigError, match=text) as refused:
            start(copy, there)
        assert refused.type is ConfigError and read_place(there) == DirectoryPlace(HERE, is_copy=True)


@pytest.mark.parametrize("place", [DirectoryPlace(HERE, END), DirectoryPlace(THERE), DirectoryPlace(ANYWHERE), None])
def test_where_a_shard_is_at_home_it_ran_last(config: Config, disk: RealDisk, place: DirectoryPlace | None) -> None:
    directory = Path(config.data)
    assert is_at_home(directory, HERE) and not is_at_home(directory / "missing", HERE)
    disk.delete(PLACE) if place is None else record_place(disk, place)
    assert not is_at_home(directory, HERE)


def test_one_that_was_restored_starts_anywhere(config: Config, disk: RealDisk) -> None:
    record_place(disk, DirectoryPlace(ANYWHERE))
    start(config, disk)
    assert read_place(disk) == DirectoryPlace(HERE)


def test_it_follows_its_address(config: Config, disk: RealDisk) -> None:
    made = start(config, disk)
    made.follow(THERE)
    assert read_place(disk) == DirectoryPlace(THERE)


def test_one_that_moved_with_its_directory_is_not_awaited(region: Config, config: Config) -> None:
    send_away(region)
    Path(config.data).rename(f"{config.data}-moved")
    with pytest.raises(ConfigError, match=f"shard 1 has moved to {THERE}: nothing is left to do here") as refused:
        open_directory(config)
    assert refused.type is ConfigError


def test_a_directory_that_is_not_there_is_not_made(config: Config, disk: RealDisk) -> None:
    disk.delete(PLACE)
    with pytest.raises(DirectoryRefused, match="is missing, or is not that of a shard: bring it here from where"):
        start(config, disk)
    away = replace(config, data=f"{config.data}-away")
    with pytest.raises(DirectoryRefused, match="shard-001-away of shard 1 is missing"):
        open_directory(away)
    assert not Path(away.data).exists()
    open_directory(replace(away, replace=True)).close()
    open_directory(Config(name="west", region=2, cluster="c", data=f"{config.data}-one")).close()


@pytest.mark.parametrize("content", [b"", b"17", b"a:1", b"a:1 x"])
def test_a_file_of_something_else_is_refused(config: Config, disk: RealDisk, content: bytes) -> None:
    disk.replace(PLACE, content)
    with pytest.raises(DiskFailed, match="the file place of this shard cannot be read: copy the directory again"):
        claim(config, disk)
