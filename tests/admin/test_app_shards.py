"""`crdtstream admin` in two regions of two shards: which shards it asks, what it compares, and what is missing."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from crdtstream.admin.comparison import AGREE, DIFFER, UNREACHABLE
from crdtstream.admin.standing import FAILING, HEALTHY
from crdtstream.processes.sharded import ShardedRegion
from crdtstream.processes.waiting import until
from tests.admin.sharded import admin, admin_json
from tests.sharded_regions import SHARDS, await_linked, stop_shard, two_regions

Two = tuple[ShardedRegion, ShardedRegion]
# Keys of shard 0 and of shard 1.
KEYS = {0: "b", 1: "a"}


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    with two_regions(tmp_path_factory.mktemp("two")) as regions:
        for shard, key in KEYS.items():
            regions[0].ask_shard(shard, "XGROUP", "CREATE", key, "g", "$", "MKSTREAM")
            for number in range(2 + shard):
                regions[0].ask_shard(shard, "XADD", key, "*", "n", number)
        until(lambda: regions[0].digests() == regions[1].digests(), "the shards agree")
        yield regions


@pytest.mark.parametrize("shard", [0, 1])
@pytest.mark.parametrize(
    "words", [("xlen",), ("xrange",), ("xinfo", "stream"), ("digest",), ("diff",), ("xinfo", "groups")]
)
def test_a_key_is_asked_for_where_it_is(two: Two, shard: int, words: tuple[str, ...]) -> None:
    code, told = admin_json(two[0], *words, KEYS[shard])
    assert (code, told["shard"], told["regions"]) == (AGREE, shard, ["region1", "region2"])
    assert told["rows"] and not any(row["field"] == "error" for row in told["rows"])
    code, text = admin(two[1], "xlen", KEYS[shard])
    assert code == AGREE and f"XLEN {KEYS[shard]}, shard {shard}" in text


def test_pending_entries_of_a_key_are_asked_for_where_it_is(two: Two) -> None:
    code, told = admin_json(two[0], "xpending", KEYS[1], "g")
    assert (code, told["shard"], told["rows"][0]["values"]) == (AGREE, 1, {"region1": 0, "region2": 0})


def test_all_shards_are_compared_with_their_counterparts(two: Two) -> None:
    code, told = admin_json(two[0], "digest")
    expected = [digest.decode() for digest in two[0].digests()]
    assert code == AGREE
    assert [(row["shard"], row["values"]["region1"]) for row in told["rows"]] == list(enumerate(expected))
    assert expected[0] != expected[1], "shards are not compared with each other"
    code, told = admin_json(two[0], "digest", "--each")
    assert (code, told["compared"], told["complete"]) == (AGREE, 2, True)
    for words in (("regions",), ("members",), ("lag",)):
        code, told = admin_json(two[1], *words)
        assert {row["shard"] for row in told["rows"]} == {0, 1}, words
        assert not any("error" in row["field"] for row in told["rows"]), told


def test_the_state_of_all_shards_on_one_screen(two: Two) -> None:
    until(lambda: admin(two[0], "status")[0] == HEALTHY, "all is well")
    code, told = admin_json(two[0], "status")
    assert (code, told["digests"], told["failures"]) == (HEALTHY, "equal", [])
    assert [(each["name"], each["shard"]) for each in told["regions"]] == [
        ("region1", 0),
        ("region2", 0),
        ("region1", 1),
        ("region2", 1),
    ]
    assert [each["behind"] for each in told["regions"]] == [0] * 4
    assert [(each["shard"], each["up"]) for each in told["links"]] == [(0, True), (1, True)]
    code, text = admin(two[1], "top")
    assert code == AGREE and "4 of 4 shards of 2 regions answer, 2 of 2 links up, digests equal" in text


def test_groups_of_all_shards(two: Two) -> None:
    code, told = admin_json(two[0], "groups")
    assert (code, told["streams"], told["groups"]) == (AGREE, 2, 2)
    assert [(row["stream"], row["shard"], row["lag"]) for row in told["rows"]] == [("a", 1, 3), ("b", 0, 2)]
    assert set(told["rows"][0]["regions"]) == {"region1", "region2"}


def test_users_are_compared_and_copied_shard_by_shard(two: Two) -> None:
    east, west = two
    for shard in range(SHARDS):
        east.ask_shard(shard, "ACL", "SETUSER", "ann", "on", "nopass", "+ping")
    code, told = admin_json(east, "acl", "diff")
    assert code == DIFFER and {(row["field"], row["shard"]) for row in told["rows"]} == {("ann", 0), ("ann", 1)}
    code, told = admin_json(east, "acl", "copy")
    assert code == AGREE, told
    assert admin(east, "acl", "diff")[0] == AGREE
    assert [b"ann" in reply for reply in west.ask_shards("ACL", "USERS")] == [True, True]


def test_a_shard_that_is_down_is_named_and_the_others_are_shown(two: Two) -> None:
    """Last: it changes links for a while."""
    east, west = two
    stop_shard(west, 1)
    code, told = admin_json(east, "digest")
    assert code == UNREACHABLE
    rows = {(row["shard"], row["field"]): row["values"] for row in told["rows"]}
    assert rows[1, "error"] == {"region1": "", "region2": "Connection refused"}
    assert len({*rows[0, "value"].values()}) == 1 and rows[1, "value"]["region2"] == "-"
    assert admin(east, "xlen", KEYS[0])[0] == AGREE
    code, told = admin_json(east, "xlen", KEYS[1])
    assert (code, told["rows"][0]["values"]["region2"]) == (UNREACHABLE, "Connection refused")
    code, told = admin_json(east, "status")
    assert code == FAILING and "shard 1: region2 does not answer: Connection refused" in told["failures"]
    west.signal(signal.SIGHUP)
    await_linked(east, west)
    until(lambda: admin(east, "digest")[0] == AGREE, "all is well again")
