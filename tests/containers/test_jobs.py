"""What operators do to containers, one job after the other, under load that the checker of nemesis judges.

Each job has keys of its own. The clients of all regions write, read, remove and acknowledge meanwhile; then they rest,
the regions must agree, and no anomaly may be in the record.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from crdtstream.processes.waiting import until
from nemesis.checker import Record, check
from nemesis.history import Loss, Operation
from nemesis.load import GROUP, Load, held_by, range_of
from tests.containers.cluster import DEPLOY, NAMES, SERVING_S, Cluster, Region, run
from tests.containers.engine import marks

pytestmark = marks

WRITES = 100
COMMIT = "0123456789ab"
UPGRADED = """FROM {image}
USER 0
RUN /opt/crdtstream/bin/python -c "import crdtstream, pathlib; \\
    pathlib.Path(crdtstream.__file__).with_name('BUILD').write_text('{commit} 2026-01-01')"
USER 10001:10001
"""
Job = Callable[["Site"], Loss | None]


class Site:
    """The cluster, its clients by region, and the image of the next release: the same code under another commit."""

    def __init__(self, cluster: Cluster, image: str, upgraded: str) -> None:
        self.cluster = cluster
        self.image = image
        self.upgraded = upgraded
        self.loads: dict[str, Load] = {}
        self.past: list[Operation] = []
        for region in cluster.regions.values():
            self.employ(region)

    def employ(self, region: Region) -> Load:
        load = self.loads[region.name] = Load(region, region.number)
        load.start()
        return load

    def dismiss(self, region: Region) -> None:
        """Its client ends; what it did stays in the record of this job."""
        load = self.loads.pop(region.name)
        load.rest()
        load.end()
        self.past += load.operations

    def linked(self) -> None:
        for name in NAMES:
            region = self.cluster.regions[name]
            region.await_healthy()
            until(partial(is_linked, region), f"{region} is linked", SERVING_S)

    def await_writes(self) -> None:
        for load in self.loads.values():
            load.await_written(WRITES, SERVING_S)

    def end(self) -> None:
        for load in self.loads.values():
            load.end()


@pytest.fixture(scope="module")
def upgraded(image: str) -> Iterator[str]:
    tag = f"{image}-upgraded"
    text = UPGRADED.format(image=image, commit=COMMIT)
    subprocess.run(["docker", "build", "-q", "-t", tag, "-"], input=text, text=True, check=True, capture_output=True)
    yield tag
    subprocess.run(["docker", "image", "rm", "--force", tag], capture_output=True, check=False)


@pytest.fixture(scope="module")
def site(image: str, upgraded: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    cluster = Cluster(image, tmp_path_factory.mktemp("tls"))
    try:
        cluster.await_healthy()
        made = Site(cluster, image, upgraded)
        try:
            yield made
        finally:
            made.end()
    finally:
        cluster.close()


def is_linked(region: Region) -> bool:
    return set(NAMES) - {region.name} <= region.open_links()


def lose_volume(site: Site) -> Loss:
    west = site.cluster.regions["west"]
    west.kill()
    at_s = time.monotonic()
    site.cluster.renew(west, site.image, keep_volume=False)
    return Loss(west.number, at_s)


def join(site: Site) -> None:
    """It knows one peer, over one link."""
    south = site.cluster.join("south", 4, "east")
    south.await_healthy()
    south.await_admitted()
    working = site.loads["east"]
    site.employ(south).resume(working.orders, working.churn)


def evict(site: Site) -> None:
    """It has stopped cleanly, so the others have what it wrote, and it does not return."""
    south = site.cluster.regions.pop("south")
    site.dismiss(south)
    assert south.terminate() == 0
    east = site.cluster.regions["east"]
    until(lambda: "south" not in east.open_links(), "the link to south is lost", SERVING_S)
    east.ask("CRDT.EVICT", 4)


def upgrade(site: Site) -> None:
    for name in NAMES:
        region = site.cluster.regions[name]
        assert region.terminate() == 0
        site.cluster.renew(region, site.upgraded, keep_volume=True)
        site.linked()
        region.await_admitted()
        assert COMMIT.encode() in region.ask("INFO", "server")


def reloads(region: Region) -> int:
    return region.log().count("certificate-reloaded")


def has_reloaded(region: Region, before: int) -> bool:
    return reloads(region) > before


def change_certificates(site: Site) -> None:
    """Of the same authority; links that are cut and come back show the new ones."""
    regions = [site.cluster.regions[name] for name in NAMES]
    for region in regions:
        before = reloads(region)
        (region.directory / region.name / "certificate.pem").unlink()
        run(DEPLOY / "certificates", f"{region.name}:{region.number}", TLS=str(region.directory))
        region.container.engine.kill("HUP")
        until(partial(has_reloaded, region, before), "it is read")
    east, west, _ = regions
    east.cut(west)
    until(lambda: "west" not in east.open_links(), "the link is cut", SERVING_S)
    east.heal(west)


JOBS: dict[str, Job] = {
    "a volume is lost": lose_volume,
    "a fourth region joins": join,
    "the fourth region is evicted": evict,
    "regions are upgraded one by one": upgrade,
    "certificates are changed": change_certificates,
}


@pytest.mark.parametrize("job", JOBS)
def test_a_job_loses_nothing(job: str, site: Site) -> None:
    number = list(JOBS).index(job)
    orders, churn = f"orders-{number}", f"churn-{number}"
    site.cluster.regions["east"].create_group(orders, GROUP)
    site.cluster.await_agreement()
    site.past = []
    for load in site.loads.values():
        load.resume(orders, churn)
    site.await_writes()
    loss = JOBS[job](site)
    witnessed = [] if loss is None else witness(site, loss, orders, churn)
    site.linked()
    site.await_writes()
    judge(site, orders, churn, witnessed, loss)


def witness(site: Site, loss: Loss, *keys: str) -> list[Operation]:
    others = [region for region in site.cluster.regions.values() if region.number != loss.region]
    return [range_of(region, key) for region in others for key in keys]


def judge(site: Site, orders: str, churn: str, witnessed: list[Operation], loss: Loss | None) -> None:
    for load in site.loads.values():
        load.rest()
    site.cluster.await_agreement()
    for load in site.loads.values():
        load.drain()
    site.cluster.await_agreement()
    operations = site.past + [each for load in site.loads.values() for each in load.operations]
    assert len(operations) > len(site.loads) * WRITES / 16
    for key, drained in ((orders, True), (churn, False)):
        held = {region.number: held_by(region, key) for region in site.cluster.regions.values()}
        assert not check(Record(key, [*operations, *witnessed], held, loss), drained)
