"""DUMP and RESTORE: a stream as Redis serialises it, with its groups, consumers and pending entries.

RESTORE keeps the IDs of the payload in every ID mode, as COPY does: the entries are written into the tree of this
region's origin, under the IDs that they had. So a payload restored in two regions at once gives each entry twice.

A group begins at the payload's last delivered ID, in all regions. Consumers, pending entries and producer records are
local, so they are restored in this region only. DUMP writes one entry for each ID, and what this region sees of groups.

Reference: `dumpCommand` and `restoreCommand` of Redis.
"""

from __future__ import annotations

from crdtstream.clients.client import Client
from crdtstream.clients.command import Command, keys_at
from crdtstream.clients.context import CommandError, Context, Reply
from crdtstream.clients.notifications import GENERIC
from crdtstream.commands.groups import require_admitted
from crdtstream.commands.idempotence import duration_s_of, entries_max_of, since_ms_of
from crdtstream.commands.integers import integer
from crdtstream.commands.renaming import require_copyable
from crdtstream.core.block import BLOCK_BYTES, BLOCK_ENTRIES, Block
from crdtstream.core.carrying import put_consumers, put_producers
from crdtstream.core.effects import Key, Position
from crdtstream.core.encoding import encode_entry, entry_fields
from crdtstream.core.entry_id import ID_MAX, ID_MIN
from crdtstream.core.group import Group
from crdtstream.core.idempotence import Producers
from crdtstream.core.merging import merge
from crdtstream.core.pending import Row
from crdtstream.core.replica import Replica
from crdtstream.core.stream import Stream
from crdtstream.protocols import replies
from crdtstream.protocols.listpack import DumpFault
from crdtstream.protocols.stream_dump import (
    Entry,
    GroupDump,
    PendingDump,
    ProducersDump,
    StreamDump,
    dumped,
    is_sound,
    restored,
)

SYNTAX_ERROR = "ERR syntax error"
FREQUENCY_MAX = 255

# DUMP


def dump(context: Context, client: Client, argv: list[bytes]) -> Reply:
    stream = context.replica.keyspace.peek((client.database, argv[1]))
    if stream is None:
        return replies.null_bulk(client.protocol)
    require_copyable(context, stream)
    found = dump_of(stream)
    if stream.producers is not None:
        found.producers = producers_dump(context, stream, stream.producers)
    return replies.bulk(dumped(found))


def dump_of(stream: Stream) -> StreamDump:
    """All but producers."""
    found = StreamDump()
    found.entries = entries_of(stream)
    found.last_id = stream.top
    found.max_deleted = stream.max_deleted()
    found.entries_added = max(stream.entries_added(), len(found.entries))
    found.groups = [group_dump(name, group) for name, group in sorted(stream.groups.items())]
    return found


def entries_of(stream: Stream) -> list[Entry]:
    """The entries, of those with one ID only the first."""
    found: list[Entry] = []
    for run in merge(stream.strands(ID_MIN, ID_MAX, -1, False), -1):
        for index in range(run.low, run.high):
            entry_id = run.block.id_at(index)
            if not found or found[-1][0] != entry_id:
                found.append((entry_id, entry_fields(run.block.entry(index))))
    return found


def producers_dump(context: Context, stream: Stream, producers: Producers) -> ProducersDump:
    found = ProducersDump(duration_s_of(context, stream), entries_max_of(context, stream))
    since_ms = since_ms_of(context, stream)
    found.records = [(producer, name, entry_id) for producer, name, entry_id, ms in producers.rows() if ms > since_ms]
    found.added, found.duplicates = producers.added, producers.duplicates
    return found


def group_dump(name: bytes, group: Group) -> GroupDump:
    found = GroupDump(name, group.last_delivered(), group.entries_read)
    for row in group.pending.rows(ID_MIN, ID_MAX, -1, None):
        if not found.pending or found.pending[-1].entry_id != row.entry_id:
            found.pending.append(PendingDump(row.entry_id, row.consumer, row.delivered_ms, row.deliveries))
    found.consumers = [(one, consumer.seen_ms, consumer.active_ms) for one, consumer in sorted(group.consumers.items())]
    return found


# RESTORE


class RestoreOptions:
    """`[REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]`."""

    __slots__ = ("absolute", "frequency", "idle_s", "replace")

    def __init__(self) -> None:
        self.replace = False
        self.absolute = False
        self.idle_s = -1
        self.frequency = -1

    def take(self, word: bytes, value: bytes | None) -> bool:
        """Take an option; returns whether it used the value."""
        if word == b"REPLACE":
            self.replace = True
        elif word == b"ABSTTL":
            self.absolute = True
        elif word == b"IDLETIME" and value is not None and self.frequency == -1:
            self.idle_s = integer(value)
            if self.idle_s < 0:
                raise CommandError("ERR Invalid IDLETIME value, must be >= 0")
            return True
        elif word == b"FREQ" and value is not None and self.idle_s == -1:
            self.frequency = integer(value)
            if not 0 <= self.frequency <= FREQUENCY_MAX:
                raise CommandError("ERR Invalid FREQ value, must be >= 0 and <= 255")
            return True
        else:
            raise CommandError(SYNTAX_ERROR)
        return False


