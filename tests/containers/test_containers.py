"""Faults of containers and networks, under load, on the image that deploy/build makes.

Each test does one thing to three running regions, undoes it, and lets the clients rest; then no acknowledged write may
be missing anywhere, no acknowledged removal may be undone, and the digests must agree. A table is printed at the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from crdtstream.processes.waiting import until
from tests.containers.cluster import GROUP, NAMES, SERVING_S, STREAM, Cluster, Load, Region, run
from tests.containers.engine import marks

ENTRIES = 400

pytestmark = marks


def test_the_image_has_what_the_gateway_and_traces_need(image: str) -> None:
    words = ["--name", "east", "--region", "1", "--cluster", "c", "--oci-port", "7301", "--http-port", "9121"]
    words += ["--otel-endpoint", "http://127.0.0.1:4318", "--check"]
    said = run("docker", "run", "--rm", "--network", "none", image, "serve", *words)
    assert said == "The settings are valid.\n"


def test_a_region_is_healthy_with_all_of_its_shards(image: str) -> None:
    words = ["--name", "east", "--region", "1", "--cluster", "c", "--data", "/data", "--shards", "2"]
    container = run("docker", "run", "--detach", image, "serve", *words).strip()

    def is_said(health: str) -> bool:
        return run("docker", "inspect", "--format", "{{.State.Health.Status}}", container).strip() == health

    try:
        until(lambda: is_said("healthy"), lambda: run("docker", "logs", container), SERVING_S)
        ask = "import redis; redis.Redis(port=6380).shutdown()"
        run("docker", "exec", container, "/opt/crdtstream/bin/python", "-c", ask)
        until(lambda: is_said("unhealthy"), lambda: run("docker", "logs", container), SERVING_S)
    finally:
        run("docker", "rm", "--force", "--volumes", container)


@pytest.fixture(scope="module")
def table(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    rows: list[str] = []
    yield rows
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        print(f"\n\n{'fault':<24}{'meanwhile':>10}{'healed s':>10}{'agreed s':>10}{'entries':>9}{'lost':>6}  digests")
        print("\n".join(rows))


@pytest.fixture(scope="module")
def cluster(image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(image, tmp_path_factory.mktemp("tls"))
    try:
        made.await_healthy()
        made.regions["east"].create_group(STREAM, GROUP)
        made.await_agreement()
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def loads(cluster: Cluster) -> Iterator[dict[str, Load]]:
    made = {name: Load(region) for name, region in cluster.regions.items()}
    for load in made.values():
        load.start()
    try:
        yield made
    finally:
        for load in made.values():
            load.end()


def arrives(region: Region, entry_id: bytes) -> bool:
    return bool(region.ask("XRANGE", STREAM, entry_id, entry_id))


def cut_link(cluster: Cluster, _loads: dict[str, Load]) -> Callable[[], None]:
    """The other two links carry everything on."""
    east, west = cluster.regions["east"], cluster.regions["west"]
    east.cut(west)
    east.await_links("north")
    west.await_links("north")
    entry_id = east.ask("XADD", STREAM, "*", "at", "east")
    until(lambda: arrives(west, entry_id), "what east writes reaches west through north")

    def heal() -> None:
        east.heal(west)

    return heal


def cut_off_region(cluster: Cluster, loads: dict[str, Load]) -> Callable[[], None]:
    """Both of its links: it serves on, alone, and nothing passes either way."""
    east, west, north = (cluster.regions[name] for name in NAMES)
    north.cut(east)
    north.cut(west)
    north.await_links()
    east.await_links("west")
    entry_id = north.ask("XADD", STREAM, "*", "at", "north")
    loads["north"].await_added(ENTRIES)
    assert not arrives(east, entry_id)

    def heal() -> None:
        north.heal(east)
        north.heal(west)

    return heal


def kill_region(cluster: Cluster, _loads: dict[str, Load]) -> Callable[[], None]:
    east, west = cluster.regions["east"], cluster.regions["west"]
    west.kill()
    east.await_links("north")

    def heal() -> None:
        west.begin()
        west.await_healthy()

    return heal


def pause_region(cluster: Cluster, loads: dict[str, Load]) -> Callable[[], None]:
    """Its connections stay open and silent: only a heartbeat notices."""
    east, north = cluster.regions["east"], cluster.regions["north"]
    failures = loads["north"].failures
    north.container.engine.pause()
    east.await_links("west")
    until(lambda: loads["north"].failures > failures, "clients of a paused region notice")

    def heal() -> None:
        north.container.engine.unpause()

    return heal


FAULTS = {
    "link east-west cut": (cut_link, NAMES),
    "north cut off": (cut_off_region, NAMES),
    "west killed": (kill_region, ("east", "north")),
    "north paused": (pause_region, ("east", "west")),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_loses_nothing(fault: str, cluster: Cluster, loads: dict[str, Load], table: list[str]) -> None:
    inject, serving = FAULTS[fault]
    for load in loads.values():
        load.resume()
        load.await_added(ENTRIES)
    before = total(loads)
    heal = inject(cluster, loads)
    for name in serving:
        loads[name].await_added(ENTRIES)
    meanwhile = total(loads) - before
    begun = time.monotonic()
    heal()
    for name, region in cluster.regions.items():
        region.await_links(*(peer for peer in NAMES if peer != name))
        loads[name].await_added(ENTRIES)
    healed = time.monotonic()
    for load in loads.values():
        load.rest()
    cluster.await_agreement()
    agreed = time.monotonic()
    lost = missing(cluster, loads)
    table.append(
        f"{fault:<24}{meanwhile:>10}{healed - begun:>10.1f}{agreed - healed:>10.1f}{total(loads):>9}"
        f"{len(lost):>6}  agree"
    )
    assert not lost


def test_group_delivered_every_entry(cluster: Cluster, loads: dict[str, Load]) -> None:
    """Live entries only; what a region gave and the client never saw is in its history."""
    for load in loads.values():
        load.rest()
    cluster.await_agreement()
    for load in loads.values():
        with load.region.client() as client:
            while load.read(client, "0") or load.read(client, ">"):
                pass
    delivered = set().union(*(load.delivered for load in loads.values()))
    assert not set(ids(cluster.regions["east"])) - delivered


def total(loads: dict[str, Load]) -> int:
    return sum(len(load.added) for load in loads.values())


def ids(region: Region) -> list[bytes]:
    return [entry[0] for entry in region.ask("XRANGE", STREAM, "-", "+")]


def missing(cluster: Cluster, loads: dict[str, Load]) -> list[tuple[str, bytes]]:
    """Acknowledged writes that a region lacks, and acknowledged removals that it does not know."""
    lost = []
    for name, region in cluster.regions.items():
        live = set(ids(region))
        for load in loads.values():
            lost += [(name, entry_id) for entry_id in load.added - load.maybe_removed - live]
            lost += [(name, entry_id) for entry_id in load.removed & live]
    return lost
