"""The inbox: whatever the order and the number of copies, batches come out in an order that both gates allow."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.values.causality import VersionVector
from crdtstream.protocols.codec import BatchHeader
from crdtstream.replication.log.inbox import Inbox, InboxError

ORIGINS = (1, 2, 259)
Batch = tuple[BatchHeader, bytes]


def batch(origin: int, first: int, last: int, seen: dict[int, int] | None = None) -> Batch:
    context = VersionVector({**(seen or {}), origin: first - 1})
    return (BatchHeader(origin, first, last, context), b"%d:%d-%d" % (origin, first, last))


def drain(inbox: Inbox, vector: VersionVector) -> list[Batch]:
    """Apply all that passes; the gates are judged here once more."""
    applied: list[Batch] = []
    while (arrival := inbox.next(vector)) is not None:
        header, payload, _ = arrival
        assert header.first == vector.get(header.origin) + 1, "a gap"
        assert vector.descends(header.context), "a dependency is missing"
        vector.advance(header.origin, header.last)
        applied.append((header, payload))
        inbox.check()
    return applied


@st.composite
def histories(draw: st.DrawFn) -> list[Batch]:
    """Batches as regions made them: each origin applies some of what the others made before it makes its next."""
    vectors = {origin: VersionVector() for origin in ORIGINS}
    history: list[Batch] = []
    steps = st.tuples(st.sampled_from(ORIGINS), st.integers(1, 3), st.sampled_from(ORIGINS))
    for origin, width, other in draw(st.lists(steps, max_size=12)):
        vectors[origin].merge(vectors[other])
        first = vectors[origin].get(origin) + 1
        header = BatchHeader(origin, first, first + width - 1, vectors[origin].copy())
        vectors[origin].advance(origin, header.last)
        history.append((header, b"%d:%d" % (origin, first)))
    return history


@given(histories(), st.data())
def test_everything_comes_out_once_and_in_causal_order(history: list[Batch], data: st.DataObject) -> None:
    inbox, vector = Inbox(), VersionVector()
    applied: list[Batch] = []
    copies = data.draw(st.lists(st.sampled_from(history), max_size=5)) if history else []
    for header, payload in data.draw(st.permutations(history + copies)):
        inbox.offer(header, payload, vector)
        inbox.check()
        if data.draw(st.booleans()):
            applied += drain(inbox, vector)
    applied += drain(inbox, vector)
    assert sorted(payload for _, payload in applied) == sorted(payload for _, payload in history)
    assert (inbox.waiting_count, inbox.waiting_bytes) == (0, 0)


@given(histories(), st.data())
def test_the_order_depends_on_what_waits_only(history: list[Batch], data: st.DataObject) -> None:
    orders = []
    for arrivals in (history, data.draw(st.permutations(history))):
        inbox = Inbox()
        for header, payload in arrivals:
            inbox.offer(header, payload, VersionVector())
        orders.append([payload for _, payload in drain(inbox, VersionVector())])
    assert orders[0] == orders[1]


def test_a_gap_holds() -> None:
    inbox, vector = Inbox(), VersionVector({1: 4})
    inbox.offer(*batch(1, 7, 8), vector)
    assert inbox.next(vector) is None
    inbox.offer(*batch(1, 5, 6), vector)
    assert [payload for _, payload in drain(inbox, vector)] == [b"1:5-6", b"1:7-8"]


def test_a_missing_dependency_holds() -> None:
    inbox, vector = Inbox(), VersionVector()
    inbox.offer(*batch(1, 1, 1, {2: 3}), vector)
    assert inbox.next(vector) is None
    inbox.offer(*batch(2, 1, 3), vector)
    assert [payload for _, payload in drain(inbox, vector)] == [b"2:1-3", b"1:1-1"]


def test_a_waiting_origin_does_not_hold_another() -> None:
    inbox, vector = Inbox(), VersionVector()
    inbox.offer(*batch(1, 2, 2), vector)
    inbox.offer(*batch(2, 1, 1), vector)
    assert [payload for _, payload in drain(inbox, vector)] == [b"2:1-1"]
    assert (inbox.waiting_count, inbox.waiting_bytes) == (1, 5)


def test_what_is_covered_or_held_is_not_taken() -> None:
    inbox, vector = Inbox(), VersionVector({1: 4})
    inbox.offer(*batch(1, 3, 4), vector)
    assert inbox.waiting_count == 0
    for _ in range(2):
        inbox.offer(*batch(1, 6, 6), vector)
    assert inbox.waiting_count == 1


def test_what_the_vector_covered_meanwhile_is_dropped() -> None:
    inbox = Inbox()
    for first, last in ((2, 4), (5, 5), (6, 7)):
        inbox.offer(*batch(1, first, last), VersionVector())
    assert [payload for _, payload in drain(inbox, VersionVector({1: 5}))] == [b"1:6-7"]
    assert (inbox.waiting_count, inbox.waiting_bytes) == (0, 0)


def test_large_counters() -> None:
    inbox, vector = Inbox(), VersionVector({1: 2**53, 2: 2**63})
    inbox.offer(*batch(1, 2**53 + 2, 2**53 + 2, {2: 2**63}), vector)
    assert inbox.next(vector) is None
    inbox.offer(*batch(1, 2**53 + 1, 2**53 + 1), vector)
    assert len(drain(inbox, vector)) == 2


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (batch(1, 4, 6), "4..6 of origin 1 begins below 4, which is applied"),
        (batch(1, 7, 9), "begin at 7 and end at 8 and 9"),
    ],
)
def test_batches_that_overlap_are_refused(other: Batch, message: str) -> None:
    inbox, vector = Inbox(), VersionVector({1: 4})
    inbox.offer(*batch(1, 7, 8), vector)
    with pytest.raises(InboxError, match=message):
        inbox.offer(*other, vector)
    inbox.check()
    assert inbox.waiting_count == 1


def test_the_link_that_brought_most_is_shed() -> None:
    """What another link brought too stays."""
    inbox = Inbox()
    for first in (2, 3, 5):
        inbox.offer(*batch(1, first, first), VersionVector(), 7)
    for link in (7, 8, 8):
        inbox.offer(*batch(2, 2, 2), VersionVector(), link)
    inbox.check()
    held_bytes = inbox.held_bytes
    assert inbox.shed() == 7
    inbox.check()
    assert 4 * inbox.held_bytes == held_bytes
    assert (inbox.waiting_count, inbox.waiting_bytes) == (1, 5)
    assert inbox.next(VersionVector({1: 1})) is None
    assert len(drain(inbox, VersionVector({2: 1}))) == 1


def test_what_was_put_back_is_not_shed() -> None:
    """One is spared whatever its size, and others as long as all of them fit."""
    inbox = Inbox()
    for origin, links in ((1, [7]), (2, [7, 8]), (3, [7])):
        inbox.put_back(*batch(origin, 1, 1), links, 1_300)
    inbox.offer(*batch(1, 2, 2), VersionVector(), 7)
    inbox.offer(*batch(1, 1, 1), VersionVector(), 9)
    inbox.check()
    spared_bytes = inbox.spared_bytes
    assert inbox.waiting_count == 4 and inbox.shed() == 7
    inbox.check()
    assert inbox.waiting_count == 2 and inbox.spared_bytes == inbox.held_bytes == spared_bytes
    assert len(drain(inbox, VersionVector())) == 2
    assert inbox.spared_bytes == inbox.held_bytes == 0
    inbox.check()
