"""The number of shards is written once; the map follows the settings, with an epoch that rises when it changes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import astuple, replace
from pathlib import Path

import pytest

from crdtstream.runtime.shard_map_file import UNKNOWN_PLACE, RegionShards, ShardMapFile, encoded
from crdtstream.runtime.shard_place import ANYWHERE, DirectoryPlace, read_place, record_place
from crdtstream.settings.config import Config, ConfigError
from crdtstream.settings.sharding import SHARDS_FILE, of_shard
from crdtstream.storage.disk import DiskError, RealDisk
from crdtstream.supervisor.founding import found_or_follow, founding_problems, not_handed_over, places_of, refuse_shards

TLS = {"tls_certificate": "a", "tls_key": "b", "tls_authority": "c"}


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(name="east", region=1, cluster="c", shards=4, data=str(tmp_path / "data"))


@pytest.fixture
def disk(config: Config) -> Iterator[RealDisk]:
    with closing(RealDisk(config.data)) as opened:
        yield opened


def test_the_map_is_written_once_and_again_when_it_differs(config: Config, disk: RealDisk) -> None:
    founded, is_new = found_or_follow(config, disk)
    assert (founded.epoch, len(founded.places), is_new) == (1, 4, True)
    assert found_or_follow(config, disk) == (founded, False)
    moved, is_new = found_or_follow(replace(config, announce=("3=b:7000",)), disk)
    assert (moved.epoch, moved.places[3].host, moved.places[3].port, is_new) == (2, "b", 7003, True)
    assert moved.places[:3] == founded.places[:3]


def test_a_shard_reads_what_was_written(config: Config, disk: RealDisk) -> None:
    found_or_follow(config, disk)
    file = ShardMapFile(of_shard(config, 2))
    assert not file.has_changed()
    shard_map = file.current()
    shard_map.check()
    assert (shard_map.own, shard_map.epoch, shard_map.own_shard().address.port) == (2, 1, 6381)
    found_or_follow(replace(config, announce_host="a.example.net"), disk)
    assert file.has_changed() and not file.has_changed()
    newer = file.current()
    assert (newer.epoch, newer.own_shard().address.host) == (2, "a.example.net")
    assert file.placement().addresses[2] == "a.example.net:16381"


@pytest.mark.parametrize(
    ("settings", "last"),
    [
        ({}, ("127.0.0.1", 6382, 0, "")),
        ({"announce_host": "a"}, ("a", 6382, 0, "a:16382")),
        ({"bind": "10.0.0.1", "replication_bind": "10.0.0.1"}, ("10.0.0.1", 6382, 0, "10.0.0.1:16382")),
        ({"announce_host": "[::1]", "tls_port": 7000, **TLS}, ("::1", 6382, 7003, "[::1]:16382")),
        ({"port": 0, "tls_port": 7000, **TLS}, ("127.0.0.1", 0, 7003, "")),
        ({"announce": ("3=b:7000",)}, ("b", 7003, 0, "b:16382")),
        ({"announce": ("3=b:8000",), "tls_port": 7000, **TLS}, ("b", 8003, 7003, "b:16382")),
        ({"announce": ("3=b:8000",), "port": 0, "tls_port": 7000, **TLS}, ("b", 0, 8003, "b:16382")),
    ],
)
def test_where_a_shard_is_reached(config: Config, settings: dict[str, object], last: tuple[object, ...]) -> None:
    assert astuple(places_of(replace(config, **settings))[3]) == last  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "sibling"),
    [
        ({}, "127.0.0.1:16382"),
        ({"replication_bind": "0.0.0.0"}, "127.0.0.1:16382"),
        ({"bind": "127.0.0.2", "replication_bind": "0.0.0.0", **TLS}, "127.0.0.2:16382"),
        ({"announce_host": "a", "replication_bind": "0.0.0.0", **TLS}, "a:16382"),
        ({"announce": ("3=b:7000",)}, "b:16382"),
    ],
)
def test_shards_reach_each_other(config: Config, disk: RealDisk, settings: dict[str, object], sibling: str) -> None:
    """With TLS by a name that clients and certificates have."""
    changed = replace(config, **settings)  # type: ignore[arg-type]
    found_or_follow(changed, disk)
    assert ShardMapFile(of_shard(changed, 2)).sibling_addresses(of_shard(changed, 2))[3] == sibling


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"shards": 2}, "was founded with --shards 4, not 2: give --shards 4; another number takes a new cluster"),
        ({"region": 2}, "belongs to region 1 of cluster 'c', not to region 2 of 'c'"),
        ({"cluster": "d"}, "belongs to region 1 of cluster 'c', not to region 1 of 'd'"),
    ],
)
def test_a_directory_of_something_else_is_refused(
    config: Config, disk: RealDisk, settings: dict[str, object], text: str
) -> None:
    found_or_follow(config, disk)
    other = replace(config, **settings)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=text):
        found_or_follow(other, disk)
    assert text in founding_problems(other)[0]
    assert founding_problems(config) == []


@pytest.mark.parametrize("name", ["log-00000000000000000001", "manifest"])
def test_data_of_a_region_of_one_shard_is_refused(config: Config, disk: RealDisk, name: str) -> None:
    disk.create(name, 8)
    with pytest.raises(ConfigError, match="holds a region of one shard: start it without --shards; another number"):
        found_or_follow(config, disk)


def test_shards_without_their_map_are_refused(config: Config, disk: RealDisk) -> None:
    (Path(config.data) / "shard-001").mkdir()
    (Path(config.data) / "shard-001" / "log-00000000000000000001").touch()
    with pytest.raises(ConfigError, match=r"holds shards, and no shards\.json: if a restore"):
        found_or_follow(config, disk)


def place_in(directory: Path) -> DirectoryPlace | None:
    with closing(RealDisk(str(directory))) as shard:
        return read_place(shard)


def test_a_lost_map_comes_back_from_another_machine(config: Config, disk: RealDisk, tmp_path: Path) -> None:
    """It says which shards run there; here the supervisor corrects that."""
    other = replace(config, data=str(tmp_path / "other"), shard="0-1", announce=("2-3=b:7000",))
    here = replace(config, shard="2-3", announce=("0-1=a:7000",), announce_host="b")
    with closing(RealDisk(other.data)) as away:
        there, _ = found_or_follow(other, away)
        founded, _ = found_or_follow(here, disk)
        disk.replace(SHARDS_FILE, encoded(there))
    assert found_or_follow(here, disk) == (replace(founded, epoch=2), True)


def test_what_was_restored_of_shards_elsewhere_becomes_a_copy(config: Config, disk: RealDisk) -> None:
    """It would start with the state of the backup when the shard moves here, long after."""
    disk.replace(SHARDS_FILE, encoded(RegionShards("c", 1, 3, (UNKNOWN_PLACE,) * 4, ())))
    directories = [Path(config.data) / f"shard-{number:03d}" for number in range(4)]
    for number, directory in enumerate(directories):
        with closing(RealDisk(str(directory))) as shard:
            record_place(shard, DirectoryPlace("b:9", 17) if number == 3 else DirectoryPlace(ANYWHERE))
    some = replace(config, shard="0-1", announce=("2-3=b:7000",))
    found_or_follow(some, disk)
    found_or_follow(replace(some, shard="0", announce=("1-3=b:7000",)), disk)
    assert [place_in(directory) for directory in directories] == [
        DirectoryPlace(ANYWHERE),
        DirectoryPlace(ANYWHERE),
        DirectoryPlace("b:7002", is_copy=True),
        DirectoryPlace("b:9", 17),
    ]


def test_a_founding_makes_the_directories_of_this_machine(config: Config, disk: RealDisk) -> None:
    some = replace(config, shard="1-2", announce=("0=a:7000", "3=a:7000"))
    shards, _ = found_or_follow(some, disk)
    assert shards.here == (1, 2)
    made = {path.parent.name: place_in(path.parent) for path in Path(config.data).glob("*/place")}
    assert made == {"shard-001": DirectoryPlace("127.0.0.1:6380"), "shard-002": DirectoryPlace("127.0.0.1:6381")}
    found_or_follow(replace(some, shard="1-3", announce=("0=a:7000",)), disk)
    assert not (Path(config.data) / "shard-003").exists(), "a shard that comes later brings its directory"


def test_a_founding_that_was_interrupted_is_repeated(config: Config, disk: RealDisk) -> None:
    found_or_follow(config, disk)
    disk.delete(SHARDS_FILE)
    assert found_or_follow(config, disk)[1]


def test_a_shard_knows_whether_it_runs_here(config: Config, disk: RealDisk) -> None:
    found_or_follow(config, disk)
    file = ShardMapFile(of_shard(config, 2))
    assert file.is_here and file.place.address == "127.0.0.1:6381"
    found_or_follow(replace(config, shard="0-1,3", announce=("2=b:7000",)), disk)
    assert file.has_changed() and not file.is_here
    assert file.place.address == "b:7002"
    assert not file.current(away=True).owns(8192)


def test_a_region_of_one_shard_does_not_begin_there(config: Config, disk: RealDisk) -> None:
    one = replace(config, shards=1)
    refuse_shards(one)
    found_or_follow(config, disk)
    refuse_shards(config)
    with pytest.raises(ConfigError, match="was founded with --shards 4, not 1: give --shards 4"):
        refuse_shards(one)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b'{"format": 2}',
        b'{"format": 1, "shards": 2, "addresses": [], "here": [], "cluster": "c", "region": 1, "epoch": 1}',
    ],
)
def test_a_damaged_map_says_what_to_do(config: Config, disk: RealDisk, content: bytes) -> None:
    disk.replace(SHARDS_FILE, content)
    for read in (lambda: found_or_follow(config, disk), lambda: ShardMapFile(of_shard(config, 0))):
        with pytest.raises(DiskError, match=r"shards\.json cannot be read: .*; put it back from a copy"):
            read()
    assert "put it back" in founding_problems(config)[0]


def test_a_shard_without_a_map_does_not_start(config: Config) -> None:
    with pytest.raises(DiskError, match="is missing: start the supervisor"):
        ShardMapFile(of_shard(config, 0))


def test_an_epoch_never_falls(config: Config, disk: RealDisk) -> None:
    shards, _ = found_or_follow(config, disk)
    found_or_follow(replace(config, announce_host="a"), disk)
    file = ShardMapFile(of_shard(config, 0))
    disk.replace(SHARDS_FILE, encoded(RegionShards("c", 1, 1, shards.places, shards.here)))
    assert not file.has_changed()
    assert file.current().epoch == 2


def test_shards_elsewhere_whose_directory_is_at_home_here_are_not_handed_over(config: Config, disk: RealDisk) -> None:
    """Shard 0 runs here, 1 has moved, 2 was never told to, and 3 is at home on another machine."""
    found_or_follow(config, disk)
    for number, address in ((1, "b:6380"), (3, "b:6382")):
        with closing(RealDisk(f"{config.data}/shard-{number:03d}")) as there:
            record_place(there, DirectoryPlace(address, 17 if number == 1 else 0))
    left = replace(config, shard="0", announce=("1-3=b:6379",))
    assert not_handed_over(left, os.listdir(config.data)) == [2]
    assert not_handed_over(config, os.listdir(config.data)) == []
    assert not_handed_over(replace(left, announce_host="c"), os.listdir(config.data)) == [], "of another machine"


@pytest.mark.parametrize("others", ["0-3=vip:6379", "3=vip:6379"])
def test_a_shard_does_not_move_to_the_address_that_it_has(config: Config, disk: RealDisk, others: str) -> None:
    """What it leaves would be at home there, and could be started again."""
    there = replace(config, announce=("0-3=vip:6379",))
    founded, _ = found_or_follow(there, disk)
    left = replace(there, shard="0-2", announce=(others,))
    with pytest.raises(ConfigError, match="shard 3 would move to vip:6382, where it is now: give the new machine an"):
        found_or_follow(left, disk)
    assert founding_problems(left)[0].startswith("shard 3 would move to vip:6382")
    assert found_or_follow(there, disk) == (founded, False)
    moved, _ = found_or_follow(replace(left, announce=("3=b:6379",)), disk)
    assert moved.here == (0, 1, 2)
    assert found_or_follow(left, disk)[0].places[3].host == "vip", "it may move on to anywhere"
