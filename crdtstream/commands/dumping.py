"""DUMP and RESTORE: a stream as Redis serialises it, with its groups, consumers and pending entries; both in slices of
`dump_slice_bytes`.

RESTORE keeps the IDs of the payload in every ID mode, as COPY does: the entries are written into the tree of this
region's origin, under the IDs that they had. So a payload restored in two regions at once gives each entry twice.

A group begins at the payload's last delivered ID, in all regions. Consumers, pending entries and producer records are
local, so they are restored in this region only. DUMP writes one entry for each ID, and what this region sees of groups.

DUMP writes the stream as it was in its first turn. RESTORE reads the payload into blocks, which become visible in its
last turn, all at once; what a payload may expand to is bounded before it is made. One RESTORE is under way at a time,
so that this bound holds for all of them together.

Reference: `dumpCommand` and `restoreCommand` of Redis.
"""

from __future__ import annotations

from array import array
from collections.abc import Generator, Iterator

from crdtstream.commands.fitting import require_restore_fit
from crdtstream.commands.idempotence import duration_s_of, entries_max_of, since_ms_of
from crdtstream.commands.integers import integer
from crdtstream.commands.renaming import require_copyable
from crdtstream.connections.admission import must_wait
from crdtstream.connections.client import Client
from crdtstream.connections.command import Command, keys_at
from crdtstream.connections.context import CommandError, Context, Reply, Work
from crdtstream.connections.notifications import GENERIC
from crdtstream.connections.slicing import begin, holder
from crdtstream.core.effects import Key, Position
from crdtstream.core.entries.block import BLOCK_BYTES, BLOCK_ENTRIES, Block
from crdtstream.core.entries.encoding import encode_entry, entry_fields
from crdtstream.core.entries.merging import BlockRange, merge
from crdtstream.core.entries.runs_ahead import RunsAhead
from crdtstream.core.group_copy import put_consumers, put_producers
from crdtstream.core.groups.group import Group
from crdtstream.core.groups.pending import PendingRow
from crdtstream.core.names.producers import Producers
from crdtstream.core.replica import Replica
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN, EntryId
from crdtstream.protocols import replies
from crdtstream.protocols.dump_writing import dumping
from crdtstream.protocols.listpack import DumpFault
from crdtstream.protocols.stream_dump import (
    BadFooter,
    DumpedEntry,
    DumpSink,
    GroupDump,
    PendingDump,
    ProducersDump,
    StreamDump,
    TooLarge,
    reading,
)
from crdtstream.status.availability import OOM

SYNTAX_ERROR = "ERR syntax error"
FREQUENCY_MAX = 255

# DUMP


def dump(context: Context, client: Client, argv: list[bytes]) -> Reply:
    stream = context.replica.keyspace.peek((client.database, argv[1]))
    if stream is None:
        return replies.null_bulk(client.protocol)
    require_copyable(context, stream)
    require_sendable(context, stream)
    found = dump_of(stream)
    if stream.producers is not None:
        found.producers = producers_dump(context, stream, stream.producers)
    return begin(context, client, Dumping(found, RunsAhead(runs_of(stream))))


def require_sendable(context: Context, stream: Stream) -> None:
    """No client can take a reply beyond its output limit, and none can send it back beyond that of an argument."""
    size = sum([tree.byte_count for tree in stream.trees.values()])
    limits = context.limits
    name = "output_bytes_max" if limits.output_bytes_max < limits.bulk_bytes_max else "bulk_bytes_max"
    size_max = min(limits.output_bytes_max, limits.bulk_bytes_max)
    if size > size_max:
        raise CommandError(
            f"ERR the stream has {size} bytes; DUMP accepts at most {name} = {size_max}: raise that limit, trim the"
            " stream, or use crdtstream export"
        )


class Dumping(Work):
    """A DUMP under way."""

    def __init__(self, stream: StreamDump, runs: RunsAhead) -> None:
        self.runs = runs
        self.steps = dumping(stream, entries_in(runs))
        self.payload: bytes | None = None

    def step(self, context: Context) -> bool:
        spent = 0
        while self.payload is None and spent < context.limits.dump_slice_bytes:
            self.runs.look_ahead()
            try:
                spent += next(self.steps)
            except StopIteration as end:
                self.payload = end.value
        return self.payload is not None

    def finish(self, context: Context, client: Client) -> bytes:
        assert self.payload is not None, "what is not finished has no payload"
        return replies.bulk(self.payload)

    def release(self) -> None:
        """Nothing is registered."""


