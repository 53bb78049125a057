"""Parsing of entries, against the plain parse of the core."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.bulk import bulk_pb2
from crdtstream.core.entries.encoding import encode_entry, entry_fields
from crdtstream.spark.entries import MalformedEntries, parse, run_of, runs, slices
from tests.spark.fake_regions import entries_of

ids = st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
items = st.one_of(st.binary(max_size=3), st.just(b""), st.just(b"\r\n$1\r\n"), st.binary(min_size=90, max_size=1200))
fields = st.integers(0, 6).flatmap(lambda pairs: st.lists(items, min_size=2 * pairs, max_size=2 * pairs))
entries = st.lists(st.tuples(ids, fields), min_size=1, max_size=40)


def blob(rows: list[tuple[tuple[int, int], list[bytes]]]) -> tuple[bytes, np.ndarray, list[bytes]]:
    encoded = [encode_entry(entry_id, fields) for entry_id, fields in rows]
    return b"".join(encoded), np.cumsum([len(each) for each in encoded]), encoded


def parsed_fields(data: bytes, ends: np.ndarray) -> tuple[list[bytes], list[list[bytes]]]:
    parsed = parse(data, ends)
    all_items = [data[start : start + size] for start, size in zip(parsed.starts, parsed.sizes, strict=True)]
    firsts = parsed.firsts.tolist()
    names = slices(data, parsed.id_starts, parsed.id_sizes).to_pylist()
    return names, [all_items[low:high] for low, high in pairwise(firsts)]


@given(entries)
def test_entries_parse_as_the_core_parses_them(rows: list[tuple[tuple[int, int], list[bytes]]]) -> None:
    data, ends, encoded = blob(rows)
    names, found = parsed_fields(data, ends)
    assert found == [entry_fields(each) for each in encoded]
    assert names == [b"%d-%d" % entry_id for entry_id, _ in rows]


def test_a_row_that_is_much_longer_than_the_others() -> None:
    rows = [((5, number), [b"f", b"%d" % number]) for number in range(100)]
    rows[50] = ((5, 50), [b"%d" % number for number in range(20_000)])
    data, ends, encoded = blob(rows)
    assert parsed_fields(data, ends)[1] == [entry_fields(each) for each in encoded]


@given(entries, st.data())
def test_what_is_malformed_is_refused_or_read_as_something(
    rows: list[tuple[tuple[int, int], list[bytes]]], data: st.DataObject
) -> None:
    whole, ends, _ = blob(rows)
    spoilt = bytearray(whole)
    at = data.draw(st.integers(0, len(whole) - 1))
    spoilt[at] = data.draw(st.integers(0, 255))
    try:
        parse(bytes(spoilt), ends)
    except MalformedEntries as error:
        assert "a region sent entries" in str(error)


@pytest.mark.parametrize("size", range(30))
def test_what_is_cut_off_is_refused(size: int) -> None:
    whole, ends, _ = blob([((5, 1), [b"field", b"value"])])
    with pytest.raises(MalformedEntries):
        parse(whole[:size], ends)


@given(st.lists(st.binary(max_size=5)), st.binary(max_size=3))
def test_slices_are_what_they_name(parts: list[bytes], between: bytes) -> None:
    data = between + between.join(parts) + between
    sizes = np.array([len(part) for part in parts], np.int64)
    starts = len(between) + np.cumsum(sizes + len(between)) - sizes - len(between)
    assert slices(data, starts, sizes).to_pylist() == parts


def message(stream: bytes, region: str, *seqs: int) -> tuple[str, bulk_pb2.Interval, bulk_pb2.Entries]:
    rows = [(seq, seq + 10, seq + 20, [b"f", b"%d" % seq]) for seq in seqs]
    return region, bulk_pb2.Interval(stream=stream, origin=257, through=9), entries_of(0, rows)


def test_messages_are_joined() -> None:
    sent = [message(b"a", "r", 1, 2), message(b"b", "r"), message(b"c", "r", 3), message(b"d", "other", 4)]
    first, second = runs(iter(sent))
    assert (first.count, first.region, second.region) == (3, "r", "other")
    assert [first.streams[at] for at in first.interval_of] == [b"a", b"a", b"c"]
    assert parsed_fields(first.data, first.ends)[1] == [[b"f", b"1"], [b"f", b"2"], [b"f", b"3"]]
    assert first.seqs.tolist() == [1, 2, 3] and first.ms.tolist() == [11, 12, 13]
    assert first.id_seqs.tolist() == [21, 22, 23]


def test_runs_are_bounded() -> None:
    def endless() -> Iterator[tuple[str, bulk_pb2.Interval, bulk_pb2.Entries]]:
        while True:
            yield message(b"a", "r", *range(1, 1001))

    assert next(runs(endless())).count == 33_000


def test_one_message_is_a_run() -> None:
    _, interval, entries = message(b"a", "r", 7)
    assert run_of([(interval, entries)], "r").seqs.tolist() == [7]
