"""Regions as processes whose settings change while they run: peers that come and go, and SIGHUP."""

from __future__ import annotations

import signal
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from crdtstream.processes.region import RegionProcess, Regions, regions_in
from crdtstream.processes.waiting import until
from tests.region_processes import ids, linked


@pytest.fixture
def regions(tmp_path: Path) -> Iterator[Regions]:
    with regions_in(tmp_path) as made:
        yield made


def set_peers(region: RegionProcess, *peers: RegionProcess) -> None:
    addresses = " ".join(peer.address for peer in peers)
    assert region.ask("CONFIG", "SET", "peers", addresses) == b"OK"
    assert region.ask("CONFIG", "GET", "peers") == [b"peers", addresses.encode()]


def test_a_region_is_added_and_removed_while_the_others_run(regions: Regions) -> None:
    east, west, north = regions.make(1, 2, 3)
    linked(east, west)
    east.ask("XADD", "x", "*", "from", "before")
    north.start(east, west)
    for region, others in ((east, (west, north)), (west, (east, north))):
        set_peers(region, *others)
    north.await_serving()
    for region in regions.running:
        region.await_links(*(other.name for other in regions.running if other is not region))
    north.ask("XADD", "x", "*", "from", "north")
    regions.await_agreement()
    assert len(ids(east)) == 2
    set_peers(east, west)
    set_peers(west, east)
    east.await_links("region2")
    west.await_links("region1")
    until(lambda: not north.open_links(), "no link to the region that was removed")
    until(
        lambda: "each is a --peer of the other" in north.log(), lambda: f"it is refused, and told why{north.log_end()}"
    )
    east.ask("XADD", "x", "*", "from", "after")
    regions.await_agreement(east, west)
    assert (len(ids(west)), len(ids(north))) == (3, 2)
    assert "event=peers-changed" in east.log()
    assert "region region1 no longer has region 3 as a peer" in north.log()
    set_peers(east, west, north)
    regions.await_agreement()
    for region in regions.running:
        assert region.terminate() == 0
        assert "Traceback" not in region.log()


def test_sighup_applies_what_can_change_and_names_the_rest(regions: Regions, tmp_path: Path) -> None:
    east, west = regions.make(1, 2)
    east.start(incarnation=0)
    east.await_serving()
    file = tmp_path / "west.toml"
    file.write_text("fsync = 'everysec'\n[limits]\nheartbeat_ms = 900\n")
    west.start(incarnation=0, config=file)
    west.await_serving()
    set_peers(east, west)
    west.ask("CONFIG", "SET", "clients-max", "77")
    file.write_text(f"fsync = 'no'\npeers = ['{east.address}']\n[limits]\nheartbeat_ms = 800\n")
    west.signal(signal.SIGHUP)
    west.await_links("region1")
    assert west.ask("CONFIG", "GET", "peers", "heartbeat-ms", "clients-max", "fsync") == [
        *(b"peers", east.address.encode()),
        *(b"heartbeat-ms", b"800"),
        *(b"clients-max", b"77"),
        *(b"fsync", b"everysec"),
    ]
    assert 'event=settings-reloaded region=region2 changed="peers heartbeat_ms"' in west.log()
    assert "event=settings-need-restart region=region2 settings=fsync" in west.log()
    file.write_text(f"peer = ['{east.address}']\n")
    west.signal(signal.SIGHUP)
    until(lambda: 'unknown setting \\"peer\\": did you mean \\"peers\\"?' in west.log(), "the error names the key")
    assert west.open_links() == {"region1"}
    file.write_text("")
    west.signal(signal.SIGHUP)
    until(lambda: not west.open_links() and not east.open_links(), "the peer is removed")


def test_rewrite_keeps_peers_that_were_added(regions: Regions, tmp_path: Path) -> None:
    east, west = regions.make(1, 2)
    west.start(east, incarnation=0)
    file = tmp_path / "east.toml"
    file.write_text("peers = []  # none yet\n")
    east.start(incarnation=0, config=file)
    east.await_serving()
    set_peers(east, west)
    assert east.ask("CONFIG", "REWRITE") == b"OK"
    assert "# none yet" in file.read_text()
    assert tomllib.loads(file.read_text())["peers"] == [west.address]
    east.terminate()
    east.start(config=file)
    east.await_links("region2")
