"""`crdtstream admin evict`, `start-over` and `leave` in regions of two shards: what each shard says, and repetition."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crdtstream.processes.clients import pairs
from crdtstream.processes.sharded import ShardedRegion
from crdtstream.processes.waiting import DEADLINE_S, until
from tests.admin.sharded import admin, admin_json
from tests.sharded_regions import SHARDS, await_linked, await_unlinked, stop_shard, two_regions

KEYS = {0: "b", 1: "a"}


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[ShardedRegion, ShardedRegion]]:
    with two_regions(tmp_path) as regions:
        yield regions


def states(region: ShardedRegion, of: int) -> list[set[bytes]]:
    """The states of the origins of a region, as each shard of another one knows them."""
    replies = [[pairs(row) for row in reply] for reply in region.ask_shards("CRDT.MEMBERS")]
    return [{row[b"state"] for row in rows if row[b"region"] == of} for rows in replies]


def results(region: ShardedRegion, *words: str) -> tuple[int, dict[tuple[int, str], Any]]:
    """Exit code, and what each shard says: by shard and field."""
    code, told = admin_json(region, *words)
    return code, {(row["shard"], row["field"]): row["values"][region.name] for row in told["rows"]}


def leaves_asked(region: ShardedRegion, shard: int) -> int:
    told = region.ask_shard(shard, "INFO", "commandstats").decode()
    return int(re.findall(r"cmdstat_crdt\.leave:calls=(\d+)", told)[0])


# Leaving


def test_a_region_leaves_with_all_of_its_shards(two: tuple[ShardedRegion, ShardedRegion]) -> None:
    east, west = two
    origins = [pairs(rows[0])[b"origin"].decode() for rows in east.ask_shards("CRDT.REGIONS")]
    for shard, key in KEYS.items():
        east.ask_shard(shard, "XADD", key, "*", "n", "1")
    code, told = results(east, "leave")
    assert (code, told) == (
        0,
        {(shard, field): value for shard in (0, 1) for field, value in (("origin", origins[shard]), ("state", "left"))},
    )
    assert east.await_end() == 0, "the supervisor ends with the last shard"
    assert east.log().count("event=shard-left") == SHARDS and "event=shard-failed" not in east.log()
    until(lambda: states(west, 1) == [{b"evicted"}] * SHARDS, "nobody waits for it")
    assert [west.ask_shard(shard, "XLEN", key) for shard, key in KEYS.items()] == [1, 1]


def test_a_shard_that_has_left_is_not_started_and_the_command_is_repeated(
    two: tuple[ShardedRegion, ShardedRegion],
) -> None:
    east, west = two
    # As if the command had been interrupted: this one has left, the other has not been asked.
    east.ask_shard(1, "CRDT.LEAVE")
    until(lambda: "event=shard-left region=region1 shard=1" in east.log(), "it has ended")
    east.signal(signal.SIGHUP)
    until(lambda: "event=config-reloaded" in east.log() or east.state_of(0) == "ok", "the others read their settings")
    assert east.state_of(1) == "down"
    code, told = results(east, "leave")
    assert code == 0, told
    assert (told[1, "state"], told[0, "state"]) == ("left before", "left")
    assert east.await_end() == 0
    assert east.log().count("event=shard-started region=region1 shard=1") == 1
    until(lambda: states(west, 1) == [{b"evicted"}] * SHARDS, "nobody waits for it")


def test_a_shard_that_cannot_leave_keeps_the_named_one_and_the_rest_is_done_later(
    two: tuple[ShardedRegion, ShardedRegion],
) -> None:
    east, west = two
    stop_shard(west, 1)
    await_unlinked(east, 1)
    code, told = results(east, "leave")
    assert code == 2
    assert "no linked region can end the membership" in told[1, "error"]
    assert told[0, "error"] == "it has not been asked to leave: it goes last, once the other shards have left"
    code, output = admin(east, "leave")
    assert code == 2 and "Repeat the command once what is wrong is mended" in " ".join(output.split())
    assert east.ask_shard(0, "XADD", KEYS[0], "*", "n", "1"), "it takes writes"
    west.signal(signal.SIGHUP)
    await_linked(east, west)
    code, told = results(east, "leave")
    assert (code, told[0, "state"], told[1, "state"]) == (0, "left", "left")
    assert east.await_end() == 0


def test_a_shard_that_is_killed_while_it_leaves_is_told_of_and_leaves_later(
    two: tuple[ShardedRegion, ShardedRegion],
) -> None:
    east, west = two
    held = west.process_of(1)
    os.kill(held, signal.SIGSTOP)
    try:
        east.ask_shard(1, "XADD", KEYS[1], "*", "n", "1")
        # Before the program starts, which may take longer than a silent peer stays linked.
        assert pairs(east.ask_shard(1, "CRDT.LEAVE"))[b"state"] == b"draining"
        words = [sys.executable, "-m", "crdtstream", "admin", "--json", "--node", f"127.0.0.1:{east.port}", "leave"]
        leaving = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        until(lambda: leaves_asked(east, 1) > 1, "the program follows it")
        east.kill_shard(1)
        output, _ = leaving.communicate(timeout=DEADLINE_S)
    finally:
        os.kill(held, signal.SIGCONT)
    told = {(row["shard"], row["field"]): row["values"][east.name] for row in json.loads(output)["rows"]}
    assert leaving.returncode == 3 and told[1, "error"] and "it goes last" in told[0, "error"]
    east.await_shard(1)
    await_linked(east, west)
    code, told = results(east, "leave")
    assert (code, told[0, "state"], told[1, "state"]) == (0, "left", "left"), told
    assert east.await_end() == 0
    until(lambda: b"evicted" in states(west, 1)[1], "nobody waits for it")
    assert west.ask_shard(1, "XLEN", KEYS[1]) == 1, "what it had is there"


def test_all_shards_stay_after_all(two: tuple[ShardedRegion, ShardedRegion]) -> None:
    east, west = two
    held = west.process_of(1)
    os.kill(held, signal.SIGSTOP)
    try:
        east.ask_shard(1, "XADD", KEYS[1], "*", "n", "1")
        assert pairs(east.ask_shard(1, "CRDT.LEAVE"))[b"state"] == b"draining"
        code, told = results(east, "leave", "--abort")
        assert (code, told[0, "state"], told[1, "state"]) == (0, "staying", "staying")
        code, told = results(east, "leave", "--abort")
        assert code == 2 and "is not leaving" in told[0, "error"] and "is not leaving" in told[1, "error"]
    finally:
        os.kill(held, signal.SIGCONT)
    assert east.ask_shard(1, "XADD", KEYS[1], "*", "n", "2")


# Evicting


def test_every_shard_evicts_and_one_that_was_refused_is_done_later(two: tuple[ShardedRegion, ShardedRegion]) -> None:
    east, west = two
    stop_shard(west, 1)
    await_unlinked(east, 1)
    code, told = results(east, "evict", west.name)
    assert code == 2 and "is linked now" in told[0, "error"]
    assert [field.partition(".")[0] for shard, field in told if shard == 1 and field != "error"] == ["2"]
    west.stop()
    await_unlinked(east, 0)
    code, told = results(east, "evict", west.name)
    assert code == 0 and told[1, "state"] == "evicted before", told
    assert states(east, 2) == [{b"evicted"}] * SHARDS


def test_an_origin_is_evicted_by_the_shard_that_knows_it(two: tuple[ShardedRegion, ShardedRegion]) -> None:
    east, west = two
    origin = pairs(west.ask_shard(1, "CRDT.REGIONS")[0])[b"origin"].decode()
    west.stop()
    code, told = results(east, "evict", origin, "--force")
    assert (code, list(told)) == (0, [(1, origin)])
    assert states(east, 2) == [{b"member"}, {b"evicted"}]


# Starting over


def test_all_shards_start_over_and_a_repetition_does_what_is_left(two: tuple[ShardedRegion, ShardedRegion]) -> None:
    east, west = two
    for shard, key in KEYS.items():
        east.ask_shard(shard, "XADD", key, "*", "n", "1")
    stop_shard(east, 1)
    before = pairs(west.ask_shard(0, "CRDT.REGIONS")[0])[b"origin"]
    await_unlinked(west, 1)
    code, told = results(west, "start-over", "--from", east.name)
    assert code == 2 and told[1, "error"] == "the start-over was abandoned: see the log of the region for the reason", (
        told
    )
    after = told[0, "origin"]
    assert after.encode() != before
    east.signal(signal.SIGHUP)
    await_linked(east, west)
    code, told = results(west, "start-over", "--from", east.name)
    assert code == 0, told
    assert told[0, "state"] == "started over within the last hour: --again does it once more"
    assert "origin" in [field for shard, field in told if shard == 1]
    await_linked(east, west)
    code, told = results(west, "start-over", "--from", east.name, "--again")
    assert code == 0 and told[0, "origin"] != after
    until(lambda: east.digests() == west.digests(), "they agree")
