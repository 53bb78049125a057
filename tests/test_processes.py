"""Real `crdtstream serve` processes on loopback: killed, stopped, started afresh, refused, out of disk, waited on."""

from __future__ import annotations

import itertools
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from crdtstream.processes.clients import pairs
from crdtstream.processes.region import RegionProcess, Regions, regions_in
from crdtstream.processes.waiting import DEADLINE_S, until
from crdtstream.protocols import codec
from crdtstream.storage.disk import RealDisk
from crdtstream.storage.log import open_log
from nemesis.disks import DiskError, small_disk
from tests.region_processes import KILOBYTE, ids, linked, refused

EVENT = re.compile(r"event=(\S+)")


@pytest.fixture
def regions(tmp_path: Path) -> Iterator[Regions]:
    with regions_in(tmp_path) as made:
        yield made


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
    region.create_group("jobs", "g")
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
    origins = [east.origin()]
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
        assert east.origin() not in origins, "each start is a new origin"
        origins.append(east.origin())
        assert local_state(east) == before
    regions.await_agreement()
    assert ids(east) == ids(west)


def log_kinds(region: RegionProcess) -> list[int]:
    """The kinds of all records of a stopped region."""
    kinds: list[int] = []
    disk = RealDisk(str(region.data))
    try:
        open_log(disk, lambda _position, kind, _payload: kinds.append(kind), salt=1)
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
    assert kinds.count(codec.START) == 1
    east.start(fsync=fsync)
    east.await_serving()
    assert east.origin() != origin and ids(east) == [entry_id]
    assert east.terminate() == 0


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
        # A checkpoint may free the log in between, and a few writes are taken again.
        names = itertools.count()
        until(lambda: all("disk" in text for text in refusals(east, f"g{next(names)}")), "all writes are refused")
        assert ids(east) == held, "reads go on"
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
    # What a peer lacks is on the disk only: the end of the log that is kept in memory would serve it.
    settings.write_text("[limits]\nsegment_bytes_max = 65536\nlog_tail_bytes_max = 0\n")
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
        told = f"event=log-damaged region={east.name} file={rotten.name}"
        until(lambda text=told: text in east.log(), east.log)  # type: ignore[misc]
    assert len(ids(west)) == 300


def refusals(region: RegionProcess, group: str) -> list[str]:
    """What an XADD and an XGROUP CREATE reply, one after the other: MISCONF, or nothing when they are taken."""
    texts = [refused(region), refused(region, "XGROUP", "CREATE", "x", group, "0")]
    assert all(text.startswith("MISCONF") for text in texts if text)
    return texts


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


def test_a_normal_start_warns_of_nothing_and_says_when_it_serves(regions: Regions) -> None:
    """One after the other, as an operator starts them; a restart too."""
    three = regions.make(1, 2, 3)
    for region in three:
        region.start(*[peer for peer in three if peer is not region])
        until(lambda at=region: "event=listening" in at.log(), region.log)  # type: ignore[misc]
        if region is not three[-1]:
            assert "event=serving" not in region.log()
    for region in three:
        region.await_serving()
        told = [event for event in EVENT.findall(region.log()) if event in ("founded", "ready", "serving")]
        assert told == ["founded", "ready", "serving"]
    assert three[0].terminate() == 0
    three[0].start(*three[1:])
    three[0].await_serving()
    for region in three:
        assert "event=checkpoint-taken" not in region.log(), "the disk is roomy"
        assert "level=warning" not in region.log() and "level=error" not in region.log(), region.log()
