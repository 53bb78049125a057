"""The pages in headless Chromium, on two regions of two shards, of which one is stopped, and afterwards."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crdtstream.processes.sharded import ShardedRegion
from crdtstream.processes.waiting import until
from tests.dashboard.browser import DESK, Looker, chromium, dashboard, looking_at, need_browser
from tests.sharded_regions import await_linked, stop_shard, two_regions

need_browser()

Two = tuple[ShardedRegion, ShardedRegion]
REFUSED = re.compile(r"MOVED \d")
# Of shard 0 and of shard 1.
KEYS = {0: "b", 1: "a"}


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    with two_regions(tmp_path_factory.mktemp("two")) as regions:
        for shard, key in KEYS.items():
            regions[0].ask_shard(shard, "XGROUP", "CREATE", key, "g", "$", "MKSTREAM")
            regions[0].ask_shard(shard, "XADD", key, "*", "item", f"of shard {shard}")
        until(lambda: regions[0].digests() == regions[1].digests(), "the shards agree")
        yield regions


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def looker(two: Two, browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Looker]:
    with (
        dashboard(tmp_path_factory.mktemp("dashboard"), [two[1].port + 1]) as url,
        looking_at(browser, url) as found,
    ):
        yield found


def test_all_shards_are_found_from_one(looker: Looker) -> None:
    with looker.page("/") as page:
        page.get_by_role("heading", name="All 2 regions hold the same").wait_for()
        page.get_by_role("img", name="2 regions, 1 links, 0 of them down").wait_for()
        for region in (1, 2):
            for shard in KEYS:
                page.get_by_text(f"{region} · shard {shard}").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= DESK[0]


@pytest.mark.parametrize("shard", [0, 1])
def test_a_stream_is_asked_for_at_the_shard_that_has_it(looker: Looker, shard: int) -> None:
    key = KEYS[shard]
    with looker.page("/streams?pattern=*") as page:
        page.get_by_role("link", name=key, exact=True).first.wait_for()
    with looker.page(f"/stream?key={key}") as page:
        page.get_by_role("columnheader", name="region1").first.wait_for()
        assert page.get_by_text(REFUSED).count() == 0
    for path in (f"/entries?key={key}", f"/tail?key={key}"):
        with looker.page(path) as page:
            page.get_by_text(f"of shard {shard}").first.wait_for()
    with looker.page(f"/group?key={key}&group=g") as page:
        page.get_by_text("region2").first.wait_for()
        assert page.get_by_text(REFUSED).count() == 0


def test_a_shard_that_is_down_is_named(looker: Looker, two: Two) -> None:
    east, west = two
    stop_shard(west, 1)
    with looker.page("/") as page:
        page.get_by_role("heading", name="region2 shard 1 does not answer").wait_for()
        page.get_by_text("shard 1: no answer").first.wait_for()
        page.get_by_text("region1 shard 1 and region2 shard 1").first.wait_for()
        page.get_by_text("RegionDown").first.wait_for()
        page.get_by_text("region2 shard 1 does not answer: Connection refused").first.wait_for()
        with looker.page("/streams?pattern=*") as streams:
            streams.get_by_role("row", name=f"{KEYS[1]} 1 no answer").wait_for()
            streams.get_by_role("row", name=f"{KEYS[0]} 1 1").wait_for()
        west.signal(signal.SIGHUP)
        await_linked(east, west)
        page.get_by_role("heading", name="All 2 regions hold the same").wait_for()


def test_a_leave_that_one_shard_misses_is_repeated(two: Two, browser: Any, tmp_path: Path) -> None:
    """It ends the second region."""
    east, west = two
    stop_shard(west, 1)
    with (
        dashboard(tmp_path, [east.port], "--actions") as url,
        looking_at(browser, url) as looker,
        looker.page("/") as overview,
    ):
        overview.get_by_role("heading", name="region2 shard 1 does not answer").wait_for()
        with looker.page("/actions?action=leave&region=region2&ask=yes") as page:
            page.get_by_role("button", name="Run it").click()
            page.get_by_role("heading", name="Refused").wait_for()
            page.get_by_role("row", name="region2 shard 0 it has not been asked to leave").wait_for()
            page.get_by_role("row", name="region2 shard 1 Connection refused").wait_for()
            west.signal(signal.SIGHUP)
            await_linked(east, west)
            page.get_by_role("link", name="Repeat").click()
            page.get_by_role("button", name="Run it").click()
            page.get_by_role("heading", name="Done", exact=True).wait_for(timeout=60_000)
            page.get_by_role("row", name="region2 shard 0").wait_for()
            page.get_by_role("row", name="region2 shard 1 left").wait_for()
    until(lambda: not west.runs(), "the supervisor ends with the last shard")
