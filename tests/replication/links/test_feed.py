"""Feed: what is not due is passed without being read, and nothing else is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.effects import Batch
from crdtstream.core.values.causality import VersionVector
from crdtstream.protocols.codec import BATCH, START, encode_batch
from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication.links.feed import Feed
from crdtstream.replication.log.history import History
from tests.replication.linked_regions import MemoryLog

OWN, OTHER, THIRD = 1, 2, 3
NO_BATCH = 0
BYTES_MAX = 200
WINDOW_BYTES = 1 << 20
WINDOW_MESSAGES = 1_000

origins = st.lists(st.sampled_from([OWN, OTHER, THIRD, NO_BATCH]), max_size=60)


def history_of(kinds: list[int], noted: int) -> tuple[History, MemoryLog]:
    """A log with a batch of each of these origins; only the last `noted` records are among the newest."""
    log, vector = MemoryLog(), VersionVector()
    history = History(log)
    for at, origin in enumerate(kinds):
        if origin == NO_BATCH:
            log.append(START, b"")
            continue
        counter = vector.get(origin) + 1
        vector.advance(origin, counter)
        batch = Batch(origin, counter, counter, VersionVector({origin: counter - 1}), [])
        position = log.append(BATCH, encode_batch(batch))
        if at >= len(kinds) - noted:
            history.record(position, origin, counter, vector)
    return history, log


def sent(history: History, log: MemoryLog, applied: VersionVector, direct: list[int]) -> list[bytes]:
    feed = Feed(history, WINDOW_BYTES, WINDOW_MESSAGES)
    feed.begin(applied, direct, 1)
    payloads: list[bytes] = []
    while True:
        message = wire.Message()
        more = feed.fill(message, BYTES_MAX, log.last, OWN)
        feed.check()
        payloads += message.batches.payloads
        if not more and not message.batches.payloads:
            return payloads


@given(origins, st.integers(0, 60), st.lists(st.integers(0, 20), min_size=3, max_size=3), st.sets(st.integers(1, 3)))
def test_the_same_is_sent_whichever_batches_are_among_the_newest(
    kinds: list[int], noted: int, applied: list[int], direct: set[int]
) -> None:
    vector = VersionVector({origin: count for origin, count in zip((OWN, OTHER, THIRD), applied, strict=True) if count})
    expected = sent(*history_of(kinds, 0), vector, sorted(direct))
    assert sent(*history_of(kinds, noted), vector, sorted(direct)) == expected


def test_a_region_that_only_receives_reads_nothing_for_its_peers() -> None:
    history, log = history_of([OTHER] * 50, noted=50)
    assert sent(history, log, VersionVector(), [OTHER]) == []
    assert log.reads == 0
    assert len(sent(history, log, VersionVector(), [])) == 50
    assert log.reads > 0


def test_what_the_peer_gets_from_elsewhere_does_not_lead_past_a_history_that_began_again() -> None:
    """The state that began the history has a batch of this region that the log does not hold: the peer needs it."""
    history, log = history_of([OTHER] * 5, noted=5)
    feed = Feed(history, WINDOW_BYTES, WINDOW_MESSAGES)
    feed.begin(VersionVector(), [OTHER], 1)
    history.begin_again(log.last + 1, VersionVector({OWN: 1, OTHER: 5}))
    message = wire.Message()
    assert not feed.fill(message, BYTES_MAX, log.last, OWN)
    assert not message.batches.payloads
    assert feed.behind


def test_a_peer_that_is_slow_is_sent_few_messages() -> None:
    """It confirms nothing while entries are added one at a time: what it is behind is gathered."""
    kinds = [OWN] * 100
    history, log = history_of(kinds, noted=100)
    feed = Feed(history, WINDOW_BYTES, 4)
    feed.begin(VersionVector(), [], 1)
    counts = []
    for served in range(1, 101):
        message = wire.Message()
        feed.fill(message, WINDOW_BYTES, served, OWN)
        counts.append(len(message.batches.payloads))
    assert counts == [1, 1, 1, 1, *[0] * 96]
    # Until it has confirmed one of them.
    feed.record_progress(feed.total_bytes // 4 - 1, None)
    assert sizes(feed, log) == []
    feed.record_progress(feed.total_bytes // 4, None)
    assert sizes(feed, log) == [96]
    feed.check()


def test_a_restart_opens_the_window_of_messages() -> None:
    history, log = history_of([OWN] * 5, noted=5)
    feed = Feed(history, WINDOW_BYTES, 1)
    feed.begin(VersionVector(), [], 1)
    feed.fill(wire.Message(), 1, log.last, OWN)
    assert sizes(feed, log) == []
    feed.begin(VersionVector({OWN: 1}), [], 2)
    assert sizes(feed, log) == [4]


def sizes(feed: Feed, log: MemoryLog) -> list[int]:
    """How many batches each further message has, while the peer confirms nothing."""
    found: list[int] = []
    while True:
        message = wire.Message()
        feed.fill(message, WINDOW_BYTES, log.last, OWN)
        if not message.batches.payloads:
            return found
        found.append(len(message.batches.payloads))