def restore_options(argv: list[bytes]) -> RestoreOptions:
    options = RestoreOptions()
    at = 4
    while at < len(argv):
        value = argv[at + 1] if at + 1 < len(argv) else None
        at += 2 if options.take(argv[at].upper(), value) else 1
    return options


def restore(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """RESTORE key ttl payload [option ...]."""
    options = restore_options(argv)
    key = (client.database, argv[1])
    if not options.replace and context.replica.keyspace.find(key) is not None:
        raise CommandError("BUSYKEY Target key name already exists.")
    ttl_ms = integer(argv[2])
    if ttl_ms < 0:
        raise CommandError("ERR Invalid TTL value, must be >= 0")
    stream = stream_in(argv[3])
    require_importable(context, stream)
    expires_ms = ttl_ms if options.absolute or not ttl_ms else context.now_ms + ttl_ms
    if expires_ms and expires_ms <= context.now_ms:
        context.replica.delete_stream(key)
        return replies.OK
    write(context, key, stream)
    if expires_ms:
        context.replica.set_expiry(key, expires_ms)
    if options.idle_s >= 0:
        written_stream(context.replica, key).used_ms = context.now_ms - 1000 * options.idle_s
    context.notifications.note(GENERIC, b"restore", key)
    return replies.OK


def stream_in(payload: bytes) -> StreamDump:
    if not is_sound(payload):
        raise CommandError("ERR DUMP payload version or checksum are wrong")
    try:
        return restored(payload)
    except DumpFault as fault:
        raise CommandError("ERR Bad data format") from fault


def require_importable(context: Context, stream: StreamDump) -> None:
    entries_max, size_max = context.limits.copy_entries_max, context.limits.entry_bytes_max
    if len(stream.entries) > entries_max:
        raise CommandError(
            f"ERR the payload has {len(stream.entries)} entries; RESTORE accepts at most copy_entries_max ="
            f" {entries_max}: raise that limit, or trim the stream"
        )
    if any(sum(map(len, fields)) > size_max for _, fields in stream.entries):
        raise CommandError("ERR Elements are too large to be stored")
    if stream.groups:
        require_admitted(context)


def written_stream(replica: Replica, key: Key) -> Stream:
    stream = replica.keyspace.known(key)
    assert stream is not None, "what was restored does not exist"
    return stream


def write(context: Context, key: Key, stream: StreamDump) -> None:
    replica = context.replica
    replica.freshen(key)
    replica.delete_stream(key)
    if stream.entries:
        write_entries(replica, key, stream.entries)
    else:
        replica.count_add(key)
    last_id = max(stream.last_id, written_stream(replica, key).top)
    replica.set_id(key, last_id, stream.entries_added, None if stream.max_deleted == ID_MIN else stream.max_deleted)
    for group in stream.groups:
        write_group(replica, key, group, stream.entries_added)
    if stream.producers is not None:
        write_producers(context, key, stream.producers)


def write_entries(replica: Replica, key: Key, entries: list[Entry]) -> None:
    block = Block()
    counter = replica.applied.counter() + 1
    for entry_id, fields in entries:
        if block.count == BLOCK_ENTRIES or block.byte_count > BLOCK_BYTES:
            replica.add_block(key, block)
            block = Block()
        block.append(entry_id, counter, encode_entry(entry_id, fields))
        counter += 1
    replica.add_block(key, block)


def write_group(replica: Replica, key: Key, group: GroupDump, entries_added: int) -> None:
    """Create the group behind what it was delivered, then what is local: consumers, and pending entries as if claimed;
    those that were deleted stay pending, as in Redis.
    """
    replica.create_group(key, group.name, Position(group.last_id), min(group.entries_read, entries_added))
    slot = replica.applied.slot
    pending = [Row(row.entry_id, slot, row.consumer, row.delivered_ms, row.deliveries) for row in group.pending]
    put_consumers(replica, key, group.name, group.consumers, pending)


def write_producers(context: Context, key: Key, found: ProducersDump) -> None:
    """The records, as made when their entries were added; nothing if nobody ever added idempotently."""
    usual = (duration_s_of(context, None), entries_max_of(context, None))
    is_usual = (found.duration_s, found.entries_max) == usual
    if is_usual and not found.added and not found.records:
        return
    producers = Producers()
    if not is_usual:
        producers.duration_s, producers.entries_max = found.duration_s, found.entries_max
    for producer, name, entry_id in found.records:
        producers.record(producer, name, entry_id, min(entry_id[0], context.now_ms))
    producers.added, producers.duplicates = found.added, found.duplicates
    put_producers(context.replica, key, producers)


COMMANDS: list[Command] = [
    Command(
        "dump",
        dump,
        arity=2,
        flags="readonly",
        keys=keys_at(1, "RO access"),
        since="2.6.0",
        group="generic",
        summary="Returns a serialized representation of a stream, which Redis restores.",
        syntax="key",
    ),
    Command(
        "restore",
        restore,
        arity=-4,
        flags="write denyoom",
        categories="keyspace dangerous",
        keys=keys_at(1, "OW update"),
        since="2.6.0",
        group="generic",
        summary="Creates a stream from its serialized representation, as Redis 5.0 to 8.10 write it.",
        syntax=(
            "key ttl# serialized-value [REPLACE@3.0.0] [ABSTTL@5.0.0] [IDLETIME seconds#@5.0.0] [FREQ frequency#@5.0.0]"
        ),
    ),
]
