"""XREADGROUP.

What readers do is local: deliveries and claims are recorded as local facts and never sent. A blocked reader looks its
groups up again each time it is woken, so it notices a group that was destroyed or created again meanwhile. The ID of a
history read is exclusive: `0` reads from the first pending entry.

Reference: `xreadCommand` of Redis.
"""

from __future__ import annotations

from typing import Final

from crdtstream.commands import arguments
from crdtstream.commands.claiming import claimable_rows, idle_of, more_deliveries, oldest_ms, with_history
from crdtstream.commands.dead_letters import without_poison
from crdtstream.commands.delivery import NO_DELIVERY, claimable, is_held_by_others, look, may_read
from crdtstream.commands.groups import attend, live_entry
from crdtstream.commands.read_options import NO_CLAIM, READ_OPTIONS, ReadOptions, ReplyBudget, parse_read
from crdtstream.commands.reading import size_of, stream_header, streams_header
from crdtstream.connections.client import Client
from crdtstream.connections.command import Command, keys_after
from crdtstream.connections.context import CommandError, Context, Reply, Waiter, shown
from crdtstream.connections.parking import NO_DEADLINE
from crdtstream.core.effects import Key
from crdtstream.core.foreseeing import acknowledge_together
from crdtstream.core.groups.delivery import Delivery
from crdtstream.core.groups.group import Group
from crdtstream.core.groups.pending import PendingRow
from crdtstream.core.groups.properties import NO_LIMIT, PLAIN
from crdtstream.core.lag import entries_read_after
from crdtstream.core.local_facts import EntriesDelivered, PendingClaimed
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.entry_id import ID_MAX, EntryId, format_id, next_id
from crdtstream.protocols import replies

# A reader with CLAIM that waits looks again this often at most, in milliseconds; after looks in vain, more rarely: what
# it could claim may be known to be gone only once its blocks were read.
RETRY_MS_MIN: Final = 10
RETRY_MS_MAX: Final = 1_000
# The ID of `>`; Redis also represents it by the highest ID.
NEW: Final = ID_MAX
NEW_TEXT: Final = b">"


