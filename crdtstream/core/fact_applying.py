"""Applying local facts to the group they concern: consumers, pending entries, cursors."""

from __future__ import annotations

from crdtstream.core import effects as fx
from crdtstream.core.effects import LocalFact
from crdtstream.core.group import Group
from crdtstream.core.stream import Stream


def apply_fact(stream: Stream, group: Group, fact: LocalFact) -> bool:
    """Apply one local fact; true if the group's runs may have grown."""
    if isinstance(fact, fx.EntriesDelivered):
        group.apply_delivered(stream.trees, fact.consumer, fact.now_ms, fact.intervals, fact.noack)
        group.entries_read = fact.entries_read
        return fact.noack
    if isinstance(fact, fx.PendingDropped):
        group.apply_dropped(fact.intervals)
        return True
    if isinstance(fact, fx.PendingClaimed):
        group.apply_claimed(fact.consumer, fact.rows)
        return False
    if isinstance(fact, fx.ConsumerCreated):
        group.touch(fact.consumer, fact.now_ms)
        return False
    if isinstance(fact, fx.ConsumerDeleted):
        group.apply_consumer_deleted(fact.consumer)
        return True
    if isinstance(fact, fx.PositionSet):
        group.apply_position_set(stream.trees, fact.position, fact.entries_read)
        return True
    if isinstance(fact, fx.PositionRaised):
        group.apply_position_raised(stream.trees, fact.entry_id)
        return False
    raise AssertionError(f"no rule applies {type(fact).__name__}")
