"""How far a group is behind its stream, and how many entries it has passed: `lag` and `entries-read`.

There are two ways to know. **Counting** is exact: the lag is the number of wanted entries, and entries-read is what
that leaves of entries-added. **Redis's rule** keeps a counter, entries-read, that goes on with each delivery: the lag
is entries-added minus entries-read. Where an XDEL at or above the group's position may have made that wrong, only the
ends of the stream tell where the group stands, and where they do not, nobody knows (nil).

Clients of one region expect Redis's answers, nil included, so its rule is followed where its counter can be true: one
origin wrote the stream, and all up to the last-delivered ID was passed by readers of this region. Elsewhere counting
answers: entries arrive below the last-delivered ID, and acknowledgements of other regions pass entries that nobody
read here. A delivery that the rule does not cover stores that entries-read is unknown, so no stale counter is ever
shown.

Where releases of Redis differ, this follows those that corrected the lag after a trim: a group below the first entry,
with no XDEL above, lags by the length, and its counter starts anew from there; an empty stream has no lag.

Reference: `streamReplyWithCGLag` and `streamEstimateDistanceFromFirstEverEntry` of Redis; redis/redis pull requests
13473 and 13958.
"""

from __future__ import annotations

from crdtstream.core.effects import UNKNOWN_ENTRIES_READ
from crdtstream.core.entry_id import ID_MIN, EntryId
from crdtstream.core.group import Delivery, Group
from crdtstream.core.stream import Stream


def lag_of(stream: Stream, group: Group) -> int | None:
    """How many entries the group has yet to deliver; None when Redis would not know."""
    if stream.length == 0:
        return 0
    if not follows_rule(stream, group):
        return group.wanted_count(stream.trees)
    first, last_delivered = first_id(stream), group.last_delivered()
    if last_delivered < first and stream.max_deleted() < first:
        return stream.length
    if group.entries_read != UNKNOWN_ENTRIES_READ and not removed_from(stream, last_delivered):
        return stream.entries_added() - group.entries_read
    read = estimate(stream, last_delivered)
    return None if read is None else stream.entries_added() - read


def entries_read_of(stream: Stream, group: Group) -> int | None:
    """The logical position of the last-delivered entry among all that were ever added; None when unknown."""
    if not follows_rule(stream, group):
        return max(stream.entries_added() - group.wanted_count(stream.trees), 0)
    return None if group.entries_read == UNKNOWN_ENTRIES_READ else group.entries_read


def entries_read_after(stream: Stream, group: Group, delivery: Delivery) -> int:
    """What entries-read becomes with this delivery, which is not applied yet: to go into `EntriesDelivered`."""
    if delivery.count == 0:
        return group.entries_read
    if not follows_rule(stream, group):
        return UNKNOWN_ENTRIES_READ
    first, last_delivered = first_id(stream), group.last_delivered()
    known = group.entries_read != UNKNOWN_ENTRIES_READ
    if known and last_delivered >= first and not removed_from(stream, last_delivered):
        return group.entries_read + delivery.count
    if last_delivered < first and stream.max_deleted() < first:
        return stream.entries_added() - stream.length + delivery.count
    read = estimate(stream, last_of(delivery))
    return UNKNOWN_ENTRIES_READ if read is None else read


def follows_rule(stream: Stream, group: Group) -> bool:
    """Whether Redis's counter can be true: see above."""
    slots = [slot for slot, meta in stream.metas.items() if meta.added > meta.voided]
    if len(slots) > 1:
        return False
    if not slots:
        return True
    slot = slots[0]
    passed = group.passed.get(slot)
    if passed is None:
        return True
    if passed.gaps(group.floor.get(slot), group.position_of(slot)):
        return False
    acked = group.acked.get(slot)
    if acked is None:
        return True
    foreign = acked
    for known in (group.delivered.get(slot), group.replay.get(slot), group.skipped.get(slot)):
        if known is not None:
            foreign = foreign.minus(known)
    return not foreign


def first_id(stream: Stream) -> EntryId:
    """0-0 for a stream without entries."""
    first = [tree.first_id() for tree in stream.trees.values()]
    return min([entry_id for entry_id in first if entry_id is not None], default=ID_MIN)


def last_of(delivery: Delivery) -> EntryId:
    return max([high for pieces in delivery.intervals.values() for _, high in pieces])


def removed_from(stream: Stream, entry_id: EntryId) -> bool:
    """Whether an XDEL may have left a hole at or above this ID."""
    max_deleted = stream.max_deleted()
    return max_deleted != ID_MIN and max_deleted >= entry_id and max_deleted >= first_id(stream)


def estimate(stream: Stream, entry_id: EntryId) -> int | None:
    """How many of all entries ever added lie at or below this ID, as far as the ends of the stream tell."""
    added = stream.entries_added()
    if added == 0:
        return 0
    if stream.length == 0 and entry_id <= stream.top:
        return added
    max_deleted = stream.max_deleted()
    if entry_id != ID_MIN and entry_id < max_deleted:
        return None
    if entry_id >= stream.top:
        return added if entry_id == stream.top else None
    first = first_id(stream)
    if entry_id <= first and (max_deleted == ID_MIN or max_deleted < first):
        return added - stream.length + (1 if entry_id == first else 0)
    return None
