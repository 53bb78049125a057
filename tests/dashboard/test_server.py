"""The pages in headless Chromium, on three regions of which one is cut off, and afterwards."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crdtstream.demo.cluster import NAMES, Cluster
from crdtstream.processes.region import regions_in
from tests.dashboard.browser import DESK, PHONE, Looker, chromium, dashboard, looking_at, need_browser

need_browser()

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        east = running.regions["east"]
        for key, group in (("orders", "billing"), ("orders", HOSTILE), (HOSTILE, "g")):
            east.create_group(key, group)
        for key in ("orders", HOSTILE):
            east.ask("XADD", key, "*", "item", HOSTILE, "json", '{"a":[1]}')
        running.await_agreement(NAMES)
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def looker(browser: Any, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Looker]:
    ports = [region.port for region in cluster.regions.values()]
    with dashboard(tmp_path_factory.mktemp("dashboard"), ports) as url, looking_at(browser, url) as found:
        yield found


@pytest.fixture
def cut(cluster: Cluster) -> Iterator[Cluster]:
    """North is cut off, and lacks an entry of east."""
    for name in ("east", "west"):
        cluster.link(name, "north").cut()
    cluster.regions["east"].ask("XADD", "orders", "*", "item", "lamp")
    yield cluster
    for link in cluster.links.values():
        link.heal()
    cluster.await_agreement(NAMES)


def fits(page: Any, size: tuple[int, int]) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth") <= size[0])


def test_the_overview_says_that_all_hold_the_same(looker: Looker) -> None:
    with looker.page("/") as page:
        page.get_by_role("heading", name="All 3 regions hold the same").wait_for()
        page.get_by_text("Their digests are equal.").wait_for()
        page.get_by_role("img", name="3 regions, 3 links, 0 of them down").wait_for()
        page.get_by_role("link", name=HOSTILE).first.wait_for()
        assert fits(page, DESK)


@pytest.mark.usefixtures("cut")
@pytest.mark.parametrize(("size", "scheme"), [(DESK, "dark"), (PHONE, "light")])
def test_the_overview_says_who_is_cut_off_and_why(looker: Looker, size: tuple[int, int], scheme: str) -> None:
    with looker.page("/", size, scheme) as page:
        page.get_by_role("heading", name="2 links are down").wait_for()
        page.get_by_text("north lacks 1 effect").wait_for()
        page.get_by_role("img", name="3 regions, 3 links, 2 of them down").wait_for()
        assert page.locator("td.reason").first.inner_text()
        assert fits(page, size)


@pytest.mark.usefixtures("cut")
@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/streams?pattern=ord*", "Found: 1 stream"),
        ("/stream?key=orders", "The digests are not equal"),
        ("/diff?key=orders", "Differences: 1 entry, 0 groups, 0 runs"),
        ("/group?key=orders&group=billing&to=north", "entries:"),
        ("/entries?key=orders", "entries, newest first"),
        ("/tail?key=orders", "Entries of east as they arrive"),
        ("/time", "Behind, seconds"),
        ("/actions", "This dashboard only reads"),
    ],
)
def test_every_page_with_a_partition_on(looker: Looker, path: str, told: str) -> None:
    with looker.page(path, DESK) as page:
        page.get_by_text(told).first.wait_for()
        for size in (DESK, PHONE):
            page.set_viewport_size({"width": size[0], "height": size[1]})
            # Charts follow a little later.
            page.wait_for_function("width => document.documentElement.scrollWidth <= width", arg=size[0])


def test_a_search_is_reached_by_keyboard(looker: Looker) -> None:
    with looker.page("/") as page:
        page.get_by_role("link", name="Streams", exact=True).wait_for()
        page.keyboard.press("/")
        page.get_by_label("Pattern").wait_for()
        page.keyboard.press("/")
        page.keyboard.press("Control+a")
        page.keyboard.type("no-such-*")
        page.keyboard.press("Enter")
        page.get_by_text("No stream here.").wait_for()


def test_the_live_tail_shows_what_arrives(looker: Looker, cluster: Cluster) -> None:
    with looker.page("/tail?key=orders") as page:
        page.get_by_text(HOSTILE).first.wait_for()
        cluster.regions["east"].ask("XADD", "orders", "*", "item", "a new chair")
        page.get_by_text("a new chair").wait_for()


def test_an_action_shows_its_command_and_asks(browser: Any, cluster: Cluster, tmp_path: Path) -> None:
    cluster.regions["east"].create_group("orders", "doomed")
    ports = [region.port for region in cluster.regions.values()]
    with dashboard(tmp_path, ports, "--actions") as url, looking_at(browser, url) as looker:
        with looker.page("/actions?action=reset&key=orders&group=doomed") as page:
            page.get_by_label("Position").wait_for()
            assert page.get_by_label("Position").input_value() == "0-0"
        with looker.page("/actions?action=destroy&key=orders&group=doomed") as page:
            page.get_by_role("button", name="Show the command").click()
            page.get_by_text("XGROUP DESTROY orders doomed").wait_for()
            assert cluster.regions["east"].ask("XINFO", "GROUPS", "orders")
            page.get_by_role("button", name="Run it").click()
            page.get_by_text("east replied: 1").wait_for()
        forged = urllib.request.Request(f"{url}/act", b"action=destroy&key=orders&group=billing&region=east&token=x")
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(forged)
    groups = [row[1] for row in cluster.regions["east"].ask("XINFO", "GROUPS", "orders")]
    assert b"billing" in groups and b"doomed" not in groups


def test_answers_forbid_other_hosts_and_frames(looker: Looker) -> None:
    with urllib.request.urlopen(looker.url) as answer:
        policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy and "frame-ancestors 'none'" in policy


@pytest.mark.parametrize(("host", "status"), [("localhost", 200), ("[::1]", 200), ("rebound.example", 403)])
def test_a_page_that_means_this_machine_by_another_name_reads_nothing(looker: Looker, host: str, status: int) -> None:
    asked = urllib.request.Request(looker.url, headers={"Host": host})
    try:
        with urllib.request.urlopen(asked) as answer:
            told = answer.status
    except urllib.error.HTTPError as error:
        told = error.code
        assert b"rebound.example is no name of this machine" in error.read()
    assert told == status


def test_a_user_logs_in_where_the_default_user_needs_a_password(browser: Any, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret\n")
    with regions_in(tmp_path) as regions:
        (region,) = regions.make(1)
        region.start(incarnation=0)
        region.await_serving()
        region.ask("CONFIG", "SET", "requirepass", "secret")
        options = ("--password-file", str(secret))
        with (
            dashboard(tmp_path, [region.port], *options) as url,
            looking_at(browser, url) as looker,
            looker.page("/") as page,
        ):
            log_in(page)


def log_in(page: Any) -> None:
    for password in ("wrong", "secret"):
        page.get_by_label("User").fill("default")
        page.get_by_label("Password").fill(password)
        page.get_by_role("button", name="Log in").click()
        if password == "wrong":
            page.get_by_role("alert").get_by_text("wrong user or password").wait_for()
    page.get_by_role("heading", name="One region, and it answers").wait_for()
    cookie = page.context.cookies()[0]
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    page.get_by_role("button", name="Log out").click()
    page.get_by_label("Password").wait_for()
