"""Shards of real regions move between two machines: readers that block, what is refused, and who may go on."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import redis

from crdtstream.processes.machines import SplitRegion
from crdtstream.processes.ports import free_ports
from crdtstream.processes.sharded import ShardedRegion
from crdtstream.processes.waiting import DEADLINE_S, until
from crdtstream.runtime.shard_place import DIRECTORY_REFUSED
from crdtstream.supervisor.shard import USAGE_ERROR

SHARD = 1
# A key of shard 1, and one of shard 0.
KEY, OTHER = "a", "b"


@pytest.fixture
def region(tmp_path: Path) -> Iterator[SplitRegion]:
    region = SplitRegion(1, tmp_path, 2)
    try:
        region.start(incarnation=0)
        region.await_serving()
        yield region
    finally:
        region.stop()


def ask(region: SplitRegion, *argv: str) -> Any:
    return region.of(SHARD).ask_shard(SHARD, *argv)


def client_of(region: SplitRegion) -> Any:
    host, port = region.place_of(0)
    # Longer than a reader blocks and a shard is held here, whatever the default of redis-py is.
    return redis.RedisCluster(host=host, port=port, socket_timeout=2 * DEADLINE_S)


def place_of(region: SplitRegion) -> str:
    return "{}:{}".format(*region.place_of(SHARD))


def retried(region: SplitRegion, text: str) -> None:
    """The supervisor of the new machine tries to start the shard, and its log says why it cannot."""
    until(lambda: text in region.of(SHARD).log(), lambda: f"{text!r}{region.logs()}")
    assert region.of(SHARD).state_of(SHARD) == "down"


def test_a_shard_moves_with_what_its_clients_are_at(region: SplitRegion) -> None:
    """A reader that blocks, a group with a pending entry, a name of a producer, and all that are back there later."""
    with client_of(region) as client, ThreadPoolExecutor() as threads:
        first = client.execute_command("XADD", KEY, "IDMP", "p", "1", "*", "f", "v")
        client.xgroup_create(KEY, "g", "0")
        client.xreadgroup("g", "c", {KEY: ">"})
        reading = threads.submit(client.xreadgroup, "g", "d", {KEY: ">"}, None, 60_000)
        until(lambda: b"blocked_clients:1" in ask(region, "INFO", "clients"), "it blocks")
        old = region.of(SHARD)
        region.move(SHARD)
        with pytest.raises(redis.ResponseError, match=f"15495 {place_of(region)}"):
            old.ask_shard(SHARD, "XLEN", KEY)
        with pytest.raises(redis.BusyLoadingError, match=f"shard 1 has moved to {place_of(region)}: ask"):
            old.ask_shard(SHARD, "DBSIZE")
        assert client.execute_command("XADD", KEY, "IDMP", "p", "1", "*", "f", "v") == first
        second = client.xadd(KEY, {"f": "w"})
        assert reading.result()[0][1] == [(second, {b"f": b"w"})]
        assert client.xpending(KEY, "g")["pending"] == 2
        region.move(SHARD)
        assert region.where[SHARD] == 0 and client.xlen(KEY) == 2
        assert client.xack(KEY, "g", first, second) == 2


def test_a_directory_that_is_not_there_is_awaited(region: SplitRegion) -> None:
    ask(region, "XADD", KEY, "*", "f", "v")
    left = region.directory_of(SHARD)
    region.send_away(SHARD)
    region.await_handed_over(SHARD, left)
    region.of(SHARD).signal(signal.SIGHUP)
    retried(region, "is missing, or is not that of a shard: bring it here")
    left.rename(region.directory_of(SHARD))
    region.of(SHARD).await_shard(SHARD)
    assert ask(region, "XLEN", KEY) == 1


def test_a_copy_of_a_shard_that_runs_is_refused(region: SplitRegion, tmp_path: Path) -> None:
    """What is acknowledged after the copy was made would be lost."""
    ask(region, "XADD", KEY, "*", "f", "v")
    left, copy = region.directory_of(SHARD), tmp_path / "copy"
    shutil.copytree(left, copy)
    ask(region, "XADD", KEY, "*", "f", "w")
    region.send_away(SHARD)
    region.await_handed_over(SHARD, left)
    copy.rename(region.directory_of(SHARD))
    region.of(SHARD).signal(signal.SIGHUP)
    retried(region, "is a copy that was not handed over to 127.0.0.2:")
    shutil.rmtree(region.directory_of(SHARD))
    left.rename(region.directory_of(SHARD))
    region.of(SHARD).await_shard(SHARD)
    assert ask(region, "XLEN", KEY) == 2


def test_a_copy_that_was_made_after_an_ordinary_stop_is_refused(region: SplitRegion) -> None:
    """The directory that was copied ends with the mark of a stop, too, and starts again here."""
    ask(region, "XADD", KEY, "*", "f", "v")
    left = region.directory_of(SHARD)
    region.stop()
    region.where[SHARD] = 1
    shutil.copytree(left, region.directory_of(SHARD))
    region.start(incarnation=0)
    retried(region, "is a copy that was not handed over to 127.0.0.2:")


def test_what_a_shard_leaves_behind_does_not_start(region: SplitRegion) -> None:
    """The directory was copied, so both machines have one that ends with the mark of a stop."""
    left = region.directory_of(SHARD)
    region.send_away(SHARD)
    region.await_handed_over(SHARD, left)
    shutil.copytree(left, region.directory_of(SHARD))
    region.of(SHARD).signal(signal.SIGHUP)
    region.of(SHARD).await_shard(SHARD)
    ask(region, "XADD", KEY, "*", "f", "v")
    there = region.of(SHARD)
    region.send_away(SHARD)
    region.await_handed_over(SHARD, there.data / "shard-001")
    region.of(SHARD).signal(signal.SIGHUP)
    retried(region, "was handed over to 127.0.0.2:")
    shutil.rmtree(left)
    (there.data / "shard-001").rename(left)
    region.of(SHARD).signal(signal.SIGHUP)
    region.of(SHARD).await_shard(SHARD)
    assert ask(region, "XLEN", KEY) == 1


def test_one_that_was_killed_while_it_moved_moves_all_the_same(region: SplitRegion) -> None:
    ask(region, "XADD", KEY, "*", "f", "v")
    old, left = region.of(SHARD), region.directory_of(SHARD)
    old.signal(signal.SIGSTOP)
    old.kill_shard(SHARD)
    region.send_away(SHARD)
    old.signal(signal.SIGCONT)
    region.await_handed_over(SHARD, left)
    left.rename(region.directory_of(SHARD))
    region.of(SHARD).signal(signal.SIGHUP)
    region.of(SHARD).await_shard(SHARD)
    assert ask(region, "XLEN", KEY) == 1


def test_a_move_that_is_called_off_after_the_hand_over_loses_nothing(region: SplitRegion) -> None:
    ask(region, "XADD", KEY, "*", "f", "v")
    left = region.directory_of(SHARD)
    region.send_away(SHARD)
    region.await_handed_over(SHARD, left)
    other = region.of(1 - SHARD).process_of(1 - SHARD)
    region.call_off(SHARD)
    region.of(SHARD).await_shard(SHARD)
    assert ask(region, "XLEN", KEY) == 1
    assert region.of(1 - SHARD).process_of(1 - SHARD) == other, "the others serve meanwhile"


def test_settings_of_a_move_that_come_with_a_start_move_the_shard(region: SplitRegion) -> None:
    ask(region, "XADD", KEY, "*", "f", "v")
    left = region.directory_of(SHARD)
    region.stop()
    region.where[SHARD] = 1
    region.start(incarnation=0)
    region.await_handed_over(SHARD, left)
    left.rename(region.directory_of(SHARD))
    region.of(SHARD).signal(signal.SIGHUP)
    region.of(SHARD).await_shard(SHARD)
    assert ask(region, "XLEN", KEY) == 1


def test_a_machine_that_starts_before_a_directory_was_brought_serves_its_others(tmp_path: Path) -> None:
    """The others serve meanwhile, and the shard starts once its directory is there."""
    with ShardedRegion(1, tmp_path, 2) as machine:
        machine.start()
        machine.await_serving()
        machine.stop()
        directory = machine.data / "shard-001"
        directory.rename(tmp_path / "elsewhere")
        machine.start()
        reason = f"it ended with exit code {DIRECTORY_REFUSED}: its log says why"
        until(lambda: reason in machine.log(), machine.log)
        machine.await_shard(0)
        (tmp_path / "elsewhere").rename(directory)
        machine.await_serving()


def test_a_machine_founds_no_shard_that_runs_on_the_other(tmp_path: Path) -> None:
    """Its volume is not mounted, or it is new and does not start with `shard = "none"`."""
    port, replication_port = free_ports(2), free_ports(2)
    first, second = (
        ShardedRegion(1, tmp_path, 2, f"region1-{host}", port=port, host=host, replication_port=replication_port)
        for host in ("127.0.0.1", "127.0.0.2")
    )
    with first, second:
        for machine, settings in ((first, {}), (second, {"shard": "1", "announce": f"0={first.host}:{port}"})):
            hosts = dict.fromkeys(("bind", "replication_bind", "announce_host"), machine.host)
            machine.start(**hosts, **settings)
            if machine is first:
                machine.await_serving()
        assert second.await_end() == USAGE_ERROR
        assert f"shard 1 runs at 127.0.0.1:{replication_port + 1} already" in second.log()
        assert not (second.data / "shard-001").exists()