def dump_of(stream: Stream) -> StreamDump:
    """All but entries and producers."""
    found = StreamDump()
    found.last_id = stream.top
    found.max_deleted = stream.max_deleted()
    found.entries_added = stream.entries_added()
    found.groups = [group_dump(name, group) for name, group in sorted(stream.groups.items())]
    return found


def runs_of(stream: Stream) -> list[BlockRange]:
    """The entries as they are now; the blocks may grow, shrink or be compressed afterwards."""
    return merge(stream.chain_ranges(ID_MIN, ID_MAX, -1, False), -1)


def entries_in(runs: RunsAhead) -> Iterator[DumpedEntry]:
    """Of those with one ID only the first."""
    last: EntryId = ID_MIN
    found = runs.next()
    while found is not None:
        block, low, high = found
        for index in range(low, high):
            entry_id = block.id_at(index)
            if entry_id != last:
                yield entry_id, entry_fields(block.entry(index))
            last = entry_id
        found = runs.next()


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

    def parse(self, word: bytes, value: bytes | None) -> bool:
        """Parse an option; returns whether it used the value."""
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
        at += 2 if options.parse(argv[at].upper(), value) else 1
    return options


def restore(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """RESTORE key ttl payload [option ...]."""
    options = restore_options(argv)
    key = (client.database, argv[1])
    require_free(context, key, options)
    ttl_ms = integer(argv[2])
    if ttl_ms < 0:
        raise CommandError("ERR Invalid TTL value, must be >= 0")
    return begin(context, client, Restoring(context, key, ttl_ms, argv[3], options))


def require_free(context: Context, key: Key, options: RestoreOptions) -> None:
    if not options.replace and context.replica.keyspace.find(key) is not None:
        raise CommandError("BUSYKEY Target key name already exists.")


class Restoring(Work):
    """A RESTORE under way."""

    def __init__(self, context: Context, key: Key, ttl_ms: int, payload: bytes, options: RestoreOptions) -> None:
        self.key = key
        self.ttl_ms = ttl_ms
        self.options = options
        self.filled = Filled(context.limits.copy_entries_max, context.limits.entry_bytes_max)
        self.payload = payload
        self.bytes_max = 0
        # What reads the payload, once it has begun.
        self.steps: Generator[int, None, StreamDump] | None = None
        self.stream: StreamDump | None = None
        # Why it cannot be done.
        self.error = ""

    def is_alone(self) -> bool:
        return True

    def has_begun(self) -> bool:
        return self.steps is not None

    def step(self, context: Context) -> bool:
        if self.steps is None:
            self.bytes_max = expansion_max(context)
            self.steps = reading(self.payload, self.filled, self.bytes_max)
        if context.standing.memory_short:
            self.give_up(OOM)
        spent = 0
        while self.stream is None and not self.error and spent < context.limits.dump_slice_bytes:
            try:
                spent += next(self.steps)
            except StopIteration as end:
                self.stream = end.value
            except CommandError as error:
                self.give_up(error.text)
            except DumpFault as fault:
                self.give_up(error_of(fault, self.bytes_max, context.replica.budget.bound()))
        return self.stream is not None or bool(self.error)

    def give_up(self, error: str) -> None:
        """Free what was read: this object lives until its client is served."""
        self.error = error
        self.filled.clear()
        self.stream = None
        if self.steps is not None:
            self.steps.close()

    def finish(self, context: Context, client: Client) -> bytes | None:
        """Write what was read, if it still may be written: turns have passed. With groups it waits for the admission of
        this origin.
        """
        stream = self.stream
        if stream is None:
            assert self.error, "what is not finished has neither a stream nor an error"
            raise CommandError(self.error)
        refused = context.standing.refusal(writes=True, denies_oom=True)
        if refused:
            raise CommandError(refused)
        require_free(context, self.key, self.options)
        if stream.groups and must_wait(context):
            return None
        self.put(context, stream)
        client.written_counter = context.replica.written()
        return replies.OK

    def release(self) -> None:
        """Nothing is registered."""

    def put(self, context: Context, stream: StreamDump) -> None:
        """Under its key; a payload that has expired only removes what was there."""
        key, ttl_ms = self.key, self.ttl_ms
        expires_ms = ttl_ms if self.options.absolute or not ttl_ms else context.now_ms + ttl_ms
        if expires_ms and expires_ms <= context.now_ms:
            context.replica.delete_stream(key)
            return
        require_restore_fit(context, key, self.filled.count, self.filled.byte_count(), stream)
        write(context, key, stream, self.filled)
        # Until the process is measured again, for those that come behind.
        context.about.memory_bytes += self.filled.byte_count()
        if expires_ms:
            context.replica.set_expiry(key, expires_ms)
        if self.options.idle_s >= 0:
            written_stream(context.replica, key).used_ms = context.now_ms - 1000 * self.options.idle_s
        context.notifications.publish_named(GENERIC, b"restore", key)


def error_of(fault: DumpFault, bytes_max: int, bound: str) -> str:
    if isinstance(fault, BadFooter):
        return "ERR DUMP payload version or checksum are wrong"
    if isinstance(fault, TooLarge):
        return (
            f"ERR the payload expands to more than the {bytes_max} bytes that {bound} and maxmemory allow: trim the"
            " stream where it comes from, or raise these limits"
        )
    return "ERR Bad data format"


def expansion_max(context: Context) -> int:
    """What a payload may become: a batch that every region takes, in memory that is free. If this one is inside EXEC,
    another one may hold some of that.
    """
    limits, batch_bytes = context.limits, context.replica.budget.limit
    if not limits.memory_bytes_max:
        return batch_bytes
    other = holder(context)
    held = other.filled.byte_count() if isinstance(other, Restoring) else 0
    return max(0, min(limits.memory_bytes_max - context.about.memory_bytes - held, batch_bytes))


class Filled(DumpSink):
    """The entries of a payload as the columns of blocks."""

    def __init__(self, entries_max: int, size_max: int) -> None:
        self._entries_max = entries_max
        self._size_max = size_max
        self.count = 0
        self._full: list[Columns] = []
        self._last = Columns()

    def add(self, entry_id: EntryId, fields: list[bytes]) -> None:
        self.count += 1
        if self.count > self._entries_max:
            raise CommandError(
                f"ERR the payload has more than {self._entries_max} entries; RESTORE accepts at most copy_entries_max ="
                f" {self._entries_max}: raise that limit, or trim the stream"
            )
        if sum([len(field) for field in fields]) > self._size_max:
            raise CommandError("ERR Elements are too large to be stored")
        if len(self._last.ms) == BLOCK_ENTRIES or self._last.byte_count > BLOCK_BYTES:
            self._last.close()
            self._full.append(self._last)
            self._last = Columns()
        self._last.add(entry_id, encode_entry(entry_id, fields))

    def byte_count(self) -> int:
        return sum([columns.byte_count for columns in [*self._full, self._last]])

    def clear(self) -> None:
        self._full.clear()
        self._last = Columns()

    def put(self, replica: Replica, key: Key) -> None:
        self._last.close()
        for columns in [*self._full, self._last] if self.count else []:
            replica.add_block(key, columns.block(replica.applied.counter() + 1))


class Columns:
    """What a block is made of, but for the counters, which are known once it is written."""

    __slots__ = ("_data", "_ends", "_entries", "byte_count", "ms", "seq")

    def __init__(self) -> None:
        self.byte_count = 0
        self.ms = array("Q")
        self.seq = array("Q")
        self._ends = array("Q")
        self._entries: list[bytes] = []
        self._data = b""

    def add(self, entry_id: EntryId, entry: bytes) -> None:
        self.byte_count += len(entry)
        self.ms.append(entry_id[0])
        self.seq.append(entry_id[1])
        self._ends.append(self.byte_count)
        self._entries.append(entry)

    def close(self) -> None:
        self._data = b"".join(self._entries)
        self._entries = []

    def block(self, counter: int) -> Block:
        return Block.of_columns(self.ms, self.seq, range(counter, counter + len(self.ms)), self._ends, self._data)


def written_stream(replica: Replica, key: Key) -> Stream:
    stream = replica.keyspace.known(key)
    assert stream is not None, "what was restored does not exist"
    return stream


def write(context: Context, key: Key, stream: StreamDump, filled: Filled) -> None:
    replica = context.replica
    replica.freshen(key)
    replica.delete_stream(key)
    filled.put(replica, key)
    if not stream.count:
        replica.count_add(key)
    last_id = max(stream.last_id, written_stream(replica, key).top)
    replica.set_id(key, last_id, stream.entries_added, None if stream.max_deleted == ID_MIN else stream.max_deleted)
    for group in stream.groups:
        write_group(replica, key, group, stream.entries_added)
    if stream.producers is not None:
        write_producers(context, key, stream.producers)


def write_group(replica: Replica, key: Key, group: GroupDump, entries_added: int) -> None:
    """Create the group behind what it was delivered, then what is local: consumers, and pending entries as if claimed;
    those that were deleted stay pending, as in Redis.
    """
    replica.create_group(key, group.name, Position(group.last_id), min(group.entries_read, entries_added))
    origin = replica.applied.origin
    pending = [
        PendingRow(row.entry_id, origin, row.consumer, row.delivered_ms, row.deliveries) for row in group.pending
    ]
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
