"""The authority of all certificates is replaced while regions serve, as docs/security.md says: both authorities first,
then new certificates, and only then the old authority goes. The link reconnects after every step of every region.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from crdtstream.processes.clients import pairs
from crdtstream.processes.ports import free_port
from crdtstream.processes.region import RegionProcess, regions_in
from crdtstream.processes.relay import Relay
from crdtstream.processes.waiting import until
from tests.runtime.speakers import needs_openssl
from tests.tidy import ROOT

pytestmark = needs_openssl

# What a link takes to be made again, with much to spare.
RECONNECT_S = 20.0
STEPS = ("both authorities", "new certificate", "new authority alone")


class Load(threading.Thread):
    """Adds entries to one region, and knows which were acknowledged."""

    def __init__(self, region: RegionProcess) -> None:
        super().__init__()
        self._region = region
        self._ends = threading.Event()
        self.acknowledged: set[bytes] = set()
        self.failure: Exception | None = None

    def run(self) -> None:
        number = 0
        try:
            while not self._ends.wait(0.002):
                number += 1
                self.acknowledged.add(self._region.ask("XADD", "orders", "*", self._region.name, number))
        except Exception as error:
            self.failure = error

    def end(self) -> None:
        self._ends.set()
        self.join()
        assert self.failure is None, self.failure


@contextmanager
def loaded(*regions: RegionProcess) -> Iterator[list[Load]]:
    loads = [Load(region) for region in regions]
    for load in loads:
        load.start()
    try:
        yield loads
    finally:
        for load in loads:
            load.end()


def made(directory: Path, *regions: RegionProcess) -> tuple[Path, Path, Path]:
    """The old authority with a certificate for each region, what regions use, and the new one with its certificates."""
    named = [f"{region.name}:{region.number}:127.0.0.1" for region in regions]
    for name, days in (("old", "20"), ("new", "40")):
        environment = {**os.environ, "TLS": str(directory / name), "DAYS": days}
        script = [str(ROOT / "deploy" / "certificates"), *named]
        subprocess.run(script, env=environment, check=True, capture_output=True)
    for region in regions:
        shutil.copytree(directory / "old" / region.name, directory / "used" / region.name)
    return directory / "old", directory / "used", directory / "new"


def files_of(used: Path, region: RegionProcess) -> dict[str, Path]:
    folder = used / region.name
    return {f"tls_{part}": folder / f"{part}.pem" for part in ("certificate", "key", "authority")}


def take(step: str, region: RegionProcess, used: Path, old: Path, new: Path) -> None:
    """Change the files of one region."""
    target = used / region.name
    if step == "both authorities":
        both = (old / "authority.pem").read_bytes() + (new / "authority.pem").read_bytes()
        (target / "authority.pem").write_bytes(both)
    elif step == "new certificate":
        for name in ("certificate.pem", "key.pem"):
            shutil.copy(new / region.name / name, target)
    else:
        shutil.copy(new / "authority.pem", target)


def reload(region: RegionProcess) -> None:
    before = region.log().count("certificate-reloaded")
    region.signal(signal.SIGHUP)
    until(lambda: region.log().count("certificate-reloaded") > before, lambda: f"it reloads{region.log_end()}")
    assert "certificate-not-reloaded" not in region.log()


def renew_link(relay: Relay, one: RegionProcess, two: RegionProcess) -> None:
    relay.cut()
    until(lambda: not one.open_links() and not two.open_links(), "the link is down")
    relay.heal()
    one.await_links(two.name, deadline_s=RECONNECT_S)
    two.await_links(one.name, deadline_s=RECONNECT_S)


def unlinked_ms(region: RegionProcess) -> int:
    """For how long the link has been down; -1 while it is open."""
    return int(pairs(region.ask("CRDT.REGIONS")[1]).get(b"unlinked-ms", -1))


def shown_end(region: RegionProcess) -> dict[str, int]:
    line = next(
        each for each in region.ask("INFO", "server").splitlines() if each.startswith(b"certificates_not_after:")
    )
    ends = line.decode().partition(":")[2].split(",")
    return {port: int(end_s) for port, end_s in (each.split("=") for each in ends)}


def test_the_authority_is_replaced_step_by_step(tmp_path: Path) -> None:
    with regions_in(tmp_path) as regions, Relay() as relay:
        one, two = both = regions.make(1, 2)
        old, used, new = made(tmp_path, one, two)
        relay.lead_to(two.replication_port)
        for region, peers in ((one, (relay.address,)), (two, ())):
            region.start(*peers, incarnation=0, discover_peers=False, tls_port=free_port(), **files_of(used, region))
        for region in both:
            region.await_serving()
        one.await_links(two.name)
        before = shown_end(one)
        assert sorted(before) == ["redis", "replication"]
        with loaded(one, two) as loads:
            for step in STEPS:
                for region in both:
                    take(step, region, used, old, new)
                    reload(region)
                    assert max(map(unlinked_ms, both)) == -1, "a reload breaks no link"
                    renew_link(relay, one, two)
            until(lambda: all(len(load.acknowledged) > 100 for load in loads), "there was a load")
        regions.await_agreement(one, two)
        acknowledged = loads[0].acknowledged | loads[1].acknowledged
        for region in both:
            assert {entry[0] for entry in region.ask("XRANGE", "orders", "-", "+")} >= acknowledged
        assert all(end_s > before[port] for port, end_s in shown_end(one).items())


def test_a_region_that_skips_a_step_is_left_out_until_it_takes_it(tmp_path: Path) -> None:
    """A certificate of the new authority is refused until the peer has both."""
    with regions_in(tmp_path) as regions, Relay() as relay:
        one, two = regions.make(1, 2)
        old, used, new = made(tmp_path, one, two)
        relay.lead_to(two.replication_port)
        one.start(relay.address, incarnation=0, discover_peers=False, **files_of(used, one))
        two.start(incarnation=0, discover_peers=False, **files_of(used, two))
        one.await_serving()
        one.await_links(two.name)
        take("new certificate", one, used, old, new)
        reload(one)
        relay.cut()
        until(lambda: not one.open_links(), "the link is down")
        relay.heal()
        until(lambda: "peer-unreachable" in one.log(), lambda: f"it is refused{one.log_end()}")
        assert not one.open_links()
        take("both authorities", two, used, old, new)
        reload(two)
        one.await_links(two.name, deadline_s=RECONNECT_S)
