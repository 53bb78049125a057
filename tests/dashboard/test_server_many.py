"""Eight regions with 200,000 streams: a search loads one page of them, and every page can be read, on a desk and on a
phone, while a region is cut off; the overview also after the heal, light and dark. With SCREENSHOTS=DIRECTORY the
pictures are kept.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis

from crdtstream.processes.region import RegionProcess, regions_in
from crdtstream.processes.relay import Relay
from crdtstream.processes.waiting import until
from tests.dashboard.browser import DESK, PHONE, Looker, chromium, dashboard, looking_at, need_browser

need_browser()

pytestmark = pytest.mark.slow

NAMES = ("east", "west", "north", "south", "frankfurt", "singapore", "sao-paulo", "sydney")
# Fewer make pictures sooner.
STREAMS = int(os.environ.get("STREAMS", "200000"))
BATCH = 2_000
# What a page shows of a search, with much to spare; and what it may take.
NAMES_SHOWN_MAX = 200
SEARCH_S = 10.0
WAIT_MS = 180_000
# What each page says of a stream, to which an entry was added after the last region was cut off.
CUT_PAGES = {
    "/streams?pattern=orders:000007": "Found: 1 stream",
    "/stream?key=orders:000007": "The digests are not equal",
    "/diff?key=orders:000007": "Differences: 1 entry, 0 groups, 0 runs",
    "/group?key=orders:000007&group=billing&to=sydney": "1 entry:",
    "/entries?key=orders:000007": "entries, newest first",
    "/tail?key=orders:000007": "Entries of east as they arrive",
    "/time": "Behind, seconds",
    "/actions": "This dashboard only reads",
}
LOOKS = ((DESK, "light"), (DESK, "dark"), (PHONE, "light"), (PHONE, "dark"))


@dataclass
class Eight:
    """The regions; the last one is reached through the relay alone."""

    regions: list[RegionProcess]
    relay: Relay


@pytest.fixture(scope="module")
def eight(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Eight]:
    directory = tmp_path_factory.mktemp("eight")
    secret = directory / "secret"
    secret.write_text("a secret that all regions share\n")
    secret.chmod(0o600)
    with regions_in(directory) as made, Relay() as relay:
        regions = made.make(*range(1, 9))
        for region, name in zip(regions, NAMES, strict=True):
            region.name = name
        last = regions[-1]
        relay.lead_to(last.replication_port)
        shared = {"incarnation": 0, "discover_peers": False, "replication_secret_file": secret}
        for region in regions:
            peers: list[RegionProcess | str] = [peer for peer in regions[:-1] if peer is not region]
            region.start(*([] if region is last else [*peers, relay.address]), **shared)
        for region in regions:
            region.await_serving()
        fill(regions[0])
        # Digests of so many streams are no way of waiting.
        until(lambda: all(each.ask("DBSIZE") == STREAMS for each in regions), "all have them", deadline_s=900.0)
        made.await_agreement(*regions)
        yield Eight(regions, relay)


def fill(region: RegionProcess) -> None:
    """Many streams, of which a few have groups that lag."""
    for number in range(8):
        region.create_group(f"orders:{number:06}", "billing")
    client: Any = redis.Redis(port=region.port)
    for first in range(0, STREAMS, BATCH):
        pipeline = client.pipeline(transaction=False)
        for number in range(first, first + BATCH):
            pipeline.xadd(f"orders:{number:06}", {"item": "book"})
        pipeline.execute()
    client.close()


@pytest.fixture(scope="module")
def looker(eight: Eight, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Looker]:
    directory = tmp_path_factory.mktemp("dashboard")
    with (
        chromium() as browser,
        dashboard(directory, [eight.regions[0].port]) as url,
        looking_at(browser, url) as found,
    ):
        yield found


def look(looker: Looker, name: str, headline: str) -> None:
    """The overview in each size and scheme: it says this, and nothing is cut off at the side."""
    for size, scheme in LOOKS:
        with looker.page("/", size, scheme) as page:
            page.get_by_role("heading", name=headline).wait_for(timeout=WAIT_MS)
            page.get_by_role("img", name="8 regions").wait_for()
            assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
            keep(page, f"{name}-{'phone' if size == PHONE else 'desk'}-{scheme}")


def visit(looker: Looker, path: str, told: str) -> None:
    """Any other page says this, and nothing is cut off at the side."""
    with looker.page(path) as page:
        page.get_by_text(told).first.wait_for()
        for size in (DESK, PHONE):
            page.set_viewport_size({"width": size[0], "height": size[1]})
            page.wait_for_function("width => document.documentElement.scrollWidth <= width", arg=size[0])
        keep(page, f"partition-{path[1:].partition('?')[0]}-phone")


def keep(page: Any, name: str) -> None:
    directory = os.environ.get("SCREENSHOTS")
    if directory:
        page.screenshot(path=Path(directory) / f"{name}.png", full_page=True)


def test_a_search_loads_a_page_of_names(looker: Looker) -> None:
    began_s = time.monotonic()
    with looker.page("/streams?pattern=orders:*") as page:
        page.get_by_text("orders:").first.wait_for()
        assert time.monotonic() - began_s < SEARCH_S
        first = names_on(page)
        assert 0 < len(first) <= NAMES_SHOWN_MAX
        keep(page, "streams-desk-light")
        with page.expect_navigation():
            page.get_by_role("link", name="More").click()
        page.get_by_text("orders:").first.wait_for()
        second = names_on(page)
        assert 0 < len(second) <= NAMES_SHOWN_MAX and not {*first} & {*second}


def names_on(page: Any) -> list[str]:
    return [text for text in page.locator("td a").all_inner_texts() if text.startswith("orders:")]


def test_one_name_among_all_is_found(looker: Looker) -> None:
    with looker.page("/streams?pattern=orders:000007") as page:
        page.get_by_role("link", name="orders:000007").wait_for()


def test_a_partition_and_its_end(looker: Looker, eight: Eight) -> None:
    look(looker, "before", "All 8 regions hold the same")
    eight.relay.cut()
    for number in range(50):
        eight.regions[0].ask("XADD", f"orders:{number:06}", "*", "item", "lamp")
    look(looker, "partition", "7 links are down, and sydney is behind")
    for path, told in CUT_PAGES.items():
        visit(looker, path, told)
    eight.relay.heal()
    look(looker, "healed", "All 8 regions hold the same")
