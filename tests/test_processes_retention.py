"""Retention in regions as processes: nobody asks for it, and both regions hold the same afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from crdtstream.processes.region import RegionProcess, Regions, regions_in
from crdtstream.processes.waiting import until
from tests.region_processes import ids, linked

PATIENCE_S = 30


@pytest.fixture
def regions(tmp_path: Path) -> Iterator[Regions]:
    with regions_in(tmp_path) as made:
        yield made


def hold(regions: tuple[RegionProcess, ...], entries: list[bytes]) -> bool:
    return all(ids(region) == entries for region in regions)


def test_entries_leave_both_regions_at_their_age_and_a_limit_survives_a_restart(regions: Regions) -> None:
    east, west = regions.make(1, 2)
    linked(east, west)
    written = [region.ask("XADD", "x", "*", "f", "v") for region in (east, west)]
    until(lambda: hold((east, west), sorted(written)), "both regions have both entries")
    assert east.ask("CRDT.STREAM", "SET", "x", "MAXAGE", 2_000) == b"OK"
    until(lambda: hold((east, west), []), "both entries are too old", PATIENCE_S)
    assert east.ask("CRDT.DIGEST") == west.ask("CRDT.DIGEST")
    east.ask("CRDT.STREAM", "SET", "x", "MAXAGE", "NONE", "MAXLEN", 3)
    for _ in range(5):
        last = west.ask("XADD", "x", "*", "f", "v")
    until(lambda: len(ids(east)) == len(ids(west)) == 3, "the oldest are removed", PATIENCE_S)
    west.kill()
    west.start(east, incarnation=0)
    west.await_serving()
    assert west.ask("CRDT.STREAM", "GET", "x")[5] == 3
    assert ids(west)[-1] == last
    west.ask("XADD", "x", "*", "f", "v")
    until(lambda: ids(east) == ids(west) and len(ids(west)) == 3, "it goes on", PATIENCE_S)
    assert b"retention_maxlen_entries:1\r\n" in west.ask("INFO", "stats"), "what its former process wrote is its own"
