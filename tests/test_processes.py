"""Real `crdtstream serve` processes on loopback: killed, stopped, started afresh, refused, out of disk, waited on."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from crdtstream.protocols import codec
from crdtstream.storage.disk import RealDisk
from crdtstream.storage.log import open_log
from nemesis.disks import DiskError, small_disk
from nemesis.region_process import DEADLINE_S, RegionProcess, Regions, pairs, regions_in, until

KILOBYTE = b"v" * 1024
PATIENCE_MS = int(DEADLINE_S * 1000) - 5_000  # the client waits a little longer


@pytest.fixture
def regions(tmp_path: Path) -> Iterator[Regions]:
    with regions_in(tmp_path) as made:
        yield made


def linked(*regions: RegionProcess, **settings: object) -> None:
    """Start regions with each other as peers, all of them new."""
    for region in regions:
        region.start(*[peer for peer in regions if peer is not region], incarnation=0, **settings)
    for region in regions:
        region.await_serving()


def dialled_by_one(dialling: RegionProcess, dialled: RegionProcess) -> None:
    """As `linked`, but never with two links for a moment, of which the one that goes may have carried something."""
    dialled.start(incarnation=0)
    dialling.start(dialled, incarnation=0)
    for region in (dialled, dialling):
        region.await_serving()


def ids(region: RegionProcess, key: str = "x") -> list[bytes]:
    return [entry[0] for entry in region.ask("XRANGE", key, "-", "+")]


class Writer(threading.Thread):
    """Adds to a key until the connection breaks or `stop`; `acknowledged` holds the IDs that were answered."""

    def __init__(self, region: RegionProcess, key: str, depth: int) -> None:
        super().__init__(daemon=True)
        self._client = region.client()  # closed by the thread that uses it: redis-py's connections are not for two
        self._key = key
        self._depth = depth
        self._stopped = threading.Event()
        self.acknowledged: list[bytes] = []

    def run(self) -> None:
        try:
            while not self._stopped.is_set():
                self._add()
        except (redis.ConnectionError, redis.TimeoutError):
            pass  # the process was killed under us
        finally:
            self._client.close()

    def _add(self) -> None:
        if self._depth == 1:
            self.acknowledged.append(self._client.execute_command("XADD", self._key, "*", "f", "v"))
            return
        pipeline = self._client.pipeline(transaction=False)
        for _ in range(self._depth):
            pipeline.execute_command("XADD", self._key, "*", "f", "v")
        self.acknowledged += pipeline.execute()

    def stop(self) -> None:
        self._stopped.set()


def local_state(region: RegionProcess) -> list[Any]:
    """What only this region knows of the group, without times."""
    rows = region.ask("XPENDING", "jobs", "g", "-", "+", "100")
    consumers = [pairs(row) for row in region.ask("XINFO", "CONSUMERS", "jobs", "g")]
    return [
        [(row[0], row[1], row[3]) for row in rows],
        [(row[b"name"], row[b"pending"]) for row in consumers],
        pairs(region.ask("XINFO", "GROUPS", "jobs")[0])[b"last-delivered-id"],
    ]


def make_local_state(region: RegionProcess) -> list[Any]:
    for number in range(10):
        region.ask("XADD", "jobs", "*", "n", number)
    region.ask("XGROUP", "CREATE", "jobs", "g", "0")
    region.ask("XREADGROUP", "GROUP", "g", "anna", "COUNT", "4", "STREAMS", "jobs", ">")
    region.ask("XREADGROUP", "GROUP", "g", "bert", "COUNT", "3", "STREAMS", "jobs", ">")
    first = region.ask("XPENDING", "jobs", "g", "-", "+", "2")
    region.ask("XACK", "jobs", "g", first[0][0])
    region.ask("XCLAIM", "jobs", "g", "carl", "0", first[1][0])
    return local_state(region)


@pytest.mark.parametrize("fsync", ["always", "everysec"])
def test_a_killed_region_keeps_what_it_answered(regions: Regions, fsync: str) -> None:
    east, west = regions.make(1, 2)
    linked(east, west, fsync=fsync)
    before = make_local_state(east)
    origin = east.origin()
    for round_number in (1, 2):
        writers = [Writer(east, "x", depth) for depth in (1, 1, 50)]
        for writer in writers:
            writer.start()
        remote = Writer(west, "x", 10)
        remote.start()
        until(lambda at=writers: all(len(w.acknowledged) >= 100 for w in at), "load")  # type: ignore[misc]
        east.kill()
        for writer in writers:
            writer.join(DEADLINE_S)
        east.start(west, incarnation=0, fsync=fsync)
        east.await_serving()
        remote.stop()
        remote.join(DEADLINE_S)
        acknowledged = [entry_id for writer in writers for entry_id in writer.acknowledged]
        missing = set(acknowledged) - set(ids(east))
        assert not missing, f"round {round_number}: {len(missing)} of {len(acknowledged)} are gone"
        assert east.origin() == origin
        assert local_state(east) == before
    regions.await_agreement()
    assert ids(east) == ids(west)


def log_kinds(region: RegionProcess) -> list[int]:
    """The kinds of all records of a stopped region."""
    kinds: list[int] = []
    disk = RealDisk(str(region.data))
    try:
        open_log(disk, lambda position, kind, payload: kinds.append(kind), salt=1)
    finally:
        disk.close()
    return kinds


@pytest.mark.parametrize("fsync", ["always", "everysec", "no"])
def test_sigterm_stops_cleanly(regions: Regions, fsync: str) -> None:
    [east] = regions.make(1)
    east.start(fsync=fsync)
    east.await_serving()
    blocked = east.connect()
    blocked.connection.send_command("XREAD", "BLOCK", "0", "STREAMS", "other", "$")
    entry_id = east.ask("XADD", "x", "*", "f", "v")
    origin = east.origin()
    assert east.terminate() == 0
    assert "Traceback" not in east.log()
    kinds = log_kinds(east)
    assert kinds[-1] == codec.STOP
    assert kinds.count(codec.BIRTH) == 1
    east.start(fsync=fsync)
    east.await_serving()
    assert (east.origin(), ids(east)) == (origin, [entry_id])
    assert east.terminate() == 0


def test_fresh_regions_greet_before_they_serve(regions: Regions, tmp_path: Path) -> None:
    first, second, third = regions.make(1, 2, 3)
    second.start(first, third)
    until(lambda: second.state() != "down", "region 2 listens")
    state = second.state()
    assert state.startswith("a new data directory waits to hear from its peers")
    assert first.address in state and third.address in state
    third.start(first, second)
    until(lambda: third.state() != "down", "region 3 listens")
    assert second.state() != "ok" != third.state()
    first.start(second, third)
    for region in (first, second, third):
        region.await_serving()
        assert region.origin() == f"{region.number}.0"
    for region in (first, second, third):
        region.ask("XADD", "x", "*", "from", region.number)
    regions.await_agreement()
    held = ids(first)
    lose_directory(second)
    second.start(first, third)
    second.await_serving()
    assert second.origin() == "2.1"
    regions.await_agreement()
    assert ids(second) == held
    added = second.ask("XADD", "x", "*", "from", "the second life")
    until(lambda: ids(first) == [*held, added] == ids(third), "the new origin's entry everywhere")


def lose_directory(region: RegionProcess) -> None:
    region.kill()
    shutil.rmtree(region.data)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"region": 1}, "claim region number 1"),
        ({"cluster": "other"}, "is of cluster"),
        ({"id-mode": "liberal"}, "has ID mode"),
    ],
    ids=["region", "cluster", "id-mode"],
)
def test_regions_that_do_not_fit_refuse_each_other(regions: Regions, settings: dict[str, object], reason: str) -> None:
    east, west = regions.make(1, 2)
    east.start(west, incarnation=0)
    west.start(east, incarnation=0, **settings)
    for region in (east, west):
        region.await_serving()
    until(lambda: reason in east.log() and reason in west.log(), lambda: f"both logs say why: {regions.logs()}")
    for region in (east, west):
        entry_id = region.ask("XADD", "x", "*", "f", "v")
        assert ids(region) == [entry_id]
        assert region.terminate() == 0
        assert "Traceback" not in region.log()


@contextmanager
def disk_of(folder: Path, size_kib: int) -> Iterator[None]:
    try:
        with small_disk(folder, size_kib):
            yield
    except DiskError as error:
        pytest.skip(str(error))


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small tmpfs needs root")
@pytest.mark.parametrize("fsync", ["always", "everysec"])
def test_a_full_disk_refuses_writes_and_keeps_reading(tmp_path: Path, fsync: str) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text("[limits]\nsegment_bytes_max = 524288\n")
    with disk_of(tmp_path / "region1", 12 << 10), regions_in(tmp_path) as regions:
        east, west = regions.make(1, 2)
        ballast = east.data / "ballast"
        ballast.write_bytes(bytes(5 << 20))
        linked(east, west, fsync=fsync, config=settings)
        held = fill(east)
        refusal = refused(east)
        assert refusal.startswith("MISCONF") and "disk" in refusal
        assert ids(east) == held, "reads go on"
        assert refused(east, "XGROUP", "CREATE", "x", "g", "0").startswith("MISCONF")
        west.ask("XADD", "y", "*", "f", "v")
        ballast.unlink()
        until(lambda: not refused(east), "writes are taken again")
        until(lambda: east.ask("XLEN", "y") == 1, "the peer's batch is taken again")
        held = ids(east)
        east.kill()
        east.start(west, incarnation=0, fsync=fsync, config=settings)
        assert ids(east.await_serving()) == held
        regions.await_agreement()


def test_rot_in_what_a_peer_lacks_ends_nobody(regions: Regions) -> None:
    """Once while the region runs, and once over a restart: the peer takes a state, and a checkpoint drops the file."""
    settings = regions.directory / "settings.toml"
    settings.write_text("[limits]\nsegment_bytes_max = 65536\n")
    east, west = regions.make(1, 2)
    linked(east, west, config=settings)
    for restarts in (False, True):
        west.kill()
        for _ in range(150):
            east.ask("XADD", "x", "*", "f", KILOBYTE)
        assert east.ask("SAVE") == b"OK"
        rotten = sorted(east.data.glob("log-*"))[-3]
        content = bytearray(rotten.read_bytes())
        content[1_000] ^= 1
        rotten.write_bytes(content)
        if restarts:
            east.kill()
            east.start(west, config=settings)
        west.start(east, config=settings)
        for region in (east, west):
            region.await_serving()
        regions.await_agreement()
        until(lambda file=rotten: not file.exists(), east.log)  # type: ignore[misc]
        assert f"log_last_damage:{rotten.name}:" in east.ask("INFO", "persistence").decode()
        told = f"the log is damaged: who lacks these records is sent a state' file='{rotten.name}'"
        until(lambda text=told: text in east.log(), east.log)  # type: ignore[misc]
    assert len(ids(west)) == 300


def fill(region: RegionProcess) -> list[bytes]:
    """Add until that is refused; the IDs that were acknowledged."""
    held: list[bytes] = []
    with region.connect() as client:
        for _ in range(20_000):
            pipeline = client.pipeline(transaction=False)
            for _ in range(16):
                pipeline.execute_command("XADD", "x", "*", "f", KILOBYTE)
            results = pipeline.execute(raise_on_error=False)
            held += [result for result in results if isinstance(result, bytes)]
            if len(held) % 16 or not isinstance(results[-1], bytes):
                return held
    raise AssertionError("the disk never became full")


def refused(region: RegionProcess, *argv: str) -> str:
    try:
        region.ask(*(argv or ("XADD", "probe", "*", "f", "v")))
    except redis.ResponseError as error:
        return f"{type(error).__name__.upper()} {error}" if not str(error).startswith("MISCONF") else str(error)
    return ""


def test_wait_counts_the_regions_that_hold_a_write(regions: Regions) -> None:
    east, west, north = regions.make(1, 2, 3)
    linked(east, west, north)
    with east.connect() as client:
        client.execute_command("XADD", "x", "*", "f", "v")
        assert client.execute_command("WAIT", "2", PATIENCE_MS) == 2
        north.kill()
        client.execute_command("XADD", "x", "*", "f", "v")
        assert client.execute_command("WAIT", "1", PATIENCE_MS) == 1
        assert client.execute_command("WAIT", "2", "300") == 1
        north.start(east, west, incarnation=0)
        assert client.execute_command("WAIT", "2", PATIENCE_MS) == 2


def test_readers_that_wait_are_woken_by_another_region(regions: Regions) -> None:
    east, west = regions.make(1, 2)
    linked(east, west)
    east.ask("XGROUP", "CREATE", "jobs", "g", "$", "MKSTREAM")
    until(lambda: west.ask("EXISTS", "jobs"), "the group at the other side")
    reader, worker = west.connect(), west.connect()
    reader.connection.send_command("XREAD", "BLOCK", "0", "STREAMS", "x", "$")
    worker.connection.send_command("XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "jobs", ">")
    until(lambda: b"blocked_clients:2" in west.ask("INFO", "clients"), "both wait")
    added, job = east.ask("XADD", "x", "*", "f", "v"), east.ask("XADD", "jobs", "*", "f", "v")
    assert reader.connection.read_response() == [[b"x", [[added, [b"f", b"v"]]]]]
    assert worker.connection.read_response() == [[b"jobs", [[job, [b"f", b"v"]]]]]


def sent_bytes(region: RegionProcess, peer: RegionProcess) -> int:
    """Of batches, on the link that is open now, as of the last tick."""
    rows = region.ask("INFO", "replication").decode().splitlines()
    mine = [row for row in rows if row.startswith("peer") and f"region={peer.number}," in row]
    return sum(int(row.rpartition("sent_bytes=")[2].partition(",")[0]) for row in mine)


OTHER_LIMITS = """
[limits]
message_bytes = 2048
message_bytes_max = 65536
window_bytes = 16384
segment_bytes_max = 65536
heartbeat_ms = 300
peer_timeout_ms = 60000
durable_interval_ms = 500
backoff_ms_max = 200
"""


def test_another_config_sends_nothing_anew(regions: Regions, tmp_path: Path) -> None:
    """Regions go on from their vectors, whatever of their settings and peers is another one."""
    settings = tmp_path / "other.toml"
    settings.write_text(OTHER_LIMITS)
    east, west, nobody = regions.make(1, 2, 3)
    dialled_by_one(west, east)
    for region in (east, west):
        region.ask("XGROUP", "CREATE", "x", region.name, "0", "MKSTREAM")
        with region.connect() as client:
            pipeline = client.pipeline(transaction=False)
            for _ in range(500):
                pipeline.execute_command("XADD", "x", "*", "f", KILOBYTE)
            pipeline.execute()
    regions.await_agreement(east, west)
    all_bytes = 500 * len(KILOBYTE)
    until(lambda: sent_bytes(east, west) > all_bytes, "INFO shows what was sent")
    changes: list[tuple[RegionProcess, RegionProcess, list[RegionProcess], dict[str, object]]] = [
        (east, west, [], {"fsync": "always", "config": settings}),
        (west, east, [east, nobody], {"fsync": "no", "log-level": "debug"}),
    ]
    for region, other, peers, change in changes:
        assert region.terminate() == 0
        for _ in range(5):
            other.ask("XADD", "x", "*", "f", "while the other one was down")
        region.start(*peers, **change)
        region.await_serving()
        region.ask("XADD", "x", "*", "f", "at once")
        regions.await_agreement(east, west)
        for sender, receiver in ((region, other), (other, region)):
            until(lambda a=sender, b=receiver: sent_bytes(a, b) > 0, "INFO shows what was sent")  # type: ignore[misc]
            assert sent_bytes(sender, receiver) < all_bytes // 50
    assert len(ids(east)) == 1_000 + 12
    assert "state transfer" not in east.log() + west.log()
    assert (east.origin(), west.origin()) == ("1.0", "2.0")


def test_settings_that_change_while_it_runs_keep_the_link(regions: Regions) -> None:
    east, west = regions.make(1, 2)
    dialled_by_one(west, east)
    east.ask("XADD", "x", "*", "f", KILOBYTE)
    regions.await_agreement()
    until(lambda: sent_bytes(east, west) > len(KILOBYTE), "INFO shows what was sent")
    before = sent_bytes(east, west)
    changed = {"heartbeat-ms": 200, "peer-timeout-ms": 60_000, "audit-interval-ms": 0, "expiry-takeover-ms": 50}
    for name, value in changed.items():
        assert east.ask("CONFIG", "SET", name, value) == b"OK"
    east.ask("XADD", "x", "*", "f", "v")
    regions.await_agreement()
    until(lambda: sent_bytes(east, west) > before, "the link is the same, and carried what is new")
    assert sent_bytes(east, west) < before + 1_000


def test_regions_that_agree_compare_their_sums(regions: Regions) -> None:
    east, west = regions.make(1, 2)
    linked(east, west)
    for region in (east, west):
        region.ask("XADD", region.name, "*", "f", "v")
    for region in (east, west):
        until(lambda at=region: audits(at)["audit_comparisons"] > 0, "sums are compared")  # type: ignore[misc]
        assert audits(region)["audit_differences"] == 0
        assert audits(region)["audit_last_time"] > 0


def audits(region: RegionProcess) -> dict[str, int]:
    rows = [row.partition(":") for row in region.ask("INFO", "replication").decode().splitlines()]
    return {name: int(value) for name, _, value in rows if name.startswith("audit_")}
