"""Regions as processes: what they tell each other, and what an operator sees of it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from crdtstream.processes.clients import pairs
from crdtstream.processes.launching import Launcher
from crdtstream.processes.region import RegionProcess, Regions, regions_in
from crdtstream.processes.waiting import DEADLINE_S, until
from tests.region_processes import FIRST_DRAW, KILOBYTE, ids, linked

PATIENCE_MS = int(DEADLINE_S * 1000) - 5_000  # the client waits a little longer


@pytest.fixture
def regions(tmp_path: Path) -> Iterator[Regions]:
    with regions_in(tmp_path) as made:
        yield made


def dialled_by_one(dialling: RegionProcess, dialled: RegionProcess) -> None:
    """As `linked`, but never with two links for a moment, of which the one that goes may have carried something."""
    dialled.start(incarnation=0, allow_region=dialling.number)
    dialling.start(dialled, incarnation=0)
    for region in (dialled, dialling):
        region.await_serving()


def test_fresh_regions_greet_before_they_serve(regions: Regions) -> None:
    first, second, third = regions.make(1, 2, 3)
    second.start(first, third)
    until(lambda: second.state() != "down", "region 2 listens")
    state = second.state()
    assert state.startswith("a new data directory waits to hear from its peers")
    assert first.address in state and third.address in state
    third.start(first, second)
    until(lambda: third.state() != "down", "region 3 listens")
    assert second.state() != "ok" != third.state()
    first.start(second, third)
    for region in (first, second, third):
        region.await_serving()
        assert region.origin().startswith(f"{region.number}.")
    for region in (first, second, third):
        region.ask("XADD", "x", "*", "from", region.number)
    regions.await_agreement()
    held = ids(first)
    gone = second.origin()
    lose_directory(second)
    second.start(first, third)
    second.await_serving()
    assert second.origin() != gone
    regions.await_agreement()
    assert ids(second) == held
    added = second.ask("XADD", "x", "*", "from", "the second life")
    until(lambda: ids(first) == [*held, added] == ids(third), "the new origin's entry everywhere")


def lose_directory(region: RegionProcess) -> None:
    region.kill()
    shutil.rmtree(region.data)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"cluster": "other"}, "belongs to cluster"),
        ({"id-mode": "liberal"}, "has ID mode"),
    ],
    ids=["cluster", "id-mode"],
)
def test_regions_that_do_not_fit_refuse_each_other(regions: Regions, settings: dict[str, object], reason: str) -> None:
    east, west = regions.make(1, 2)
    east.start(west, incarnation=0)
    west.start(east, incarnation=0, **settings)
    for region in (east, west):
        region.await_serving()
    until(lambda: reason in east.log() and reason in west.log(), lambda: f"both logs say why: {regions.logs()}")
    for region in (east, west):
        entry_id = region.ask("XADD", "x", "*", "f", "v")
        assert ids(region) == [entry_id]
        assert region.terminate() == 0
        assert "Traceback" not in region.log()


def test_a_peer_that_is_not_there_is_shown_with_the_reason(regions: Regions) -> None:
    east, west = regions.make(1, 2)
    east.start(west, incarnation=0)
    east.await_serving()
    until(lambda: b"Connection refused" in reason_in(east, west.address), "INFO says why")
    assert b"unlinked-ms" in pairs(east.ask("CRDT.REGIONS")[1])
    west.start(incarnation=0)
    until(lambda: b"each is a --peer of the other" in reason_in(east, west.address), "why it is refused")
    west.terminate()
    west.start(east, incarnation=0)
    until(lambda: reason_in(east, west.address) == b"", "the link")


def reason_in(region: RegionProcess, address: str) -> bytes:
    """Why the peer at that address is not linked; empty when it is."""
    lines = region.ask("INFO", "replication").splitlines()
    line = next((line for line in lines if address.encode() in line), b",reason=not shown")
    return bytes(line.partition(b",reason=")[2])


def test_wait_counts_the_regions_that_hold_a_write(regions: Regions) -> None:
    east, west, north = regions.make(1, 2, 3)
    linked(east, west, north)
    with east.connect() as client:
        client.execute_command("XADD", "x", "*", "f", "v")
        assert client.execute_command("WAIT", "2", PATIENCE_MS) == 2
        north.kill()
        client.execute_command("XADD", "x", "*", "f", "v")
        assert client.execute_command("WAIT", "1", PATIENCE_MS) == 1
        assert client.execute_command("WAIT", "2", "300") == 1
        north.start(east, west, incarnation=0)
        assert client.execute_command("WAIT", "2", PATIENCE_MS) == 2


def test_readers_that_wait_are_woken_by_another_region(regions: Regions) -> None:
    east, west = regions.make(1, 2)
    linked(east, west)
    east.create_group("jobs", "g", "$")
    until(lambda: west.ask("EXISTS", "jobs"), "the group at the other side")
    reader, worker = west.connect(), west.connect()
    reader.connection.send_command("XREAD", "BLOCK", "0", "STREAMS", "x", "$")
    worker.connection.send_command("XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "jobs", ">")
    until(lambda: b"blocked_clients:2" in west.ask("INFO", "clients"), "both wait")
    added, job = east.ask("XADD", "x", "*", "f", "v"), east.ask("XADD", "jobs", "*", "f", "v")
    assert reader.connection.read_response() == [[b"x", [[added, [b"f", b"v"]]]]]
    assert worker.connection.read_response() == [[b"jobs", [[job, [b"f", b"v"]]]]]


def sent_bytes(region: RegionProcess, peer: RegionProcess) -> int:
    """Of batches, on the link that is open now, as of the last tick."""
    rows = region.ask("INFO", "replication").decode().splitlines()
    mine = [row for row in rows if row.startswith("peer") and f"region={peer.number}," in row]
    return sum(int(row.rpartition("sent_bytes=")[2].partition(",")[0]) for row in mine)


OTHER_LIMITS = """
[limits]
message_bytes = 2048
message_bytes_max = 65536
window_bytes = 16384
segment_bytes_max = 65536
heartbeat_ms = 300
peer_timeout_ms = 60000
durable_interval_ms = 500
backoff_ms_max = 200
"""


def test_another_config_sends_nothing_again(regions: Regions, tmp_path: Path) -> None:
    """Regions go on from their vectors, whatever of their settings and peers is another one."""
    settings = tmp_path / "other.toml"
    settings.write_text(OTHER_LIMITS)
    east, west, nobody = regions.make(1, 2, 3)
    dialled_by_one(west, east)
    for region in (east, west):
        region.create_group("x", region.name)
        with region.connect() as client:
            pipeline = client.pipeline(transaction=False)
            for _ in range(500):
                pipeline.execute_command("XADD", "x", "*", "f", KILOBYTE)
            pipeline.execute()
    regions.await_agreement(east, west)
    all_bytes = 500 * len(KILOBYTE)
    until(lambda: sent_bytes(east, west) > all_bytes, "INFO shows what was sent")
    changes: list[tuple[RegionProcess, RegionProcess, list[RegionProcess], dict[str, object]]] = [
        (east, west, [], {"fsync": "always", "config": settings, "allow-region": 2}),
        (west, east, [east, nobody], {"fsync": "no", "log-level": "debug"}),
    ]
    for region, other, peers, change in changes:
        assert region.terminate() == 0
        for _ in range(5):
            other.ask("XADD", "x", "*", "f", "while the other one was down")
        region.start(*peers, **change)
        region.await_serving()
        region.ask("XADD", "x", "*", "f", "at once")
        regions.await_agreement(east, west)
        for sender, receiver in ((region, other), (other, region)):
            until(lambda a=sender, b=receiver: sent_bytes(a, b) > 0, "INFO shows what was sent")  # type: ignore[misc]
            assert sent_bytes(sender, receiver) < all_bytes // 50
    assert len(ids(east)) == 1_000 + 12
    assert "state-transfer" not in east.log() + west.log()


def test_settings_that_change_while_it_runs_keep_the_link(regions: Regions) -> None:
    east, west = regions.make(1, 2)
    dialled_by_one(west, east)
    east.ask("XADD", "x", "*", "f", KILOBYTE)
    regions.await_agreement()
    until(lambda: sent_bytes(east, west) > len(KILOBYTE), "INFO shows what was sent")
    before = sent_bytes(east, west)
    changed = {"heartbeat-ms": 200, "peer-timeout-ms": 60_000, "audit-interval-ms": 0, "expiry-takeover-ms": 50}
    for name, value in changed.items():
        assert east.ask("CONFIG", "SET", name, value) == b"OK"
    east.ask("XADD", "x", "*", "f", "v")
    regions.await_agreement()
    until(lambda: sent_bytes(east, west) > before, "the link is the same, and carried what is new")
    assert sent_bytes(east, west) < before + 1_000


def test_regions_that_agree_compare_their_sums(regions: Regions) -> None:
    east, west = regions.make(1, 2)
    linked(east, west)
    for region in (east, west):
        region.ask("XADD", region.name, "*", "f", "v")
    for region in (east, west):
        until(lambda at=region: audits(at)["audit_comparisons"] > 0, "sums are compared")  # type: ignore[misc]
        assert audits(region)["audit_differences"] == 0
        assert audits(region)["audit_last_time"] > 0


def audits(region: RegionProcess) -> dict[str, int]:
    rows = [row.partition(":") for row in region.ask("INFO", "replication").decode().splitlines()]
    return {name: int(value) for name, _, value in rows if name.startswith("audit_") and value.isdigit()}


def twin_in(directory: Path) -> RegionProcess:
    """Its first origin has the number that every other twin's has, as if one's memory were the other's."""
    directory.mkdir()
    return RegionProcess(1, directory, launcher=Launcher((sys.executable, "-c", FIRST_DRAW)))


