"""Clients over regions as processes: they move, and read what they wrote."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from crdtstream.client import AsyncRegions, NoRegion, OutcomeUnknown, Regions
from crdtstream.processes.region import RegionProcess, regions_in
from crdtstream.processes.waiting import until
from tests.region_processes import linked

PATIENCE_S = 60.0


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[RegionProcess, RegionProcess]]:
    with regions_in(tmp_path) as made:
        east, west = made.make(1, 2)
        linked(east, west)
        yield east, west


def addresses(*regions: RegionProcess) -> list[str]:
    return [f"127.0.0.1:{region.port}" for region in regions]


def add_order(number: int, client: Any) -> Any:
    return client.xadd("orders", {"n": number})


def test_a_session_reads_its_writes_after_its_region_was_killed(pair: tuple[RegionProcess, RegionProcess]) -> None:
    east, west = pair
    with Regions(addresses(east, west), session=True, patience_s=PATIENCE_S) as regions:
        for number in range(50):
            regions.call(partial(add_order, number))
        # The last of it has to be in the west before the east dies: what never left a dead region is nowhere else.
        token = regions.tokens[-1]
        until(lambda: west.ask("CRDT.AWAIT", token, 1_000) == b"OK", "the west has all")
        east.kill()
        assert regions.call(lambda client: client.xlen("orders"), repeat=True) == 50
        assert regions.address == addresses(west)[0] and not regions.go_home()
        regions.call(lambda client: client.xadd("orders", {"n": 50}))
        east.start(west, incarnation=0)
        until(regions.go_home, "the client goes home once the east has what it wrote in the west")
        assert regions.call(lambda client: client.xlen("orders")) == 51
        tokens = regions.tokens
    with Regions(addresses(west, east), tokens=tokens) as continued:
        assert continued.call(lambda client: client.xlen("orders")) == 51


async def test_asyncio_moves_as_well(pair: tuple[RegionProcess, RegionProcess]) -> None:
    east, west = pair
    async with AsyncRegions(addresses(east, west), session=True, patience_s=PATIENCE_S) as regions:
        await regions.call(lambda client: client.xadd("orders", {"n": 1}))
        token = regions.tokens[-1]
        until(lambda: west.ask("CRDT.AWAIT", token, 1_000) == b"OK", "the west has it")
        east.kill()
        assert await regions.call(lambda client: client.xlen("orders"), repeat=True) == 1
        assert not await regions.move(addresses(east)[0]) and not await regions.go_home()


def test_a_region_that_hangs_is_left(pair: tuple[RegionProcess, RegionProcess]) -> None:
    east, west = pair
    with Regions(addresses(east, west), socket_timeout_s=0.5, await_ms=400, patience_s=PATIENCE_S) as regions:
        regions.call(lambda client: client.ping())
        east.signal(signal.SIGSTOP)
        with pytest.raises(OutcomeUnknown):
            regions.call(lambda client: client.xadd("orders", {"n": 1}))
        assert regions.call(lambda client: client.xlen("orders"), repeat=True) == 0
        assert regions.address == addresses(west)[0]
        east.signal(signal.SIGCONT)


def test_options_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="decode_responses cannot be set"):
        Regions(["127.0.0.1:1"], decode_responses=True)
    with pytest.raises(ValueError, match="await_ms=5000 is not between 0 and socket_timeout_s"):
        Regions(["127.0.0.1:1"], socket_timeout_s=5, session=True)
    with pytest.raises(ValueError, match=r"no region has the address a:1: use one of 127.0.0.1:1, ::1:2"):
        Regions(["127.0.0.1:1", "rediss://user:secret@[::1]:2"]).region_at("a:1")
    with Regions(["127.0.0.1:1"], patience_s=0.2) as regions, pytest.raises(NoRegion, match=r"127\.0\.0\.1:1: "):
        regions.call(lambda client: client.ping())