class GroupReader(Waiter):
    """An XREADGROUP; it is parked if it asks for new entries, found none and may block."""

    def __init__(self, client: Client, options: ReadOptions, keys: list[Key], after: list[EntryId]) -> None:
        super().__init__(client, keys, options.deadline_ms)
        self.options = options
        self.after = after
        # While it waits, streams that had nothing for it: to look at them again is no request of the consumer.
        self.idle: list[Key] = []
        self.retry_after_ms = RETRY_MS_MIN

    def serve(self, context: Context) -> bytes | None:
        if context.standing.departing:
            raise CommandError(f"READONLY {context.standing.departing}")
        if not context.standing.writable:
            return None
        return self.read(context, [readable(context, key, self.options.group) for key in self.keys])

    def read(self, context: Context, found: list[tuple[Stream, Group]]) -> bytes | None:
        """Read from these streams, one for each key; the reply, or None if there was nothing."""
        if context.replica.reads.may_wait:
            self.demand(context, found)
        # First the header, once the number of streams is known.
        parts = [b""]
        streams = 0
        budget = ReplyBudget(self.options)
        self.idle = []
        for i, (stream, group) in enumerate(found):
            key, after = self.keys[i], self.after[i]
            if budget.is_full():
                break
            if group.rules is not PLAIN or group.withheld:
                look(context, key, self.options.group, stream, group, after == NEW)
            if after == NEW:
                count, chunks = self.read_new(context, key, stream, group, budget)
            else:
                count, chunks = self.read_history(context, key, stream, group, after, budget)
            if count or after != NEW:
                streams += 1
                parts.append(stream_header(key[1], count, self.client.protocol))
                parts += chunks
        if streams == 0:
            return None
        for key in self.idle:
            attend(context, key, self.options.group, self.options.consumer)
        parts[0] = streams_header(streams, self.client.protocol)
        return b"".join(parts)

    def demand(self, context: Context, found: list[tuple[Stream, Group]]) -> None:
        """Have the blocks read that this needs before its first effect."""
        if self.notes_last():
            return
        for (stream, group), after in zip(found, self.after, strict=True):
            demand_read(context, stream, group, after, self.options, 1)
        dirty = context.replica.changed.dirty
        claims = self.options.claim_ms != NO_CLAIM
        if dirty and claims and any(group.rules.deliveries_max != NO_LIMIT for _, group in found):
            # The stream of dead letters may have runs to prepare first, and only its group knows which stream that is.
            acknowledge_together(context.replica, [*dict.fromkeys([key for key, _ in dirty])])

    def notes_last(self) -> bool:
        """True for new entries of one stream: all are read before anything is noted."""
        ids = self.options.ids
        return len(ids) == 1 and ids[0] == NEW_TEXT and self.options.claim_ms == NO_CLAIM

    def read_new(
        self, context: Context, key: Key, stream: Stream, group: Group, budget: ReplyBudget
    ) -> tuple[int, list[bytes]]:
        """With CLAIM, what has been pending for long enough; then what nobody has received."""
        if budget.is_measured():
            budget.spend(0, len(stream_header(key[1], 1, self.client.protocol)))
        claiming = self.options.claim_ms != NO_CLAIM
        chunks = self.claim(context, key, stream, group, budget) if claiming else []
        count = len(chunks)
        if budget.is_full() or count == self.options.count:
            return count, chunks
        left = self.options.count if self.options.count < 0 else self.options.count - count
        options = self.options
        is_open = group.rules is PLAIN or may_read(context, key, options.group, stream, group, options.consumer)
        delivery = self.fitting(stream, group, budget, left) if is_open else NO_DELIVERY
        if delivery.count == 0:
            if context.parking.holds(self):
                self.idle.append(key)
            else:
                attend(context, key, self.options.group, self.options.consumer)
            return count, chunks
        if context.notifications.on:
            # A delivery creates its consumer too, and would not tell that.
            attend(context, key, self.options.group, self.options.consumer)
        self.deliver(context, key, stream, group, delivery)
        fresh = [with_history(entry, 0, 0) for entry in delivery.entries()] if claiming else delivery.chunks
        budget.spend(delivery.count, size_of(fresh) if budget.is_measured() else 0)
        return count + delivery.count, chunks + fresh if chunks else fresh

    def fitting(self, stream: Stream, group: Group, budget: ReplyBudget, count: int) -> Delivery:
        """The wanted entries, at most `count` and as many as fit."""
        bytes_max = budget.bytes_left(0)
        delivery = group.next_entries(stream.chains, budget.limit(count))
        if bytes_max < 0 or size_of(delivery.chunks) <= bytes_max:
            return delivery
        fits = max(delivery.fitting(bytes_max), budget.at_least())
        budget.close()
        return group.next_entries(stream.chains, fits)

    def deliver(self, context: Context, key: Key, stream: Stream, group: Group, delivery: Delivery) -> None:
        options = self.options
        read = entries_read_after(stream, group, delivery)
        group.deliveries += delivery.count
        noack, intervals = options.noack, delivery.intervals
        fact = EntriesDelivered(
            key, options.group, options.consumer, context.now_ms, intervals, noack, read, delivery.offer
        )
        context.replica.record_for(stream, group, fact)

    def claim(self, context: Context, key: Key, stream: Stream, group: Group, budget: ReplyBudget) -> list[bytes]:
        """Take over what has been pending for long enough, the longest first."""
        options = self.options
        rows = self.claimed_rows(context, key, stream, group, budget.limit(options.count))
        chunks: list[bytes] = []
        claimed: list[tuple[int, EntryId, int, int]] = []
        for row in rows:
            entry = live_entry(stream, row.origin, row.entry_id)
            assert entry is not None
            shown_entry = with_history(entry, idle_of(context, row), row.deliveries)
            if not budget.fits(len(shown_entry)):
                budget.close()
                break
            budget.spend(1, len(shown_entry))
            chunks.append(shown_entry)
            claimed.append((row.origin, row.entry_id, context.now_ms, more_deliveries(row.deliveries)))
        if claimed:
            attend(context, key, options.group, options.consumer)
            context.replica.record(PendingClaimed(key, options.group, options.consumer, claimed))
            group.deliveries += len(claimed)
            group.touch(options.consumer, context.now_ms).active_ms = context.now_ms
        return chunks

    def claimed_rows(self, context: Context, key: Key, stream: Stream, group: Group, limit: int) -> list[PendingRow]:
        """What may be taken over; what was delivered too often becomes a dead letter."""
        rows = claimable_rows(context, stream, group, self.options.claim_ms, limit)
        if group.rules.ordered and len(rows) < claimable(stream, group):
            return []
        if group.rules.deliveries_max != NO_LIMIT:
            rows, moved = without_poison(context, key, self.options.group, stream, group, rows)
            self.retry_after_ms = RETRY_MS_MIN if moved else self.retry_after_ms
        is_more = 0 <= limit < len(rows)
        if group.rules.ordered and is_more:
            return []
        return rows[:limit] if is_more else rows

    def read_history(
        self, context: Context, key: Key, stream: Stream, group: Group, after: EntryId, budget: ReplyBudget
    ) -> tuple[int, list[bytes]]:
        """What this consumer holds above an ID; a deleted entry is shown as its ID without fields."""
        options = self.options
        attend(context, key, options.group, options.consumer)
        budget.spend(0, len(stream_header(key[1], 1, self.client.protocol)))
        start = next_id(after)
        assert start is not None
        chunks: list[bytes] = []
        delivered: list[tuple[int, EntryId, int, int]] = []
        for row in group.pending.rows(start, ID_MAX, budget.limit(options.count), options.consumer):
            if group.withholds(row.origin):
                continue
            entry = live_entry(stream, row.origin, row.entry_id)
            chunk = deleted_entry(row.entry_id, self.client.protocol) if entry is None else entry
            if not budget.fits(len(chunk)):
                budget.close()
                break
            budget.spend(1, len(chunk))
            chunks.append(chunk)
            if entry is not None:
                # With a limit, what counts is claims: restarts are no fault of an entry.
                deliveries = row.deliveries if group.rules.deliveries_max else more_deliveries(row.deliveries)
                delivered.append((row.origin, row.entry_id, context.now_ms, deliveries))
        if delivered:
            # As in Redis, a read of the history is no change since the last save.
            context.replica.record_unchanged(PendingClaimed(key, options.group, options.consumer, delivered))
            group.deliveries += len(delivered)
        return len(chunks), chunks

    def retry_ms(self, context: Context) -> int:
        """When the first entry may have been pending for long enough: of those that are pending now, or of one that is
        delivered from now on.
        """
        claim_ms = self.options.claim_ms
        if claim_ms == NO_CLAIM or NEW not in self.after:
            return self.end_ms
        retry_ms = context.now_ms + claim_ms
        for key in self.keys:
            stream = context.replica.keyspace.find(key)
            group = None if stream is None else stream.groups.get(self.options.group)
            oldest = None if stream is None or group is None else oldest_ms(stream, group)
            if oldest is not None:
                retry_ms = min(retry_ms, oldest + claim_ms)
        is_overdue = retry_ms <= context.now_ms
        retry_ms = max(retry_ms, context.now_ms + self.retry_after_ms)
        self.retry_after_ms = min(2 * self.retry_after_ms, RETRY_MS_MAX) if is_overdue else RETRY_MS_MIN
        return retry_ms if self.end_ms == NO_DEADLINE else min(retry_ms, self.end_ms)

    def expired(self, context: Context) -> bytes:
        return replies.null_array(self.client.protocol)


