"""The arithmetic of `crdtstream size`: how it moves with the workload, what it refuses, and that a region agrees."""

from __future__ import annotations

import random
import string
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.cli.sizing import (
    CHECKPOINT_OVERHEAD_BYTES,
    EMPTY_REGION_BYTES,
    PACKED_OVERHEAD_BYTES,
    SizingError,
    Workload,
    packed_bytes,
    size_of,
    stored_bytes,
)
from crdtstream.processes.region import RegionProcess, regions_in
from crdtstream.processes.waiting import until

LOAD = Workload(entries_per_second=1_000, entry_bytes=100)
ENTRIES = 60_000
WARM_UP = 5_000
VALUE = 100
PIPELINE = 500
# Resident memory moves by what the allocator keeps; what lies on disk does not.
MEMORY_TOLERANCE = 0.2
DISK_TOLERANCE = 0.15


def test_what_is_retained_is_rate_by_time() -> None:
    assert size_of(LOAD).entries_retained == 86_400_000
    assert size_of(replace(LOAD, retention_seconds=0)).memory_hot_bytes < EMPTY_REGION_BYTES + 100_000


def test_one_region_needs_neither_network_nor_log_for_others() -> None:
    alone = size_of(replace(LOAD, regions=1))
    assert alone.network_sent_bytes_per_second_max == alone.network_received_bytes_per_second_max == 0
    assert alone.state_transfer_bytes == alone.outage_log_bytes == 0
    assert 2 * alone.checkpoint_bytes < alone.disk_bytes < size_of(LOAD).disk_bytes


def test_a_writer_sends_to_each_peer() -> None:
    two, four = size_of(replace(LOAD, regions=2)), size_of(replace(LOAD, regions=4))
    assert four.network_sent_bytes_per_second_max == 3 * two.network_sent_bytes_per_second_max
    assert four.network_received_bytes_per_second_max == two.network_received_bytes_per_second_max


def test_short_streams_stay_unpacked() -> None:
    many = size_of(replace(LOAD, streams=1_000_000))
    assert many.checkpoint_bytes == round(many.entries_retained * stored_bytes(LOAD))


LOADS = st.builds(
    Workload,
    entries_per_second=st.floats(0, 1e6),
    entry_bytes=st.integers(1, 100_000),
    regions=st.integers(1, 255),
    retention_seconds=st.floats(0, 1e7),
    fields=st.integers(1, 100),
    streams=st.integers(1, 100_000),
    groups=st.integers(0, 100),
    packed_part=st.floats(0.01, 1),
    pipeline=st.sampled_from([1, 16, 128]),
    read_count=st.sampled_from([1, 100]),
)


@given(LOADS)
def test_what_is_suggested_covers_its_parts(load: Workload) -> None:
    needed = size_of(load)
    assert needed.memory_at_rest_bytes <= needed.memory_hot_bytes
    assert needed.memory_hot_bytes < needed.memory_bytes_max < needed.machine_memory_bytes
    assert needed.disk_bytes > 2 * needed.checkpoint_bytes + needed.state_transfer_bytes + needed.outage_log_bytes


@given(LOADS)
def test_more_entries_never_need_less(load: Workload) -> None:
    less, more = size_of(load), size_of(replace(load, entries_per_second=2 * load.entries_per_second))
    assert more.memory_at_rest_bytes >= less.memory_at_rest_bytes
    assert more.disk_bytes >= less.disk_bytes
    assert more.cpu_cores_max >= less.cpu_cores_max


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"entry_bytes": 0}, "--entry-bytes is 0: give a value from 1 to 134,217,728"),
        ({"regions": 256}, "--regions is 256: give a value from 1 to 255"),
        ({"entries_per_second": -1}, "--entries-per-second is -1: give a value from 0"),
        ({"entries_per_second": float("nan")}, "--entries-per-second is nan: give a value from 0"),
        ({"packed_part": 2}, "--packed-part is 2: give a value from 0.01 to 1"),
        ({"pipeline": 17}, "--pipeline is 17: choose the nearest of the values measured, 1, 16, 128"),
        ({"read_count": 2}, "--read-count is 2: choose the nearest of the values measured, 1, 100"),
    ],
)
def test_a_value_that_no_region_can_have_is_named(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(SizingError) as raised:
        size_of(replace(LOAD, **changed))
    assert message in str(raised.value)


def test_a_filled_region_agrees(tmp_path: Path) -> None:
    """Entries of random letters and digits: the data for which `packed_part` has its default."""
    load = Workload(entries_per_second=1, entry_bytes=VALUE + len("value"), regions=1)
    with regions_in(tmp_path) as regions:
        (region,) = regions.make(1)
        region.start(incarnation=0, cold_after_ms=3_600_000, checkpoint_log_bytes=1 << 30)
        region.await_serving()
        fill(region, "warm-up", WARM_UP)
        resident, logged = resident_bytes(region), logged_bytes(region)
        fill(region, "stream", ENTRIES)
        hot = (resident_bytes(region) - resident) / ENTRIES
        log = (logged_bytes(region) - logged) / ENTRIES
        region.ask("CONFIG", "SET", "cold-after-ms", 100)
        await_packed(region)
        until(lambda: resident_bytes(region) - resident < hot * ENTRIES * 0.7, "memory is handed back", 10)
        packed = (resident_bytes(region) - resident) / ENTRIES
        region.ask("SAVE")
        checkpoint = checkpoint_bytes(region) / (ENTRIES + WARM_UP)
    assert hot == pytest.approx(stored_bytes(load), rel=MEMORY_TOLERANCE)
    assert log == pytest.approx(stored_bytes(load), rel=DISK_TOLERANCE)
    assert packed == pytest.approx(packed_bytes(load, PACKED_OVERHEAD_BYTES), rel=MEMORY_TOLERANCE)
    assert checkpoint == pytest.approx(packed_bytes(load, CHECKPOINT_OVERHEAD_BYTES), rel=DISK_TOLERANCE)


def fill(region: RegionProcess, key: str, count: int) -> None:
    generator = random.Random(7)
    letters = string.ascii_lowercase + string.digits
    with region.client() as client:
        for _ in range(0, count, PIPELINE):
            pipeline = client.pipeline(transaction=False)
            for _ in range(PIPELINE):
                pipeline.execute_command("XADD", key, "*", "value", "".join(generator.choices(letters, k=VALUE)))
            pipeline.execute()


def memory_of(region: RegionProcess) -> dict[str, str]:
    text: bytes = region.ask("INFO", "memory")
    return dict(line.split(":", 1) for line in text.decode().splitlines() if ":" in line)


def await_packed(region: RegionProcess) -> None:
    begun = int(memory_of(region)["blocks_walks"]) + 1

    def is_packed() -> bool:
        found = memory_of(region)
        return found["blocks_cold"] == found["blocks_full"] and int(found["blocks_walks"]) > begun

    until(is_packed, "all full blocks are packed", 30)


def resident_bytes(region: RegionProcess) -> int:
    status = Path(f"/proc/{region.pid}/status").read_text(encoding="utf-8")
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


def checkpoint_bytes(region: RegionProcess) -> int:
    others = ("log-", "reserve", "release", ".lock")
    return sum(path.stat().st_size for path in region.data.iterdir() if not path.name.startswith(others))


def logged_bytes(region: RegionProcess) -> int:
    """Without the zeros of the room that a segment has ahead."""
    return sum(len(path.read_bytes().rstrip(b"\0")) for path in region.data.glob("log-*"))
