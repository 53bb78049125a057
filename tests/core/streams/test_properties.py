"""Properties of streams: whatever the order of application the same registers survive; the winner is one of them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtstream.core import effects as fx
from crdtstream.core.digest import digest_replica
from crdtstream.core.effects import Batch, Key
from crdtstream.core.joining import join_stream
from crdtstream.core.replica import Replica
from crdtstream.core.streams.properties import (
    ACKED_ONLY,
    MAX_AGE,
    MAX_BYTES,
    MAX_LENGTH,
    NO,
    VOID_VALUE,
    YES,
    RetentionLimits,
    StreamRegisterRow,
    property_rows,
)
from crdtstream.core.values.causality import VersionVector
from crdtstream.protocols.codec import decode_batch, encode_batch
from crdtstream.protocols.columns import CodecError
from tests.effort import examples

KEY: Key = (0, b"k")
OTHER: Key = (0, b"other")


class Pair:
    """Replicas 1 and 2, which hand each other all that they made."""

    def __init__(self) -> None:
        self.replicas = {1: Replica(1), 2: Replica(2)}
        self.batches: list[Batch] = []
        self.seen = {1: 0, 2: 0}
        self.add(1)
        self.sync()

    def add(self, number: int) -> None:
        replica = self.replicas[number]
        replica.add_entry(KEY, (replica.applied.counter() + 1, number), [b"f", b"v"])

    def set(self, number: int, name: bytes, value: bytes) -> None:
        self.replicas[number].set_stream_properties(KEY, {name: value})

    def end(self, number: int) -> None:
        batch = self.replicas[number].drain().batch
        if batch is not None:
            self.batches.append(decode_batch(encode_batch(batch)))

    def sync(self) -> None:
        for number in self.replicas:
            self.end(number)
        for number, replica in self.replicas.items():
            for batch in self.batches[self.seen[number] :]:
                if batch.origin != number:
                    replica.apply_batch(batch)
            self.seen[number] = len(self.batches)
            replica.check()

    def rows(self, number: int) -> list[StreamRegisterRow]:
        stream = self.replicas[number].keyspace.databases[0].get(KEY[1])
        return [] if stream is None else property_rows(stream.properties)

    def values(self, number: int) -> dict[bytes, bytes]:
        properties = self.replicas[number].keyspace.databases[0][KEY[1]].properties
        return {} if properties is None else properties.values()

    def is_equal(self) -> bool:
        return self.rows(1) == self.rows(2) and digest_replica(self.replicas[1]) == digest_replica(self.replicas[2])


def test_the_highest_number_wins_then_the_origin_and_a_later_set_replaces_both() -> None:
    pair = Pair()
    pair.set(1, MAX_LENGTH, b"5")
    pair.set(2, MAX_LENGTH, b"6")
    pair.sync()
    assert len(pair.rows(1)) == 2 and pair.values(1) == pair.values(2) == {MAX_LENGTH: b"6"}
    pair.set(1, MAX_LENGTH, b"7")
    pair.sync()
    assert len(pair.rows(1)) == 1 and pair.values(2) == {MAX_LENGTH: b"7"}
    assert pair.is_equal()


def test_properties_are_set_one_by_one() -> None:
    pair = Pair()
    pair.set(1, MAX_LENGTH, b"5")
    pair.set(2, MAX_AGE, b"6000")
    pair.sync()
    assert pair.values(1) == {MAX_LENGTH: b"5", MAX_AGE: b"6000"}
    assert pair.is_equal()


def test_a_loser_is_there_where_a_del_voids_the_winner() -> None:
    """C hears a1, DEL, b1; B hears b1, a1, DEL: with one register that keeps the winner, B would have nothing."""
    third = Replica(3)
    pair = Pair()
    first = pair.batches[0]
    third.apply_batch(decode_batch(encode_batch(first)))
    pair.set(1, MAX_LENGTH, b"5")
    pair.set(1, MAX_LENGTH, b"6")
    pair.end(1)
    pair.set(2, MAX_LENGTH, b"7")
    pair.add(2)
    pair.end(2)
    third.apply_batch(decode_batch(encode_batch(pair.batches[1])))
    assert third.delete_stream(KEY)
    deleted = third.drain().batch
    assert deleted is not None
    third.apply_batch(decode_batch(encode_batch(pair.batches[2])))
    pair.sync()
    assert pair.values(2) == {MAX_LENGTH: b"6"}, "by its number"
    for replica in pair.replicas.values():
        replica.apply_batch(decode_batch(encode_batch(deleted)))
        replica.check()
    assert pair.values(1) == pair.values(2) == {MAX_LENGTH: b"7"}
    assert digest_replica(third) == digest_replica(pair.replicas[1]) == digest_replica(pair.replicas[2])


def test_they_keep_no_key_alive_and_are_void_once_it_is_written_again() -> None:
    pair = Pair()
    pair.set(1, MAX_LENGTH, b"5")
    pair.replicas[2].delete_stream(KEY)
    pair.sync()
    assert pair.replicas[1].keyspace.known(KEY) is None and pair.rows(1) == pair.rows(2) != []
    assert list(pair.replicas[1].keyspace.retained.keys) == [KEY]
    pair.add(2)
    assert pair.rows(2) == []
    pair.sync()
    assert pair.is_equal() and pair.rows(1) == []
    assert not pair.replicas[1].keyspace.retained.keys


def test_a_state_that_is_read_again_has_them() -> None:
    pair = Pair()
    pair.set(1, MAX_LENGTH, b"5")
    pair.set(2, MAX_LENGTH, b"6")
    pair.sync()
    mine, theirs = [pair.replicas[number].keyspace.databases[0][KEY[1]] for number in (1, 2)]
    vector = pair.replicas[1].applied.vector
    join_stream(mine, vector, theirs, vector)
    assert len(property_rows(mine.properties)) == 2
    mine.check()


@pytest.mark.parametrize(
    ("values", "fields"),
    [
        ({}, (0, 0, 0, False)),
        ({MAX_AGE: b"1000", MAX_BYTES: b"2", MAX_LENGTH: b"3", ACKED_ONLY: YES}, (1000, 2, 3, True)),
        ({MAX_AGE: b"0", ACKED_ONLY: NO}, (0, 0, 0, False)),
        ({MAX_AGE: b"x", MAX_BYTES: b"-1", MAX_LENGTH: b"9" * 5000, ACKED_ONLY: b"maybe"}, (0, 0, 0, False)),
    ],
)
def test_values_of_later_releases_select_nothing(
    values: dict[bytes, bytes], fields: tuple[int, int, int, bool]
) -> None:
    limits = RetentionLimits(values)
    assert limits.fields() == fields
    assert limits.removes() == any(fields)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "set", "set", "off", "del", "sync", "sync 1"]),
        st.integers(1, 2),
        st.sampled_from([MAX_LENGTH, MAX_AGE]),
        st.integers(1, 9),
    ),
    max_size=20,
)


@settings(max_examples=examples(200), deadline=None)
@given(STEPS)
def test_the_registers_that_no_later_one_and_no_del_has_seen_survive(
    script: list[tuple[str, int, bytes, int]],
) -> None:
    pair = Pair()
    for step, number, name, value in script:
        replica = pair.replicas[number]
        if step == "add":
            pair.add(number)
        elif step == "del":
            replica.delete_stream(KEY)
        elif step == "sync":
            pair.sync()
        elif replica.keyspace.find(KEY) is not None:
            pair.set(number, name, b"0" if step == "off" else b"%d" % value)
        pair.end(number)
    pair.sync()
    expected = survivors(pair.batches)
    assert pair.rows(1) == pair.rows(2) == expected
    assert pair.is_equal()


def survivors(batches: list[Batch]) -> list[StreamRegisterRow]:
    """The naive model: every SET, unless one that replaces it or a DEL has seen it."""
    contexts: dict[int, VersionVector] = {}
    rows: list[tuple[int, int, VersionVector, fx.Effect]] = []
    for batch in batches:
        context = contexts.setdefault(batch.origin, VersionVector())
        context.merge(batch.context)
        counter = batch.first
        for effect in batch.effects:
            context.advance(batch.origin, counter - 1)
            rows.append((batch.origin, counter, context.copy(), effect))
            counter += effect.width
    found: list[StreamRegisterRow] = []
    for origin, counter, _, effect in rows:
        if isinstance(effect, fx.StreamPropertiesSet):
            for name, value in effect.values.items():
                void = any(
                    seen.contains(origin, counter)
                    for _, _, seen, other in rows
                    if isinstance(other, fx.StreamDeleted)
                    or (isinstance(other, fx.StreamPropertiesSet) and name in other.values)
                )
                if value != VOID_VALUE and not void:
                    found.append((name, origin, counter, effect.number, value))
    return sorted(found)


def test_a_name_without_a_value_is_refused() -> None:
    pair = Pair()
    pair.replicas[1].set_stream_properties(KEY, {b"name": b"value"})
    batch = pair.replicas[1].drain().batch
    assert batch is not None
    data = encode_batch(batch)
    assert decode_batch(data).effects
    at = data.index(b"namevalue")
    with pytest.raises(CodecError):
        decode_batch(data[:at] + b"namevalu" + data[at + 9 :])
