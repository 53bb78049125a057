"""Regions of two shards as real processes: killed, stopped, refused, founded, and used by clients of Redis Cluster."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis

from crdtstream.processes.clients import pairs
from crdtstream.processes.ports import free_port
from crdtstream.processes.region import RegionProcess
from crdtstream.processes.sharded import ShardedRegion
from crdtstream.processes.waiting import until

SHARDS = 2
# Keys of shard 0 and of shard 1: the hash slots of `a` and `b` are 15495 and 3300.
KEYS = {0: "b", 1: "a"}


@pytest.fixture
def started() -> Iterator[list[RegionProcess]]:
    """What a test has started, and does not leave behind."""
    regions: list[RegionProcess] = []
    yield regions
    for region in regions:
        region.request_stop()
    for region in regions:
        region.stop()


def region_of(started: list[RegionProcess], directory: Path, number: int, shards: int = SHARDS) -> ShardedRegion:
    region = ShardedRegion(number, directory, shards)
    started.append(region)
    return region


def two_regions(started: list[RegionProcess], directory: Path) -> tuple[ShardedRegion, ShardedRegion]:
    east, west = region_of(started, directory, 1), region_of(started, directory, 2)
    east.start(west)
    west.start(east)
    for region in (east, west):
        region.await_serving()
    return east, west


def add(region: ShardedRegion, shard: int, count: int = 1) -> list[bytes]:
    return [region.ask_shard(shard, "XADD", KEYS[shard], "*", "n", number) for number in range(count)]


def length(region: ShardedRegion, shard: int) -> int:
    return int(region.ask_shard(shard, "XLEN", KEYS[shard]))


def await_alike(east: ShardedRegion, west: ShardedRegion) -> None:
    until(lambda: east.digests() == west.digests(), lambda: f"alike{east.log_end()}{west.log_end()}")


def reasons(region: RegionProcess) -> str:
    """Why its peers are not linked."""
    rows = [pairs(row) for row in region.ask("CRDT.REGIONS")]
    return " ".join(row.get(b"reason", b"").decode() for row in rows)


def is_gone(process: int) -> bool:
    return not Path(f"/proc/{process}").exists()


def test_each_shard_replicates_with_its_own(started: list[RegionProcess], tmp_path: Path) -> None:
    east, west = two_regions(started, tmp_path)
    add(east, 0, 3)
    add(west, 1, 5)
    await_alike(east, west)
    assert [length(west, 0), length(east, 1)] == [3, 5]
    assert len({*east.digests()}) == 2, "shards hold different keys"
    with pytest.raises(redis.ResponseError, match=f"15495 127.0.0.1:{east.port + 1}"):
        east.ask_shard(0, "XLEN", KEYS[1])
    with redis.Redis(port=east.port + 1) as listener, listener.pubsub(ignore_subscribe_messages=True) as heard:
        heard.subscribe("news")
        until(lambda: east.ask_shard(1, "PUBSUB", "NUMSUB", "news")[1] == 1, "it listens")
        east.ask_shard(0, "PUBLISH", "news", "of shard 0")
        message = until(lambda: heard.get_message(timeout=1), "the other shard passes it on")
    assert message["data"] == b"of shard 0"


def test_a_link_is_told_of_with_the_address_of_its_shard(started: list[RegionProcess], tmp_path: Path) -> None:
    east, west = two_regions(started, tmp_path)
    until(lambda: east.open_links() == {west.name}, "all shards are linked")
    own = [f"127.0.0.1:{west.replication_port + shard}" for shard in range(SHARDS)]
    assert [pairs(rows[1])[b"address"].decode() for rows in east.ask_shards("CRDT.REGIONS")] == own
    for told, address in zip(east.ask_shards("INFO", "replication"), own, strict=True):
        assert f",address={address}," in told.decode()
    west.stop()
    for shard, address in enumerate(own):
        told = re.compile(rf"event=(link-\w+|peer-unreachable) .*shard={shard} .*address={re.escape(address)}\b")
        until(partial(logs, east, told), "its log names it")


def logs(region: ShardedRegion, told: re.Pattern[str]) -> bool:
    return told.search(region.log()) is not None


def test_a_shard_that_is_killed_comes_back_with_its_data(started: list[RegionProcess], tmp_path: Path) -> None:
    east, west = two_regions(started, tmp_path)
    add(east, 1, 3)
    before = east.process_of(0)
    await_alike(east, west)
    killed = east.process_of(1)
    east.kill_shard(1)
    until(lambda: is_gone(killed), "it has ended")
    assert length(east, 0) == 0, "the other shard serves meanwhile"
    east.await_shard(1)
    assert length(east, 1) == 3
    assert (east.process_of(0), east.process_of(1) != killed) == (before, True)
    assert 'event=shard-failed region=region1 shard=1 reason="it was ended by SIGKILL"' in east.log()
    add(west, 1, 2)
    until(lambda: length(east, 1) == 5, "it is linked again")


def test_a_supervisor_that_is_killed_leaves_nothing_running(started: list[RegionProcess], tmp_path: Path) -> None:
    east = region_of(started, tmp_path, 1)
    east.start(incarnation=0)
    east.await_serving()
    add(east, 0, 2)
    shards = [east.process_of(shard) for shard in range(SHARDS)]
    east.kill()
    until(lambda: all(map(is_gone, shards)), "the shards have ended too")
    east.start(incarnation=0)
    east.await_serving()
    assert length(east, 0) == 2
    shards = [east.process_of(shard) for shard in range(SHARDS)]
    assert east.terminate() == 0
    assert all(map(is_gone, shards))
    assert sorted(path.name for path in east.data.iterdir()) == [".lock", "shard-000", "shard-001", "shards.json"]
    assert east.log().count("event=shard-map-written") == 1, "nothing changed"


def test_a_shard_that_was_stopped_stays_down_until_a_reload(started: list[RegionProcess], tmp_path: Path) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text("")
    east = region_of(started, tmp_path, 1)
    east.start(incarnation=0, config=settings)
    east.await_serving()
    with pytest.raises(redis.ConnectionError):
        east.ask_shard(1, "SHUTDOWN")
    until(lambda: "event=shard-stopped region=region1 shard=1" in east.log(), "it is known to be down")
    assert east.state_of(0) == "ok" and east.state_of(1) == "down"
    settings.write_text('announce = ["1=b.example.net:7000"]')
    east.signal(signal.SIGHUP)
    east.await_shard(1)
    written = json.loads((east.data / "shards.json").read_text())
    assert (written["epoch"], written["addresses"][1]["host"]) == (2, "b.example.net")
    until(lambda: east.log().count("event=shard-map-read") == 1, "shard 0, which ran, reads it")
    assert "settings-need-restart" not in east.log()
    for shard in range(SHARDS):
        with pytest.raises(redis.ConnectionError):
            east.ask_shard(shard, "SHUTDOWN")
    assert east.await_end() == 0, "the supervisor has nothing left to do"


def test_a_shard_that_starts_again_goes_by_the_settings_of_its_supervisor(
    started: list[RegionProcess], tmp_path: Path
) -> None:
    """With those of the file it would serve keys of other shards, at another port."""
    east, settings = region_of(started, tmp_path, 1), tmp_path / "settings.toml"
    region = f"name = 'east'\nregion = 1\ncluster = 'c'\nincarnation = 0\ndata = '{east.data}'\n"
    ports = f"port = {east.port}\nreplication-port = {east.replication_port}\n"
    settings.write_text(f"{region}{ports}shards = {SHARDS}\n")
    east.launch(["serve", "--config", str(settings)])
    east.await_serving()
    killed = east.process_of(0)
    settings.write_text(f"{region}port = {free_port()}\n[limits]\nslow_command_us = 77\n")
    east.kill_shard(0)
    until(lambda: is_gone(killed), "it has ended")
    east.await_shard(0)
    with pytest.raises(redis.ResponseError, match=f"15495 127.0.0.1:{east.port + 1}"):
        east.ask_shard(0, "XLEN", KEYS[1])
    assert east.ask_shard(0, "CONFIG", "GET", "slowlog-log-slower-than")[1] == b"77", "what may change does"
    east.signal(signal.SIGHUP)
    needs = re.compile("event=settings-need-restart region=east shard=0 settings=.*shards port replication-port")
    until(partial(logs, east, needs), "and what may not is told of")


def test_other_numbers_of_shards_are_refused(started: list[RegionProcess], tmp_path: Path) -> None:
    east, west = region_of(started, tmp_path, 1), RegionProcess(2, tmp_path)
    started.append(west)
    east.start(west, incarnation=0)
    west.start(east, incarnation=0)
    for region in (east, west):
        region.await_serving()

    for region in (east, west):
        until(lambda asked=region: "has 2 shards" in reasons(asked), f"{region} says why")  # type: ignore[misc]
        assert "(2) has 1 shard" in reasons(region)
    assert east.open_links() == west.open_links() == set()


def test_a_directory_keeps_the_number_that_it_was_founded_with(started: list[RegionProcess], tmp_path: Path) -> None:
    """The other refusals of a directory are those of test_founding."""
    east = region_of(started, tmp_path, 1)
    east.start(incarnation=0, aclfile=tmp_path / "missing")
    assert east.await_end() == 2, "wrong settings of a shard end the start"
    assert re.search("event=exit region=region1 shard=[01] .*missing", east.log())
    for shards in (1, 3):
        east.start(incarnation=0, shards=shards)
        assert east.await_end() == 2
        assert f"was founded with --shards 2, not {shards}: give --shards 2" in east.log()


def test_check_looks_at_all_shards(tmp_path: Path, started: list[RegionProcess]) -> None:
    east = region_of(started, tmp_path, 1)
    east.start(check=True)
    assert (east.await_end(), "The settings are valid." in east.log()) == (0, True)
    assert not east.data.exists()
    with socket.create_server(("127.0.0.1", east.port + 1)):
        east.start(check=True)
        assert east.await_end() == 1
    assert f"cannot listen on 127.0.0.1:{east.port + 1}" in east.log()


def test_clients_of_redis_cluster_find_every_key(started: list[RegionProcess], tmp_path: Path) -> None:
    east, west = two_regions(started, tmp_path)
    client: Any = redis.RedisCluster(host="127.0.0.1", port=east.port)
    with client:
        for number in range(100):
            client.xadd(f"key-{number}", {"n": str(number)})
    sizes = [int(east.ask_shard(shard, "DBSIZE")) for shard in range(SHARDS)]
    assert sum(sizes) == 100 and min(sizes) > 20
    await_alike(east, west)
    with redis.RedisCluster(host="127.0.0.1", port=west.port + 1) as other:
        assert [other.xlen(f"key-{number}") for number in range(100)] == [1] * 100
    for key in KEYS.values():
        done = subprocess.run(
            ["redis-cli", "-c", "-p", str(west.port), "XADD", key, "*", "f", "v"], capture_output=True, text=True
        )
        assert re.search(r"[0-9]+-[0-9]+\s*$", done.stdout), done.stdout + done.stderr
    assert [length(west, shard) for shard in range(SHARDS)] == [1, 1]
