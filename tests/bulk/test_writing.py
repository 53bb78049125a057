"""Rows added in slices, against the same rows by XADD."""

from __future__ import annotations

from array import array
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.bulk.errors import FAILED_PRECONDITION, INVALID_ARGUMENT, RESOURCE_EXHAUSTED, UNAVAILABLE, BulkError
from crdtstream.bulk.writing import Added, add_slice, encoded, minted_ids
from crdtstream.commands.streams import xadd
from crdtstream.core.entries.encoding import encode_entry
from crdtstream.core.values.entry_id import ID_MODES, LIBERAL, SEMI_STRICT, STRICT, U64_MAX
from crdtstream.settings.config import Limits
from crdtstream.status.availability import PAUSED_WRITES
from tests.bulk.columns import Fields, message_of, parsed, row_data
from tests.commands.stream_region import Region

NAMES = [b"a", b"b"]

field_lists = st.lists(st.binary(max_size=8), min_size=2, max_size=4).map(lambda some: some[: len(some) // 2 * 2])
placed_rows = st.lists(st.tuples(st.integers(0, 1), field_lists), min_size=1, max_size=30)
u64s = st.integers(0, 40) | st.sampled_from([9, 10, 99, 100, U64_MAX - 1, U64_MAX])


def add(region: Region, rows: list[Fields], step: int = 7, **settings: object) -> Added:
    """In slices of a few rows."""
    parsed_rows = parsed(message_of(rows, **settings))  # type: ignore[arg-type]
    while parsed_rows.count and parsed_rows.check(region.context.limits):
        pass
    added = Added()
    for low in range(0, parsed_rows.count, step):
        add_slice(region.context, parsed_rows, low, min(low + step, parsed_rows.count), added)
    return added


def state_of(region: Region) -> list[object]:
    """What both ways must agree in, counters apart."""
    region.replica.check()
    found: list[object] = []
    for name in NAMES:
        stream = region.replica.keyspace.find((0, name))
        replies = [region.call("XRANGE", name, "-", "+"), region.call("XLEN", name), region.call("PTTL", name)]
        tail = None if stream is None else (stream.top, stream.entries_added(), stream.max_deleted())
        found.append((replies, tail))
    return found


def prepare(region: Region, history: list[tuple[str, ...]]) -> None:
    for argv in history:
        region.call(*argv)


histories = st.lists(
    st.sampled_from(
        [
            ("XADD", "a", "*", "f", "before"),
            ("XADD", "a", "5", "f", "before"),
            ("XADD", "b", "9000-*", "f", "a clock that was ahead"),
            ("DEL", "a"),
            ("XTRIM", "a", "MAXLEN", "1"),
            ("PEXPIRE", "a", "0"),
            ("XGROUP", "CREATE", "b", "g", "$", "MKSTREAM"),
        ]
    ),
    max_size=6,
)


@given(histories, placed_rows, st.sampled_from(ID_MODES), st.integers(1, 40), st.integers(0, 2))
def test_rows_are_what_the_same_xadds_make(
    history: list[tuple[str, ...]], rows: list[tuple[int, Fields]], id_mode: str, step: int, later_ms: int
) -> None:
    bulk, model = Region(id_mode=id_mode), Region(id_mode=id_mode)
    for region in (bulk, model):
        prepare(region, history)
        region.replica.keyspace.now_ms += later_ms
        region.replica.keyspace.now_ms = region.context.now_ms
    places = [place for place, _ in rows]
    added = add(bulk, [fields for _, fields in rows], step, streams=NAMES, stream_of=places)
    for place, fields in rows:
        xadd(model.context, model.client, [b"XADD", NAMES[place], b"*", *fields])
    assert state_of(bulk) == state_of(model)
    assert (added.added, added.skipped, added.last_seq) == (len(rows), 0, bulk.replica.applied.counter())


@given(
    st.lists(st.tuples(u64s, u64s, field_lists), min_size=1, max_size=20),
    st.sampled_from([LIBERAL, SEMI_STRICT]),
    st.booleans(),
)
def test_ids_that_are_given_are_those_of_xadd(
    rows: list[tuple[int, int, Fields]], id_mode: str, ascending: bool
) -> None:
    rows = sorted(rows, key=lambda row: row[:2]) if ascending else rows
    bulk, model = Region(id_mode=id_mode), Region(id_mode=id_mode)
    ids = [(ms, seq) for ms, seq, _ in rows]
    added = add(bulk, [fields for _, _, fields in rows], 3, streams=NAMES[:1], ids=ids, skip_lower_ids=True)
    taken = 0
    for ms, seq, fields in rows:
        taken += model.call("XADD", "a", f"{ms}-{seq}", *fields)[:1] != b"-"  # type: ignore[index]
    assert state_of(bulk) == state_of(model)
    assert (added.added, added.skipped) == (taken, len(rows) - taken)


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        ([(5, 1), (5, 1)], "row 1: The ID specified in XADD is equal or smaller"),
        ([(5, 1), (4, 9)], "row 1: The ID specified in XADD is equal or smaller"),
        ([(0, 0), (4, 9)], "row 0: The ID specified in XADD must be greater than 0-0"),
        ([(U64_MAX, U64_MAX), (4, 9)], "row 1: The stream has exhausted the last possible ID"),
    ],
)
def test_a_slice_with_a_low_id_changes_nothing(ids: list[tuple[int, int]], text: str) -> None:
    region = Region()
    with pytest.raises(BulkError, match=text) as refusal:
        add(region, [[b"f", b"v"]] * 2, streams=NAMES[:1], ids=ids)
    assert refusal.value.code == INVALID_ARGUMENT
    assert region.replica.prepared == 0


