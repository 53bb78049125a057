"""`lag` and `entries-read`: how far a group is behind its stream, and how many entries it has passed.

There are two ways to compute them. **Counting** is exact: the lag is the number of wanted entries, and entries-read is
entries-added minus that. **Redis's rule** keeps a counter, entries-read, that each delivery increases: the lag is
entries-added minus entries-read. If an XDEL at or above the group's last-delivered ID may have made the counter wrong,
Redis falls back on the ends of the stream; if they do not determine the value either, it is unknown (nil).

Clients of a single region expect Redis's answers, nil included. So Redis's rule is used where its counter can be
correct: one origin wrote the stream, and readers of this region passed everything up to the last-delivered ID.
Otherwise counting is used: entries may arrive below the last-delivered ID, and acknowledgements of other regions pass
entries that were not read here. A delivery to which the rule does not apply stores that entries-read is unknown, so a
stale counter is never shown.

Where releases of Redis differ, this follows those with the corrected lag after a trim: for a group below the first
entry, with no XDEL above it, the lag is the length, and its counter restarts from there; an empty stream has no lag.

Reference: `streamReplyWithCGLag` and `streamEstimateDistanceFromFirstEverEntry` of Redis; redis/redis pull requests
13473 and 13958.
"""

from __future__ import annotations

from crdtstream.core.effects import UNKNOWN_ENTRIES_READ
from crdtstream.core.groups.delivery import Delivery
from crdtstream.core.groups.group import Group
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.entry_id import ID_MIN, EntryId, at_most


def lag_of(stream: Stream, group: Group) -> int | None:
    """The number of entries that the group has yet to deliver; None where Redis would answer nil."""
    if stream.length == 0:
        return 0
    if not follows_rule(stream, group):
        return group.wanted_count(stream.chains)
    first, last_delivered = first_id(stream), group.last_delivered()
    if last_delivered < first and stream.max_deleted() < first:
        return stream.length
    if group.entries_read != UNKNOWN_ENTRIES_READ and not removed_from(stream, last_delivered):
        return stream.entries_added() - group.entries_read
    read = estimate(stream, last_delivered)
    return None if read is None else stream.entries_added() - read


def entries_read_of(stream: Stream, group: Group) -> int | None:
    """How many of all entries ever added are at or below the last-delivered ID; None if unknown."""
    if not follows_rule(stream, group):
        return max(stream.entries_added() - group.wanted_count(stream.chains), 0)
    return None if group.entries_read == UNKNOWN_ENTRIES_READ else group.entries_read


def entries_read_after(stream: Stream, group: Group, delivery: Delivery) -> int:
    """The entries-read that results from this delivery, which is not applied yet: the value for `EntriesDelivered`."""
    if delivery.count == 0:
        return group.entries_read
    known = group.entries_read != UNKNOWN_ENTRIES_READ
    # The delivery before left a known counter, so the rule applied to it. A removal, SETID and an acknowledgement from
    # another region invalidate the group's read cursor; another writer does not.
    if known and group.goes_on(delivery) and stream.writers <= 1 and stream.max_deleted() == ID_MIN:
        return group.entries_read + delivery.count
    if not follows_rule(stream, group):
        return UNKNOWN_ENTRIES_READ
    first, last_delivered = first_id(stream), group.last_delivered()
    if known and at_most(first, last_delivered) and not removed_from(stream, last_delivered):
        return group.entries_read + delivery.count
    if last_delivered < first and stream.max_deleted() < first:
        return stream.entries_added() - stream.length + delivery.count
    read = estimate(stream, last_of(delivery))
    return UNKNOWN_ENTRIES_READ if read is None else read


def follows_rule(stream: Stream, group: Group) -> bool:
    """True if Redis's counter can be correct here: see the module docstring."""
    if stream.writers > 1:
        return False
    if not stream.writers:
        return True
    origin = stream.only_writer()
    passed = group.passed.get(origin)
    if passed is None:
        return True
    if not passed.covers(group.floor.get(origin), group.position_of(origin)):
        return False
    acked = group.acked.get(origin)
    delivered = group.delivered.get(origin)
    if acked is None or (delivered is not None and delivered.covers_all(acked)):
        return True
    foreign = acked
    for known in (group.delivered.get(origin), group.replay.get(origin), group.skipped.get(origin)):
        if known is not None:
            foreign = foreign.minus(known)
    return not foreign


def first_id(stream: Stream) -> EntryId:
    """The first entry's ID; 0-0 for an empty stream."""
    return stream.first_id() or ID_MIN


def last_of(delivery: Delivery) -> EntryId:
    return max([high for pieces in delivery.intervals.as_dict().values() for _, high in pieces])


def removed_from(stream: Stream, entry_id: EntryId) -> bool:
    """True if an XDEL may have removed an entry at or above this ID, between entries that remain."""
    max_deleted = stream.max_deleted()
    if max_deleted[0] == 0 and max_deleted[1] == 0:
        return False
    return at_most(entry_id, max_deleted) and at_most(first_id(stream), max_deleted)


def estimate(stream: Stream, entry_id: EntryId) -> int | None:
    """How many of all entries ever added are at or below this ID; None if the ends of the stream do not determine
    it.
    """
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
