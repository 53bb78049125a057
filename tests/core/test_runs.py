"""A run against its entries added one by one."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from crdtstream.core.encoding import encode_entry, id_reply
from crdtstream.core.entry_id import LANE_STRIDE, EntryId
from crdtstream.core.replica import Replica
from crdtstream.core.runs import Run, encode_run
from crdtstream.protocols.codec import encode_batch

KEY = (0, b"s")
SLOT = 1 << 16 | 1

fields = st.lists(st.binary(max_size=5) | st.just(b"v" * 700), min_size=2, max_size=4).filter(
    lambda row: not len(row) % 2
)
row_lists = st.lists(fields, min_size=1, max_size=12)
firsts = st.tuples(st.integers(0, 2**42), st.sampled_from([0, 1, 8, 98, 65537, 2**62 - 1, 2**63]))


def ids_of(run: Run) -> list[EntryId]:
    return [run.id_at(index) for index in range(run.count)]


@given(firsts, st.sampled_from([1, LANE_STRIDE]), row_lists)
def test_a_run_is_its_entries(first: EntryId, step: int, rows: list[list[bytes]]) -> None:
    run = encode_run(first, step, [[b"XADD", *row] for row in rows], 1)
    ids = ids_of(run)
    assert ids == [(first[0], first[1] + index * step) for index in range(run.count)]
    assert run.data == b"".join(encode_entry(*pair) for pair in zip(ids, rows, strict=False))
    assert run.replies == b"".join(id_reply(b"%d-%d" % entry_id) + b"\r\n" for entry_id in ids)
    assert run.count == len(rows) or len(str(ids[-1][1] + step)) > len(str(ids[-1][1]))
    assert run.last_id() == ids[-1]


@given(firsts, row_lists, st.data())
def test_slices_are_those_of_the_entries(first: EntryId, rows: list[list[bytes]], data: st.DataObject) -> None:
    run = encode_run(first, 1, rows, 0)
    low = data.draw(st.integers(0, run.count - 1))
    high = data.draw(st.integers(low + 1, run.count))
    ms, seq = run.id_columns(low, high)
    assert list(zip(ms, seq, strict=True)) == ids_of(run)[low:high]
    entries = [encode_entry(*pair) for pair in zip(ids_of(run), rows, strict=False)]
    assert run.bytes_of(low, high) == b"".join(entries[low:high])
    bytes_max = data.draw(st.integers(1, 2_000))
    end = run.fitting(low, high - low, bytes_max)
    assert low < end <= high and sum(map(len, entries[low : end - 1])) < bytes_max
    assert end == high or sum(map(len, entries[low:end])) >= bytes_max


@settings(max_examples=40)
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 200), st.integers(0, 400)), min_size=1, max_size=6))
def test_a_replica_takes_a_run_as_its_entries(steps: list[tuple[bool, int, int]]) -> None:
    """The effects, their blocks and the stream are the same, whether adds came in runs or not."""
    by_runs, by_entries = Replica(SLOT), Replica(SLOT)
    top = (5, 100_000)
    for together, count, size in steps:
        rows = [[b"f", b"v" * size]] * count
        run = encode_run((top[0], top[1] + 1), 1, rows, 0)
        if together:
            by_runs.add_run(KEY, run)
        for entry_id, row in zip(ids_of(run), rows, strict=False):
            by_entries.add_entry(KEY, entry_id, row)
            if not together:
                by_runs.add_entry(KEY, entry_id, row)
        top = run.last_id()
    by_runs.check()
    batches = [replica.take().batch for replica in (by_runs, by_entries)]
    assert batches[0] is not None and batches[1] is not None
    assert encode_batch(batches[0]) == encode_batch(batches[1])
    assert len(batches[0].effects) == len(batches[1].effects)
    streams = [replica.keyspace.databases[0][b"s"] for replica in (by_runs, by_entries)]
    assert streams[0].range((0, 0), top, -1, False)[0] == streams[0].length == streams[1].length
    assert streams[0].top == streams[1].top == top
    assert streams[0].entries_added() == streams[1].entries_added()
