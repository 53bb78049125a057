"""A burst against its entries added one by one."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from crdtstream.core.entries.bursts import Burst, encode_burst, encoded_fields, texts_of
from crdtstream.core.entries.encoding import array_header, encode_entry, id_reply
from crdtstream.core.replica import Replica
from crdtstream.core.values.entry_id import SEQ_MODULUS, EntryId
from crdtstream.protocols.codec import encode_batch

KEY = (0, b"s")
ORIGIN = 1 << 16 | 1

fields = st.lists(st.binary(max_size=5) | st.just(b"v" * 700), min_size=2, max_size=4).filter(
    lambda row: not len(row) % 2
)
row_lists = st.lists(fields, min_size=1, max_size=12)
firsts = st.tuples(st.integers(0, 2**42), st.sampled_from([0, 1, 8, 98, 65537, 2**62 - 1, 2**63]))


def ids_of(burst: Burst) -> list[EntryId]:
    return [burst.id_at(index) for index in range(burst.count)]


@given(firsts, st.sampled_from([1, SEQ_MODULUS]), row_lists)
def test_a_run_is_its_entries(first: EntryId, step: int, rows: list[list[bytes]]) -> None:
    burst = encode_burst(first, step, [encoded_fields([b"XADD", *row], 1) for row in rows])
    ids = ids_of(burst)
    assert ids == [(first[0], first[1] + index * step) for index in range(burst.count)]
    assert burst.data == b"".join(encode_entry(*pair) for pair in zip(ids, rows, strict=False))
    assert burst.replies == b"".join(id_reply(b"%d-%d" % entry_id) + b"\r\n" for entry_id in ids)
    assert burst.count == len(rows)
    assert burst.last_id() == ids[-1]


@given(firsts, st.lists(st.tuples(st.binary(max_size=5), st.binary(max_size=5)), min_size=1, max_size=12))
def test_what_all_have_in_common_is_given_once(first: EntryId, pairs: list[tuple[bytes, bytes]]) -> None:
    whole = [encoded_fields([*pair], 0) for pair in pairs]
    middle = array_header(2) + b"\r\n"
    bodies = [body.removeprefix(middle) for body in whole]
    one, other = encode_burst(first, 1, whole), encode_burst(first, 1, bodies, middle)
    assert (one.data, one.ends, one.replies) == (other.data, other.ends, other.replies)


@given(firsts, row_lists, st.data())
def test_slices_are_those_of_the_entries(first: EntryId, rows: list[list[bytes]], data: st.DataObject) -> None:
    burst = encode_burst(first, 1, [encoded_fields(row, 0) for row in rows])
    low = data.draw(st.integers(0, burst.count - 1))
    high = data.draw(st.integers(low + 1, burst.count))
    ms, seq = burst.id_columns(low, high)
    assert list(zip(ms, seq, strict=True)) == ids_of(burst)[low:high]
    entries = [encode_entry(*pair) for pair in zip(ids_of(burst), rows, strict=False)]
    assert burst.bytes_of(low, high) == b"".join(entries[low:high])
    bytes_max = data.draw(st.integers(1, 2_000))
    end = burst.fitting(low, high - low, bytes_max)
    assert low < end <= high and sum(map(len, entries[low : end - 1])) < bytes_max
    assert end == high or sum(map(len, entries[low:end])) >= bytes_max


@settings(max_examples=40)
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 200), st.integers(0, 400)), min_size=1, max_size=6))
def test_a_replica_takes_a_run_as_its_entries(steps: list[tuple[bool, int, int]]) -> None:
    """The effects, their blocks and the stream are the same, whether adds came in bursts or not."""
    by_bursts, by_entries = Replica(ORIGIN), Replica(ORIGIN)
    top = (5, 100_000)
    for together, count, size in steps:
        rows = [[b"f", b"v" * size]] * count
        burst = encode_burst((top[0], top[1] + 1), 1, [encoded_fields(row, 0) for row in rows])
        if together:
            by_bursts.add_burst(KEY, burst)
        for entry_id, row in zip(ids_of(burst), rows, strict=False):
            by_entries.add_entry(KEY, entry_id, row)
            if not together:
                by_bursts.add_entry(KEY, entry_id, row)
        top = burst.last_id()
    by_bursts.check()
    batches = [replica.drain().batch for replica in (by_bursts, by_entries)]
    assert batches[0] is not None and batches[1] is not None
    assert encode_batch(batches[0]) == encode_batch(batches[1])
    assert len(batches[0].effects) == len(batches[1].effects)
    streams = [replica.keyspace.databases[0][b"s"] for replica in (by_bursts, by_entries)]
    assert streams[0].range((0, 0), top, -1, False)[0] == streams[0].length == streams[1].length
    assert streams[0].top == streams[1].top == top
    assert streams[0].entries_added() == streams[1].entries_added()


@given(st.sampled_from([1, SEQ_MODULUS]), st.integers(0, 2000), st.integers(0, 300), st.integers(1, 300))
def test_texts_are_those_of_the_numbers(step: int, residue: int, at: int, count: int) -> None:
    first = (residue if step > 1 else 0) + at * step
    assert texts_of(first, step, count) == [b"%d" % (first + index * step) for index in range(count)]
    assert texts_of(first + 2000 * step, step, 1) == [b"%d" % (first + 2000 * step)]
