"""Streams are imported into a region of two shards, and exported from it, as with one server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from crdtstream.cli.app import app
from crdtstream.migration.access import Access, at
from crdtstream.migration.app import INCOMPLETE
from crdtstream.migration.servers import ServedRange, Servers, connect_all
from crdtstream.migration.source import MigrationError
from crdtstream.processes.clients import pairs
from crdtstream.processes.region import RegionProcess
from crdtstream.processes.sharded import ShardedRegion

# The hash slots of `a` and `b` are 15495 and 3300.
KEYS = [b"a", b"b", b"c", b"{a}x"]


@pytest.fixture
def regions(tmp_path: Path) -> Iterator[tuple[RegionProcess, ShardedRegion]]:
    one, sharded = RegionProcess(1, tmp_path), ShardedRegion(2, tmp_path, 2)
    one.start(id_mode="liberal")
    sharded.start()
    try:
        for region in (one, sharded):
            region.await_serving()
        yield one, sharded
    finally:
        for region in (one, sharded):
            region.stop()


def url(region: RegionProcess) -> str:
    return f"redis://127.0.0.1:{region.port}"


def run(*words: str) -> str:
    outcome = CliRunner().invoke(app, list(words))
    assert outcome.exit_code == 0, outcome.output
    return outcome.output


def test_streams_move_into_shards_and_back(regions: tuple[RegionProcess, ShardedRegion], tmp_path: Path) -> None:
    one, sharded = regions
    for key in KEYS:
        for ms in (1, 2, 3):
            one.ask("XADD", key, f"{ms}-1", "f", key)
        one.ask("XGROUP", "CREATE", key, "g", "0")
        one.ask("XREADGROUP", "GROUP", "g", "c", "COUNT", 2, "STREAMS", key, ">")
    run("import", url(one), "--to", url(sharded))
    servers = connect_all(Access(url(sharded)), "the region", 10.0)
    assert servers.stream_keys("*", 100) == sorted(KEYS)
    assert servers.of(b"a") is servers.of(b"{a}x") and servers.of(b"a") is not servers.of(b"b")
    for key in KEYS:
        there = servers.of(key)
        assert there.execute_command("XRANGE", key, "-", "+") == one.ask("XRANGE", key, "-", "+")
        assert there.execute_command("XPENDING", key, "g")[0] == 2
    for region in (one, sharded):
        run("export", url(region), "--out", str(tmp_path / f"{region.port}.resp"))
    texts = [(tmp_path / f"{region.port}.resp").read_bytes() for region in regions]
    assert [text.count(b"XADD") for text in texts] == [3 * len(KEYS)] * 2


def pairs_of(region: ShardedRegion, *words: str) -> dict[bytes, object]:
    return pairs(connect_all(Access(url(region)), "the region", 10.0).of(words[2].encode()).execute_command(*words))


def test_properties_come_along_and_what_does_not_is_named(regions: tuple[RegionProcess, ShardedRegion]) -> None:
    one, sharded = regions
    one.ask("XADD", "a", "IDMP", "p", 1, "*", "f", "v")
    one.ask("CRDT.STREAM", "SET", "a", "MAXLEN", 100, "MAXAGE", 900_000_000, "ACKED")
    limits = ("MAXDELIVERIES", 3, "DEADLETTER")
    one.ask("XGROUP", "CREATE", "a", "crossing", 0, "CRDT", "ACKNOWLEDGE", "EXACT", *limits, "dead")
    one.ask("XGROUP", "CREATE", "a", "tagged", 0, "CRDT", *limits, "{a}dead")
    one.ask("XGROUP", "CREATE", "a", "owned", 0, "CRDT", "DELIVER", "OWNER", 1, "TAKEOVER", 5_000, "ORDER", "ALL")
    one.ask("XGROUP", "CREATE", "a", "plain", 0)
    outcome = CliRunner().invoke(app, ["import", url(one), "--to", url(sharded)])
    assert outcome.exit_code == INCOMPLETE, outcome.output
    assert (
        "stream a, group crossing: MAXDELIVERIES 3 and DEADLETTER dead were left out, because the keys a and dead have"
        " different hash slots, and the region has several shards: choose a key with the same hash tag (CRDT.GROUP SET"
        " a crossing MAXDELIVERIES 3 DEADLETTER {a}dead); what is in dead stays there"
    ) in outcome.output
    assert "stream a, group owned: its properties were not set (unknown region 1:" in outcome.output
    assert "CRDT.GROUP SET a owned ACKNOWLEDGE EXACT DELIVER OWNER 1 TAKEOVER 5000 ORDER ALL" in outcome.output
    assert "the names of 1 adds (IDMP) in 1 streams were not copied" in outcome.output
    assert pairs_of(sharded, "CRDT.STREAM", "GET", "a") == pairs(one.ask("CRDT.STREAM", "GET", "a"))
    assert pairs_of(sharded, "CRDT.GROUP", "GET", "a", "tagged") == pairs(one.ask("CRDT.GROUP", "GET", "a", "tagged"))
    assert pairs_of(sharded, "CRDT.GROUP", "GET", "a", "plain") == pairs(one.ask("CRDT.GROUP", "GET", "a", "plain"))
    crossing = pairs_of(sharded, "CRDT.GROUP", "GET", "a", "crossing")
    assert (crossing[b"acknowledge"], crossing[b"maxdeliveries"], crossing[b"deadletter"]) == (b"exact", 0, b"")

    again = CliRunner().invoke(app, ["import", url(one), "--to", url(sharded)])
    assert again.exit_code == INCOMPLETE and "1 adds (IDMP)" in again.output
    for group in ("crossing", "owned"):
        assert f"stream a, group {group}: it has other properties than in the source: set them (" in again.output
    with sharded.cluster_client() as client:
        client.execute_command("CRDT.GROUP", "SET", "a", "crossing", "MAXDELIVERIES", 3, "DEADLETTER", "{a}dead")
        client.execute_command("XGROUP", "DESTROY", "a", "owned")
    one.ask("XGROUP", "DESTROY", "a", "owned")
    assert "properties" not in run("import", url(one), "--to", url(sharded))


def test_a_stream_that_has_properties_keeps_them(regions: tuple[RegionProcess, ShardedRegion]) -> None:
    one, sharded = regions
    one.ask("XADD", "b", "*", "f", "v")
    run("import", url(one), "--to", url(sharded))
    one.ask("CRDT.STREAM", "SET", "b", "MAXLEN", 100)
    run("import", url(one), "--to", url(sharded))
    assert pairs_of(sharded, "CRDT.STREAM", "GET", "b")[b"maxlen"] == 100
    one.ask("CRDT.STREAM", "SET", "b", "MAXLEN", 50)
    run("import", url(one), "--to", url(sharded))
    assert pairs_of(sharded, "CRDT.STREAM", "GET", "b")[b"maxlen"] == 100


def test_a_hash_slot_without_a_server_is_named() -> None:
    servers = Servers([ServedRange(0, 100, None), ServedRange(101, 200, None)])
    with pytest.raises(MigrationError, match="no server has hash slot 15495, that of b'a'"):
        servers.of(b"a")


@pytest.mark.parametrize(
    ("given", "host", "expected"),
    [
        ("redis://127.0.0.1:7000", "10.0.0.1", "redis://10.0.0.1:7"),
        ("rediss://me:word@host/0", "::1", "rediss://me:word@[::1]:7/0"),
    ],
)
def test_another_server_is_reached_as_the_first(given: str, host: str, expected: str) -> None:
    assert at(Access(given, authority="ca"), host, 7) == Access(expected, authority="ca")