def test_regions_that_took_different_effects_of_twins_start_over(regions: Regions, tmp_path: Path) -> None:
    """Each of two processes of one origin has a peer of its own; the peers meet when both have written."""
    one, other = twin_in(tmp_path / "one"), twin_in(tmp_path / "other")
    east, west = regions.make(2, 3)
    regions.running += [one, other]
    one.start(east, incarnation=0)
    other.start(west, incarnation=0)
    east.start(one, west, incarnation=0)
    west.start(other, incarnation=0)
    for region in regions.running:
        region.await_serving()
    for region in (one, other):
        for at in range(5):
            region.ask("XADD", "x", "*", "f", f"{region.data.parent.name} {at}")
    regions.await_agreement(one, east)
    regions.await_agreement(other, west)
    assert east.digest() != west.digest()
    told = sorted(entry for region in (one, other) for entry in region.ask("XRANGE", "x", "-", "+"))
    east.terminate()
    east.start(one, west, incarnation=0, allow_region=3)
    west.terminate()
    west.start(other, east, incarnation=0)
    for region in (east, west):
        region.await_serving()
    for region, source in ((west, 2), (other, 3), (one, 2)):
        until(lambda at=region, by=source: starts_over(at, by), "it starts over")  # type: ignore[misc]
        region.await_serving()
        until(lambda at=region: b"start_overs:1" in at.ask("INFO", "replication"), "it is over")  # type: ignore[misc]
    regions.await_agreement()
    for region in regions.running:
        assert sorted(region.ask("XRANGE", "x", "-", "+")) == told


def starts_over(region: RegionProcess, source: int) -> bool:
    """Once the link is there."""
    try:
        return bool(region.ask("CRDT.STARTOVER", source) == b"OK")
    except redis.ResponseError:
        return False
