"""`crdtstream admin status` and `top` against real regions, a link of which is cut."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterable, Iterator
from typing import cast

import pytest
import typer

from crdtstream.admin.settings import AdminSettings
from crdtstream.admin.standing import FAILING, HEALTHY
from crdtstream.admin.watching import WALK_SHARE, TopView
from crdtstream.observing.access import Access
from crdtstream.observing.reading import RedisPorts, RegionReading
from crdtstream.observing.walking import Walks
from crdtstream.processes.region import RegionProcess, regions_in
from crdtstream.processes.relay import Relay
from crdtstream.processes.waiting import until
from tests.admin.invoking import invoke, invoke_json, redis_address

Joined = tuple[RegionProcess, RegionProcess, Relay]


@pytest.fixture(scope="module")
def joined(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Joined]:
    """Two regions, and the relay that is the only path between them."""
    directory = tmp_path_factory.mktemp("joined")
    secret = directory / "secret"
    secret.write_text("a secret that both regions share\n")
    secret.chmod(0o600)
    with regions_in(directory) as regions, Relay() as relay:
        one, two = regions.make(1, 2)
        relay.lead_to(two.replication_port)
        one.start(relay.address, incarnation=0, discover_peers=False, replication_secret_file=secret)
        two.start(incarnation=0, discover_peers=False, replication_secret_file=secret)
        one.await_serving()
        two.await_serving()
        one.create_group("x", "g")
        one.ask("XADD", "x", "*", "n", 1)
        regions.await_agreement(one, two)
        until(lambda: invoke(one, "status")[0] == HEALTHY, "all is well")
        yield one, two, relay


def test_one_region_leads_to_all(joined: Joined) -> None:
    one, two, _ = joined
    code, found = invoke_json(one, "status")
    assert (code, found["healthy"], found["digests"], found["failures"]) == (HEALTHY, True, "equal", [])
    assert [(each["name"], each["address"]) for each in found["regions"]] == [
        ("region1", redis_address(one)),
        ("region2", redis_address(two)),
    ]
    assert [(each["between"], each["up"]) for each in found["links"]] == [(["region1", "region2"], True)]
    code, text = invoke(two, "xlen", "x")
    assert code == 0 and "region1" in text and "region2" in text
    assert "region1" not in invoke(two, "xlen", "x", "--only")[1]


def test_a_link_that_is_cut_is_a_failure_until_it_is_healed(joined: Joined) -> None:
    one, _, relay = joined
    relay.cut()
    until(lambda: invoke(one, "status")[0] == FAILING, "the link is missed")
    code, text = invoke(one, "status")
    assert code == FAILING and "0 of 1 links up" in text and "the link region1 - region2 is down for" in text
    code, text = invoke(one, "regions")
    assert text.count("none") == 2
    one.ask("XADD", "x", "*", "n", 2)
    code, found = invoke_json(one, "status")
    assert (found["digests"], [each["behind"] for each in found["regions"]]) == ("undecided", [0, 1])
    relay.heal()
    until(lambda: invoke(one, "status")[0] == HEALTHY, "all is well again")


def test_a_suspended_region_is_named_within_the_time_for_the_command(joined: Joined) -> None:
    one, two, _ = joined
    two.signal(signal.SIGSTOP)
    try:
        began_s = time.monotonic()
        code, text = invoke(one, "status", "--timeout", "1")
        assert code == FAILING and "region2 does not answer: no answer within" in text
        assert time.monotonic() - began_s < 4
    finally:
        two.signal(signal.SIGCONT)
    until(lambda: invoke(one, "status")[0] == HEALTHY, "all is well again")


def test_top_without_a_terminal_is_one_screen(joined: Joined) -> None:
    code, text = invoke(joined[0], "top")
    assert code == 0 and "regions answer" in text and "groups that lag most" in text and "\x1b" not in text


def test_top_ends_with_q(joined: Joined) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    words = [sys.executable, "-m", "crdtstream", "admin", "--node", redis_address(joined[0]), "top"]
    environment = {**os.environ, "TERM": "xterm"}
    with subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        seen = b""
        end_s = time.monotonic() + 60
        while not (b"2 of 2 regions answer" in seen and b"groups that lag most" in seen) and time.monotonic() < end_s:
            if select.select([ours], [], [], 1.0)[0]:
                seen += os.read(ours, 1 << 16)
        os.write(ours, b"q")
        assert process.wait(30) == 0
    os.close(ours)
    os.close(theirs)
    assert b"2 of 2 regions answer" in seen and b"groups that lag most" in seen


def test_top_is_for_people(joined: Joined) -> None:
    code, text = invoke(joined[0], "top", "--json")
    assert code == 2 and "status --json" in text


class EndlessWalks(Walks):
    """Walks over more streams than there is time for."""

    steps = 0

    async def step(self, addresses: dict[str, str], known: Iterable[str] = ()) -> float:
        self.steps += 1
        await asyncio.sleep(0.01)
        return 0.0

    def is_complete(self) -> bool:
        return False


async def test_top_visits_a_part_of_the_streams_at_each_look(joined: Joined) -> None:
    ports = RedisPorts(Access())
    settings = AdminSettings(
        cast(typer.Context, None), [redis_address(joined[0])], Access(), 5.0, only=True, as_json=False
    )
    view = TopView(settings, ports, 1.0)
    walks = view._walks = EndlessWalks(ports)
    began_s = time.monotonic()
    table = await view._groups([RegionReading(redis_address(joined[0]))])
    await ports.close()
    assert WALK_SHARE * 1.0 <= time.monotonic() - began_s < 1.0 and walks.steps > 1
    assert table.title == "groups that lag most, so far"