def demand_read(
    context: Context, stream: Stream, group: Group, after: EntryId, options: ReadOptions, reads: int
) -> None:
    """Have the blocks read for so many reads of this group, each of which goes on behind the one before."""
    start, limit = next_id(after), ReplyBudget(options).limit(options.count) * reads
    if after == NEW:
        if options.claim_ms != NO_CLAIM:
            claimable_rows(context, stream, group, options.claim_ms, limit)
        if group.rules.ordered:
            is_held_by_others(stream, group, options.consumer)
            if options.claim_ms != NO_CLAIM:
                claimable(stream, group)
        group.next_entries(stream.chains, limit)
    elif start is not None:
        stream.demand([row.entry_id for row in group.pending.rows(start, ID_MAX, limit, options.consumer)])


def readable(context: Context, key: Key, name: bytes) -> tuple[Stream, Group]:
    stream = context.look_up(key)
    group = None if stream is None else stream.groups.get(name)
    if stream is None or group is None:
        raise CommandError(
            f"NOGROUP No such key '{shown(key[1])}' or consumer group '{shown(name)}' in XREADGROUP with GROUP option"
        )
    return stream, group


def deleted_entry(entry_id: EntryId, protocol: int) -> bytes:
    return replies.array([replies.bulk(format_id(entry_id)), replies.null_array(protocol)])


def xreadgroup(context: Context, client: Client, argv: list[bytes]) -> Reply:
    options = parse_read(argv, context.now_ms, "xreadgroup")
    keys: list[Key] = []
    after: list[EntryId] = []
    found: list[tuple[Stream, Group]] = []
    for i, name in enumerate(options.keys):
        key = (client.database, name)
        found.append(readable(context, key, options.group))
        keys.append(key)
        after.append(read_after(options.ids[i]))
    # Redis looks each key up once more to read it, and counts that.
    context.statistics.hits += len(found)
    reader = GroupReader(client, options, keys, after)
    reply = reader.read(context, found)
    if reply is None:
        if not options.blocking:
            return replies.null_array(client.protocol)
        reader.deadline_ms = reader.retry_ms(context)
        context.park(reader)
    return reply


def read_after(text: bytes) -> EntryId:
    if text == NEW_TEXT:
        return NEW
    if text in (b"$", b"+"):
        sign = shown(text)
        raise CommandError(
            f"ERR The {sign} ID is meaningless in the context of XREADGROUP: you want to read the history of this"
            " consumer by specifying a proper ID, or use the > ID to get new messages."
            f" The {sign} ID would just return an empty result set."
        )
    return arguments.parse_entry_id(text)


COMMANDS: list[Command] = [
    Command(
        "xreadgroup",
        xreadgroup,
        arity=-7,
        flags="write blocking",
        keys=keys_after("STREAMS", 4, "RO access", READ_OPTIONS),
        since="5.0.0",
        group="stream",
        summary="Returns new or historical messages from a stream for a consumer in a group.",
        syntax=(
            "GROUP group-block:(group consumer) [COUNT count#] [MAXCOUNT maxcount#@8.10.0] [MAXSIZE maxsize#@8.10.0]"
            " [BLOCK milliseconds#] [CLAIM min-idle-time#@8.4.0] [NOACK] STREAMS streams:(key... id...)"
        ),
    ),
]
