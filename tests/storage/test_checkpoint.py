"""Checkpoints on the simulated disk: slices between any two steps, a crash at any operation, everything small."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crdtstream.core.entries import block_list, entry_tree
from crdtstream.core.groups import spans
from crdtstream.core.values.entry_id import STRICT
from crdtstream.replication.log import history as history_module
from crdtstream.scenarios.reply import read_reply
from crdtstream.settings.config import Limits
from crdtstream.storage import checkpoint
from crdtstream.storage.checkpoint import MANIFEST, checkpoint_names
from crdtstream.storage.disk import DiskFailed, DiskFull
from crdtstream.storage.recovery import CheckpointDamaged, LogDamaged
from crdtstream.storage.segment import FormatUnknown, segment_names
from simulations.cluster import Cluster
from simulations.disk import SimulatedDisk
from simulations.machine import Machine
from simulations.portrait import lasting
from tests.effort import examples
from tests.test_convergence import REGIONS, WAIT_MS, act, assert_agreement, settle, steps

LIMITS = Limits(segment_bytes_max=2_000)

Step = tuple[str, int, object]
regions = st.integers(1, REGIONS)
slices = st.tuples(st.just("checkpoint"), st.sampled_from([1, 1, 2, 3]), st.sampled_from([1, 1, 2, 3, 30]))
fsyncs = st.tuples(st.just("fsync"), regions, regions)
mixed = st.tuples(st.one_of(steps, fsyncs), slices)
histories = st.lists(mixed, max_size=25).map(lambda pairs: [step for pair in pairs for step in pair])

# So that the first slice of a history finds something, and stops in the middle of it.
BEGINNING: list[Step] = [("run", 1, f"XADD {key} * f v{n}".encode().split()) for n in range(6) for key in "xy"]
BEGINNING += [("run", 1, f"XGROUP CREATE {key} {group} 0".encode().split()) for key in "xy" for group in "gh"]
BEGINNING += [("run", 1, f"XREADGROUP GROUP {group} a STREAMS x >".encode().split()) for group in "gh"]
BEGINNING += [("sync", 1, 1)]


@pytest.fixture(autouse=True, scope="module")
def _small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(history_module, "MILESTONE_RECORDS", 3)
        patch.setattr(checkpoint, "SECTION_BYTES_MAX", 300)
        patch.setattr(checkpoint, "FILE_BYTES_MAX", 900)
        patch.setattr(checkpoint, "_PLACES_MAX", 2)
        for module in (entry_tree, block_list):
            patch.setattr(module, "BLOCK_ENTRIES", 4)
        patch.setattr(entry_tree, "ADOPT_ENTRIES", 3)
        patch.setattr(block_list, "SPARSE_ENTRIES", 1)
        patch.setattr(spans, "SPAN_ENTRIES", 3)
        patch.setattr(spans, "SPARSE_ENTRIES", 1)
        yield


def act_or_capture(cluster: Cluster, step: Step) -> bool:
    """Whether a checkpoint ended, or could not begin."""
    kind, number, rest = step
    region = cluster.machines[number]
    if kind == "checkpoint":
        assert isinstance(rest, int)
        return region.checkpoint_step(rest)
    if kind == "fsync":
        region.sync()
    else:
        act(cluster, step)
    return False


def act_both(cluster: Cluster, twin: Cluster, step: Step) -> None:
    """A checkpoint begins a segment, where reads of the log end, and syncs, which may admit: so does the twin."""
    begins = cluster.machines[step[1]].checkpointer.capture is None
    ended = act_or_capture(cluster, step)
    if step[0] != "checkpoint":
        act_or_capture(twin, step)
    elif begins:
        twin.machines[step[1]].log.roll()
    if ended:
        sync_both(cluster, twin, step[1])


def sync_both(cluster: Cluster, twin: Cluster, number: int) -> None:
    cluster.machines[number].sync()
    twin.machines[number].sync()


def cut_links(cluster: Cluster) -> None:
    for a, b in cluster.pairs:
        cluster.cut(a, b)


def complete(cluster: Cluster) -> list[int]:
    """Whatever is under way; where something was."""
    under_way = [number for number, one in cluster.machines.items() if one.checkpointer.capture is not None]
    for number in under_way:
        cluster.machines[number].checkpoint()
    return under_way


def portraits(cluster: Cluster) -> list[dict[str, Any]]:
    return [lasting(cluster.node(number)) for number in cluster.machines]


LONG = settings(max_examples=examples(120), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@LONG
@given(history=histories, fsync=st.sampled_from(["always", "everysec", "no"]))
def test_a_start_from_a_checkpoint_is_a_start_from_the_log(history: list[Step], fsync: str) -> None:
    """The twin does the same and never takes a checkpoint."""
    cluster, twin = Cluster(REGIONS, STRICT, fsync, limits=LIMITS), Cluster(REGIONS, STRICT, fsync, limits=LIMITS)
    for step in BEGINNING + history:
        act_both(cluster, twin, step)
    cut_links(cluster)
    cut_links(twin)
    for number in complete(cluster):
        sync_both(cluster, twin, number)
    before = portraits(cluster)
    assert before == portraits(twin)
    for number in cluster.machines:
        cluster.restart(number)
        twin.restart(number)
    cluster.check()
    assert portraits(cluster) == portraits(twin)
    for one, other in zip(before, portraits(cluster), strict=True):
        assert same(one, other)
    settle(cluster)
    assert_agreement(cluster)


@LONG
@given(
    history=histories,
    crashes=st.lists(st.tuples(regions, st.integers(0, 2**32)), min_size=1, max_size=4),
    fsync=st.sampled_from(["always", "everysec"]),
)
def test_power_losses_between_slices_never_divide_the_regions(
    history: list[Step], crashes: list[tuple[int, int]], fsync: str
) -> None:
    cluster = Cluster(REGIONS, STRICT, fsync, limits=replace(LIMITS, heartbeat_ms=WAIT_MS))
    history = BEGINNING + history
    size = max(1, len(history) // len(crashes))
    for index, (number, seed) in enumerate(crashes):
        for step in history[index * size : (index + 1) * size]:
            act_or_capture(cluster, step)
        cut_links(cluster)
        if seed % 2:
            complete(cluster)
        before = lasting(cluster.node(number))
        cluster.lose_power(number, Random(seed))
        cluster.check()
        if fsync == "always":
            assert same(lasting(cluster.node(number)), before)
    settle(cluster)
    assert_agreement(cluster)


def test_a_fact_is_not_replayed_on_a_later_group_of_the_same_name() -> None:
    """Read, destroyed and created again after the checkpoint began and before the key was captured."""
    cluster = Cluster(1, STRICT, limits=LIMITS)
    region = cluster.machines[1]
    run(cluster, "XADD first * f v")
    run(cluster, "XADD x * f v")
    run(cluster, "XGROUP CREATE x g 0")
    assert not region.checkpoint_step(1)
    run(cluster, "XREADGROUP GROUP g alice STREAMS x >")
    run(cluster, "XGROUP DESTROY x g")
    run(cluster, "XGROUP CREATE x g 0")
    region.checkpoint()
    before = lasting(region.node)
    cluster.restart(1)
    assert same(lasting(region.node), before)
    assert run(cluster, "XPENDING x g") == [0, None, None, None]


def test_a_key_that_is_gone_by_its_capture_is_gone() -> None:
    """Forgetting a key needs no record in the log."""
    cluster = Cluster(1, STRICT, limits=LIMITS)
    region = cluster.machines[1]
    run(cluster, "XADD first * f v")
    run(cluster, "XADD x * f v")
    assert not region.checkpoint_step(1)
    run(cluster, "XADD x * f w")
    del region.node.replica.keyspace.databases[0][b"x"]
    region.checkpoint()
    cluster.restart(1)
    assert list(region.node.replica.keyspace.databases[0]) == [b"first"]


# Crashes inside a checkpoint


class Crash(Exception):
    """The machine stops here."""


class CrashingDisk(SimulatedDisk):
    """Stops before the operation that has this number, or half way through it."""

    def __init__(self) -> None:
        super().__init__()
        self.left: int | None = None
        self.error: type[Exception] = Crash

    def count(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                self.left = None
                raise self.error()

    def create(self, name: str, size_bytes: int) -> None:
        self.count()
        super().create(name, size_bytes)

    def write(self, name: str, offset: int, data: bytes) -> None:
        try:
            self.count()
        except Exception:
            super().write(name, offset, data[: len(data) // 2])
            raise
        super().write(name, offset, data)

    def sync(self, name: str) -> None:
        self.count()
        super().sync(name)

    def sync_directory(self) -> None:
        self.count()
        super().sync_directory()

    def replace(self, name: str, data: bytes) -> None:
        self.count()
        super().replace(name, data)

    def delete(self, name: str) -> None:
        self.count()
        super().delete(name)


def busy_region(fsync: str = "always") -> tuple[Cluster, Machine, CrashingDisk]:
    """One region with a checkpoint, entries before and behind it, a group, and files that are in use in part only."""
    cluster = Cluster(1, STRICT, fsync, limits=LIMITS)
    region = cluster.machines[1]
    disk = region.disk = CrashingDisk()
    cluster.restart(1)
    fill(cluster, 40)
    region.checkpoint()
    run(cluster, "XTRIM x MAXLEN 12")
    run(cluster, "DEL y")
    fill(cluster, 30)
    return cluster, region, disk


def run(cluster: Cluster, text: str) -> object:
    cluster.now_ms += 1
    return read_reply(cluster.execute(1, text.encode().split()) or b"")


def fill(cluster: Cluster, count: int) -> None:
    run(cluster, "XGROUP CREATE x g 0 MKSTREAM")
    for number in range(count):
        run(cluster, f"XADD {'xyz'[number % 3]} * field value-{number}")
    run(cluster, "XREADGROUP GROUP g alice COUNT 9 STREAMS x >")
    run(cluster, "XREADGROUP GROUP g bob COUNT 5 STREAMS x >")


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """But for what a start itself brings: another origin, and a record of it."""
    return {**one, "position": 0, "origin": 0} == {**other, "position": 0, "origin": 0}


def test_a_crash_at_every_operation_of_a_checkpoint_loses_nothing() -> None:
    operation = 0
    crashed = True
    while crashed:
        for odds in (0.0, 0.5, 1.0):
            cluster, region, disk = busy_region()
            before = lasting(region.node)
            disk.left = operation
            try:
                region.checkpoint()
                crashed = False
            except Crash:
                crashed = True
            disk.left = None
            cluster.lose_power(1, Random(operation), odds)
            assert same(lasting(region.node), before), f"operation {operation}, odds {odds}"
            region.node.check()
            region.checkpoint()
            cluster.restart(1)
            assert same(lasting(region.node), before)
            assert only_named_files(region)
        operation += 1
    assert operation > 20


def only_named_files(region: Machine) -> bool:
    manifest = region.checkpointer.manifest
    assert manifest is not None
    return checkpoint.files_of(manifest) == set(checkpoint_names(region.disk))


@pytest.mark.parametrize("error", [DiskFailed, DiskFull])
def test_a_checkpoint_that_fails_leaves_the_older_one(error: type[Exception]) -> None:
    """At every operation before the manifest; the node goes on, and the next checkpoint succeeds."""
    operation = 0
    failed = True
    while failed:
        cluster, region, disk = busy_region("everysec")
        disk.left, disk.error = operation, error
        try:
            region.checkpoint()
            failed = False
        except (DiskFailed, DiskFull):
            region.checkpointer.abort()
        except LogDamaged:
            raise
        except Exception as failure:
            if "the log failed" not in str(failure):
                raise
            break
        disk.left = None
        fill(cluster, 3)
        before = lasting(region.node)
        cluster.restart(1)
        assert same(lasting(region.node), before)
        region.checkpoint()
        fill(cluster, 3)
        before = lasting(region.node)
        cluster.restart(1)
        assert same(lasting(region.node), before)
        assert only_named_files(region)
        operation += 1
    assert operation > 5


# Files


def test_unchanged_blocks_are_not_written_again() -> None:
    _cluster, region, disk = busy_region()
    for _ in range(2):  # the second one rewrites what lies in files that are little in use
        region.checkpoint()
    named = set(checkpoint_names(disk))
    region.checkpoint()
    again = set(checkpoint_names(disk))
    assert {name for name in named if name.startswith("blocks-")} <= again
    assert not {name for name in again - named if name.startswith("blocks-")}


@pytest.mark.interpreted
def test_files_of_dead_blocks_go() -> None:
    cluster, region, disk = busy_region()
    run(cluster, "XTRIM x MAXLEN 3")
    run(cluster, "DEL z")
    run(cluster, "DEL y")
    for _ in range(2):
        region.checkpoint()
    sizes = [disk.size(name) for name in checkpoint_names(disk) if name.startswith("blocks-")]
    assert sum(sizes) < 1_000
    before = lasting(region.node)
    cluster.restart(1)
    assert same(lasting(region.node), before)


def test_the_log_is_cut_behind_a_checkpoint_of_a_region_alone() -> None:
    cluster, region, _ = busy_region()
    region.checkpoint()
    first = region.log.first_position
    assert first > 1 and len(segment_names(region.disk)) <= 2
    fill(cluster, 100)
    region.checkpoint()
    assert region.log.first_position > first


@pytest.mark.parametrize("yields", [False, True])
def test_the_log_is_kept_for_a_start_whoever_needs_no_more_of_it(yields: bool) -> None:
    """A region that started from a checkpoint gives up the log, as on a full disk, before it takes another one."""
    cluster, region, _ = busy_region()
    cluster.restart(1)
    fill(cluster, 400)
    assert region.checkpointer.manifest is not None
    begun, before = region.checkpointer.manifest.begun, lasting(region.node)
    region.log.delete(region.checkpointer.release(yields))
    assert region.log.first_position <= begun + 1
    cluster.restart(1)
    assert same(lasting(region.node), before)


def test_the_log_is_kept_for_a_peer_that_was_never_heard_of() -> None:
    cluster, region, _ = busy_region()
    region.config = replace(region.config, peers=("far:1",))
    cluster.restart(1)
    first = region.log.first_position
    fill(cluster, 100)
    region.checkpoint()
    assert region.log.first_position == first


def test_nothing_that_a_region_lacks_is_cut() -> None:
    """Region 3 is behind a cut link while the others take checkpoints, restart and go on."""
    cluster = Cluster(3, STRICT, limits=LIMITS)
    cluster.sync()
    cluster.cut(1, 3)
    cluster.cut(2, 3)
    for _ in range(4):
        fill(cluster, 50)
        cluster.sync()
        for number in (1, 2):
            cluster.machines[number].sync()
        cluster.sync()
        for number in (1, 2):
            cluster.machines[number].checkpoint()
            cluster.restart(number)
    assert cluster.machines[1].log.first_position < 20
    settle(cluster)
    assert_agreement(cluster)
    for _ in range(3):
        for region in cluster.machines.values():
            region.sync()
        cluster.tick(2_000)
        cluster.sync()
    for region in cluster.machines.values():
        region.checkpoint()
        assert region.log.first_position > 100
    fill(cluster, 10)
    settle(cluster)
    assert_agreement(cluster)


# Damage


def damaged_start(cluster: Cluster, name: str, offset: int) -> CheckpointDamaged:
    region = cluster.machines[1]
    region.disk.flip_bit(name, offset)
    with pytest.raises(CheckpointDamaged) as caught:
        region.start(cluster.now_ms)
    region.disk.flip_bit(name, offset)
    return caught.value


def test_damage_stops_the_start_with_file_and_offset() -> None:
    cluster, region, disk = busy_region()
    region.checkpoint()
    before = lasting(region.node)
    for name in [MANIFEST, *checkpoint_names(disk)]:
        for offset in range(0, disk.size(name), 37):
            try:
                error = damaged_start(cluster, name, offset)
            except FormatUnknown:
                disk.flip_bit(name, offset)
                continue
            assert error.file == name and error.offset <= offset
            assert "Do not edit the file" in str(error)
    region.start(cluster.now_ms)
    assert same(lasting(region.node), before)


def test_a_missing_file_and_a_short_one_stop_the_start() -> None:
    _, region, disk = busy_region()
    name = checkpoint_names(disk)[0]
    disk.truncate(name, disk.size(name) - 1)
    with pytest.raises(CheckpointDamaged):
        region.start(1)
    disk.delete(name)
    with pytest.raises(DiskFailed):
        region.start(1)


def test_a_log_that_lost_what_a_checkpoint_includes_is_refused() -> None:
    """The manifest is a witness that these records were durable."""
    cluster, region, disk = busy_region("everysec")
    region.checkpoint()
    last = segment_names(disk)[-1]
    at = region.log._active.end - 20
    disk.flip_bit(last, at)
    with pytest.raises(LogDamaged, match="was durable"):
        region.start(cluster.now_ms)


@pytest.mark.interpreted
def test_without_the_sync_of_the_log_a_checkpoint_is_ahead_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof that the order of syncs matters: the manifest survives and the log does not."""
    cluster, region, _disk = busy_region("no")
    monkeypatch.setattr(type(region.log), "sync", lambda self: self.last_position)
    region.checkpoint()
    monkeypatch.undo()
    with pytest.raises(LogDamaged):
        cluster.lose_power(1, Random(1), 0.0)  # whatever is drawn, nothing unsynced survives
