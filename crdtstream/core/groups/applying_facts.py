"""The rules that apply local facts to a group and to the producers of a stream."""

from __future__ import annotations

from crdtstream.core.groups.group import Group
from crdtstream.core.groups.positions import raise_position, set_position
from crdtstream.core.local_facts import (
    ConsumerCreated,
    ConsumerDeleted,
    EntriesDelivered,
    LocalFact,
    PendingClaimed,
    PendingDropped,
    PlaceSet,
    PositionRaised,
    PositionSet,
    ProducerRecorded,
    ProducersConfigured,
    ProducersFact,
)
from crdtstream.core.names.acknowledging import record_dropped
from crdtstream.core.names.producers import Producers
from crdtstream.core.streams.stream import Stream


def apply_to_group(stream: Stream, group: Group, fact: LocalFact) -> bool:
    """Apply one local fact; true if the group's runs may have grown."""
    if isinstance(fact, EntriesDelivered):
        if fact.noack and stream.producers is not None:
            record_dropped(stream, fact.group, group, fact.intervals)
        group.apply_delivered(stream.trees, fact.consumer, fact.now_ms, fact.intervals, fact.noack, fact.offer)
        group.entries_read = fact.entries_read
        return fact.noack
    if isinstance(fact, PendingDropped):
        if stream.producers is not None:
            record_dropped(stream, fact.group, group, fact.intervals)
        group.apply_dropped(fact.intervals)
        return True
    if isinstance(fact, PendingClaimed):
        group.apply_claimed(fact.consumer, fact.rows)
        return False
    if isinstance(fact, ConsumerCreated):
        group.touch(fact.consumer, fact.now_ms)
        return False
    if isinstance(fact, ConsumerDeleted):
        group.apply_consumer_deleted(stream.trees, fact.consumer)
        return True
    if isinstance(fact, PositionSet):
        set_position(group, stream.trees, fact.position, fact.entries_read)
        return True
    if isinstance(fact, PositionRaised):
        raise_position(group, stream.trees, fact.entry_id)
        return False
    if isinstance(fact, PlaceSet):
        group.apply_place_set(fact.floor, fact.delivered, fact.skipped, fact.replay)
        group.entries_read = fact.entries_read
        return True
    raise AssertionError(f"no rule applies {type(fact).__name__}")


def apply_to_producers(stream: Stream, fact: ProducersFact) -> None:
    producers = stream.producers
    if producers is None:
        producers = stream.producers = Producers()
    if isinstance(fact, ProducerRecorded):
        producers.record(fact.producer, fact.name, fact.entry_id, fact.now_ms)
        producers.forget(fact.producer, fact.since_ms, fact.entries_max)
        producers.added += 1
        return
    assert isinstance(fact, ProducersConfigured), f"no rule applies {type(fact).__name__}"
    producers.duration_s, producers.entries_max = fact.duration_s, fact.entries_max
    producers.clear()