def test_strict_mode_refuses_ids_as_xadd_does() -> None:
    region = Region(id_mode=STRICT)
    with pytest.raises(BulkError, match="The ID specified in XADD is a full ID, which the ID mode 'strict' refuses"):
        add(region, [[b"f", b"v"]], ids=[(5, 1)], skip_lower_ids=True)
    assert region.replica.prepared == 0


@pytest.mark.parametrize(
    ("field", "value", "code", "text"),
    [
        ("memory_short", True, RESOURCE_EXHAUSTED, "command not allowed when used memory"),
        ("writable", False, UNAVAILABLE, "The disk is full"),
        ("paused", PAUSED_WRITES, UNAVAILABLE, r"clients are paused \(CLIENT PAUSE\)"),
        ("departing", "region east is stopping", UNAVAILABLE, "region east is stopping"),
        ("loading", "waits for region 2", UNAVAILABLE, "does not serve yet: waits for region 2"),
    ],
)
def test_what_keeps_xadd_out_keeps_rows_out(field: str, value: object, code: str, text: str) -> None:
    region = Region()
    setattr(region.context.standing, field, value)
    with pytest.raises(BulkError, match=text) as refusal:
        add(region, [[b"f", b"v"]])
    assert (refusal.value.code, region.replica.prepared) == (code, 0)


def test_ids_run_out_before_anything_is_added() -> None:
    region = Region()
    region.call("XADD", "s", f"{U64_MAX}-{U64_MAX - 1}", "f", "v")
    before = region.replica.prepared
    with pytest.raises(BulkError, match="exhausted the last possible ID") as refusal:
        add(region, [[b"f", b"v"]] * 2)
    assert (refusal.value.code, region.replica.prepared) == (FAILED_PRECONDITION, before)


@pytest.mark.parametrize("id_mode", [LIBERAL, STRICT])
def test_minted_ids_go_on_in_the_next_millisecond(id_mode: str) -> None:
    region = Region(id_mode=id_mode)
    stride = 1 if id_mode == LIBERAL else 65536
    ms, seqs = minted_ids(region.context, (5_000, U64_MAX - 2 * stride), 4)
    assert list(ms) == [5_000, 5_000, 5_001, 5_001]
    residue = 0 if id_mode == LIBERAL else region.replica.residue
    assert list(seqs[2:]) == [residue, residue + stride]


@given(st.lists(st.tuples(u64s, u64s), min_size=1, max_size=30, unique=True).map(sorted))
def test_entries_are_encoded_as_xadd_does(ids: list[tuple[int, int]]) -> None:
    columns = [array("Q", part) for part in zip(*ids, strict=True)]
    entries = encoded(columns[0], columns[1], [row_data([b"f", b"v"])] * len(ids))
    assert entries == [encode_entry(entry_id, [b"f", b"v"]) for entry_id in ids]


def test_blocks_stay_as_small_as_those_of_xadd() -> None:
    region = Region(limits=replace(Limits(), entry_bytes_max=1 << 20))
    add(region, [[b"f", b"v" * size] for size in [1] * 600 + [30_000] * 4 + [100_000, 1]], 1_000)
    blocks, _, _ = region.stream().trees[1].blocks()
    assert [block.count for block in blocks] == [256, 256, 89, 1, 1, 1, 1, 1]
    region.check()


def test_waiting_readers_and_watches_learn_of_rows() -> None:
    region = Region()
    reader, watcher = region.new_client(), region.new_client()
    assert region.call("XREAD", "BLOCK", "0", "STREAMS", "s", "$", client=reader) is None
    region.call("WATCH", "s", client=watcher)
    region.call("MULTI", client=watcher)
    add(region, [[b"f", b"v"]])
    touched = region.context.drain_changes()
    assert region.context.parking.waiting_for(touched)
    assert region.call("EXEC", client=watcher) == b"*-1\r\n"


def test_rows_reach_other_regions() -> None:
    east, west = Region(1), Region(2)
    add(east, [[b"f", b"%d" % at] for at in range(700)], 300)
    east.call("XADD", "s", "*", "f", "between")
    add(east, [[b"f", b"%d" % at] for at in range(3)])
    west.hear(east)
    assert west.call("XRANGE", "s", "-", "+") == east.call("XRANGE", "s", "-", "+")


def test_a_slice_that_no_region_could_take_is_refused_before_it_is_added() -> None:
    region = Region()
    region.replica.budget.fit(64 << 10, 2, 0)
    large = [[b"f", b"v" * 40_000]]
    rows = parsed(message_of([*large, *large]))
    while rows.check(region.context.limits):
        pass
    with pytest.raises(BulkError, match="batch_bytes_max = 65536 of region 2"):
        add_slice(region.context, rows, 0, 2, Added())
    assert region.call("EXISTS", "s") == region.call("XLEN", "nothing")
    add_slice(region.context, rows, 0, 1, Added())


def test_rows_are_sliced_and_bounded_by_the_room_of_a_batch() -> None:
    region = Region()
    region.replica.budget.fit(64 << 10, 2, 0)
    rows = parsed(message_of([[b"f", b"v" * 3_000]] * 20))
    rows.bound(region.replica.budget)
    while rows.check(region.context.limits):
        pass
    assert rows.slice_end(0) < 4
    rows = parsed(message_of([[b"f", b"v" * 40_000]]))
    rows.bound(region.replica.budget)
    with pytest.raises(BulkError, match="more than half of batch_bytes_max = 65536 of region 2"):
        rows.check(region.context.limits)
