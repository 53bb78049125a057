"""XREADGROUP.

What readers do is local: deliveries and claims are recorded as local facts and never sent. A blocked reader looks its
groups up again each time it is woken, so it notices a group that was destroyed or created again meanwhile. The ID of a
history read is exclusive: `0` reads from the first pending entry.

Reference: `xreadCommand` of Redis.
"""

from __future__ import annotations

from crdtstream.clients.client import Client
from crdtstream.clients.command import Command, keys_after
from crdtstream.clients.context import CommandError, Context, Reply, Waiter, shown
from crdtstream.commands import arguments
from crdtstream.commands.groups import attend, live_entry
from crdtstream.commands.lag import entries_read_after
from crdtstream.commands.read_options import ReadOptions, parse_read
from crdtstream.commands.reading import stream_header, streams_header
from crdtstream.core import effects as fx
from crdtstream.core.effects import Key
from crdtstream.core.entry_id import ID_MAX, EntryId, format_id, next_id
from crdtstream.core.group import Group
from crdtstream.core.stream import Stream
from crdtstream.protocols import replies

# The ID of `>`; Redis also represents it by the highest ID.
NEW = ID_MAX


class GroupReader(Waiter):
    """An XREADGROUP; it is parked if it asks for new entries, found none and may block."""

    def __init__(self, client: Client, options: ReadOptions, keys: list[Key], after: list[EntryId]) -> None:
        super().__init__(client, keys, options.deadline_ms)
        self.options = options
        self.after = after

    def serve(self, context: Context) -> bytes | None:
        if not context.standing.writable:
            return None
        found = [readable(context, key, self.options.group) for key in self.keys]
        parts: list[bytes] = []
        streams = 0
        for i, (stream, group) in enumerate(found):
            key, after = self.keys[i], self.after[i]
            if after == NEW:
                count, chunks = self.read_new(context, key, stream, group)
            else:
                count, chunks = self.read_history(context, key, stream, group, after)
            if count or after != NEW:
                streams += 1
                parts.append(stream_header(key[1], count, self.client.protocol))
                parts += chunks
        if streams == 0:
            return None
        return streams_header(streams, self.client.protocol) + b"".join(parts)

    def read_new(self, context: Context, key: Key, stream: Stream, group: Group) -> tuple[int, list[bytes]]:
        options = self.options
        delivery = group.next_entries(stream.chains, options.count)
        if delivery.count == 0:
            attend(context, key, options.group, options.consumer)
            return 0, []
        if context.notifications.on:
            # A delivery creates its consumer too, and would not tell that.
            attend(context, key, options.group, options.consumer)
        read = entries_read_after(stream, group, delivery)
        context.replica.record(
            fx.EntriesDelivered(
                key, options.group, options.consumer, context.now_ms, delivery.intervals, options.noack, read
            )
        )
        return delivery.count, delivery.chunks

    def read_history(
        self, context: Context, key: Key, stream: Stream, group: Group, after: EntryId
    ) -> tuple[int, list[bytes]]:
        """What this consumer holds above an ID; a deleted entry is shown as its ID without fields."""
        options = self.options
        attend(context, key, options.group, options.consumer)
        start = next_id(after)
        assert start is not None
        chunks: list[bytes] = []
        delivered: list[tuple[int, EntryId, int, int]] = []
        rows = group.pending.rows(start, ID_MAX, options.count, options.consumer)
        for row in rows:
            entry = live_entry(stream, row.slot, row.entry_id)
            if entry is None:
                chunks.append(deleted_entry(row.entry_id, self.client.protocol))
            else:
                chunks.append(entry)
                delivered.append((row.slot, row.entry_id, context.now_ms, row.deliveries + 1))
        if delivered:
            context.replica.record(fx.PendingClaimed(key, options.group, options.consumer, delivered))
        return len(rows), chunks

    def expired(self, context: Context) -> bytes:
        return replies.null_array(self.client.protocol)


def readable(context: Context, key: Key, name: bytes) -> tuple[Stream, Group]:
    stream = context.replica.keyspace.find(key)
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
    for name, text in zip(options.keys, options.ids, strict=True):
        key = (client.database, name)
        readable(context, key, options.group)
        keys.append(key)
        after.append(read_after(text))
    reader = GroupReader(client, options, keys, after)
    reply = reader.serve(context)
    if reply is None:
        if not options.blocking:
            return replies.null_array(client.protocol)
        context.park(reader)
    return reply


def read_after(text: bytes) -> EntryId:
    if text == b">":
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
        keys=keys_after("STREAMS", 4, "RO access"),
        since="5.0.0",
        group="stream",
        summary="Returns new or historical messages from a stream for a consumer in a group.",
        syntax=(
            "GROUP group-block:(group consumer) [COUNT count#] [BLOCK milliseconds#] [NOACK] STREAMS"
            " streams:(key... id...)"
        ),
    ),
]
