"""Idempotent adds: what IDMP and IDMPAUTO of XADD look up and record, XCFGSET, XIDMPRECORD.

The name of an add is replicated with it, so a repetition is recognised in every region that has the add; of adds that
regions made under one name at the same time one stays (core/names/register.py). While a region of the release before
belongs to the cluster, which cannot read names, an add is recorded as a local fact: a repetition is then recognised in
this region alone, as in that release. What XIDMPRECORD and XCFGSET say stays in their region.

Reference: `xaddCommand`, `xcfgsetCommand`, `xidmprecordCommand` of Redis 8.6.
"""

from __future__ import annotations

from hashlib import blake2b

from crdtstream.commands import arguments
from crdtstream.commands.adding import AddOptions
from crdtstream.commands.fitting import require_entry_fit
from crdtstream.commands.integers import integer
from crdtstream.connections.client import Client
from crdtstream.connections.command import Command, keys_at
from crdtstream.connections.context import CommandError, Context, Reply
from crdtstream.connections.minting import TOO_LARGE
from crdtstream.core.effects import Key
from crdtstream.core.formats import NAMES_FORMAT
from crdtstream.core.local_facts import ProducerRecorded, ProducersConfigured
from crdtstream.core.names.adding import add_named
from crdtstream.core.sizes import FIELD_BYTES
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.entry_id import EntryId
from crdtstream.protocols import replies

DURATION_S_MAX = 86_400
ENTRIES_MAX = 10_000
DIGEST_BYTES = 16
NO_KEY = "ERR no such key"


def duration_s_of(context: Context, stream: Stream | None) -> int:
    set_s = None if stream is None or stream.producers is None else stream.producers.duration_s
    return context.limits.stream_idmp_duration_s if set_s is None else set_s


def entries_max_of(context: Context, stream: Stream | None) -> int:
    set_max = None if stream is None or stream.producers is None else stream.producers.entries_max
    return context.limits.stream_idmp_entries_max if set_max is None else set_max


def since_ms_of(context: Context, stream: Stream | None) -> int:
    """What was recorded up to this time has expired."""
    return context.now_ms - duration_s_of(context, stream) * 1000


def added_before(context: Context, stream: Stream | None, producer: bytes, name: bytes) -> EntryId | None:
    """The entry that this producer added under this name; None if it did not, or too long ago."""
    if stream is None or stream.producers is None:
        return None
    return stream.producers.find(producer, name, since_ms_of(context, stream))


def add_once(context: Context, key: Key, entry_id: EntryId, fields: list[bytes], options: AddOptions) -> Reply:
    """Add an entry whose name is not known, or was known long ago."""
    require_addable(context, key, [*fields, options.producer, options.name])
    replica = context.replica
    if reads_names(context):
        return add_named(replica, key, entry_id, fields, (options.producer, options.name)) + replies.CRLF
    reply = replica.add_entry(key, entry_id, fields) + replies.CRLF
    record(context, key, options.producer, options.name, entry_id)
    return reply


def require_addable(context: Context, key: Key, parts: list[bytes]) -> None:
    """Raise if an entry of these fields, with its name, is too large."""
    size = sum(map(len, parts))
    if size > context.limits.entry_bytes_max:
        raise CommandError(TOO_LARGE)
    if size + FIELD_BYTES * len(parts) + len(key[1]) > context.replica.budget.small_bytes:
        require_entry_fit(context, key, parts)


def reads_names(context: Context) -> bool:
    """True if every region of the cluster can read names; if names are in use, others are not linked."""
    known = context.replica.applied.format_version
    return known >= NAMES_FORMAT or not context.cluster.neighbours.cannot_read(NAMES_FORMAT)


def record(context: Context, key: Key, producer: bytes, name: bytes, entry_id: EntryId) -> None:
    stream = context.replica.keyspace.find(key)
    since_ms, entries_max = since_ms_of(context, stream), entries_max_of(context, stream)
    fact = ProducerRecorded(key, producer, name, entry_id, context.now_ms, since_ms, entries_max)
    context.replica.record(fact)


def name_of_content(fields: list[bytes]) -> bytes:
    """The idempotent ID for IDMPAUTO: the same for the same fields and values in any order."""
    total = 0
    for at in range(0, len(fields), 2):
        field = fields[at]
        digest = blake2b(b"%d:%b%b" % (len(field), field, fields[at + 1]), digest_size=DIGEST_BYTES).digest()
        total += int.from_bytes(digest, "big")
    return (total % (1 << 8 * DIGEST_BYTES)).to_bytes(DIGEST_BYTES, "big")


def properties(context: Context, stream: Stream) -> list[bytes]:
    """The fields of XINFO STREAM."""
    producers = stream.producers
    tracked = (0, 0) if producers is None else producers.tracked(since_ms_of(context, stream))
    return [
        replies.bulk(b"idmp-duration"),
        replies.integer(duration_s_of(context, stream)),
        replies.bulk(b"idmp-maxsize"),
        replies.integer(entries_max_of(context, stream)),
        replies.bulk(b"pids-tracked"),
        replies.integer(tracked[0]),
        replies.bulk(b"iids-tracked"),
        replies.integer(tracked[1]),
        replies.bulk(b"iids-added"),
        replies.integer(0 if producers is None else producers.added),
        replies.bulk(b"iids-duplicates"),
        replies.integer(0 if producers is None else producers.duplicates),
    ]


# XCFGSET


class ProducerOptions:
    """`[IDMP-DURATION seconds] [IDMP-MAXSIZE entries]`, at least one of them."""

    __slots__ = ("duration_s", "entries_max")

    def __init__(self, argv: list[bytes]) -> None:
        self.duration_s: int | None = None
        self.entries_max: int | None = None
        for at in range(2, len(argv), 2):
            if at + 1 == len(argv):
                raise CommandError(arguments.SYNTAX)
            self._parse_option(argv[at].upper(), argv[at + 1])
        # Not by the attributes: compiled, they count as None until the end of this method.
        if len(argv) == 2:
            raise CommandError("ERR At least one parameter must be specified")

    def _parse_option(self, word: bytes, value: bytes) -> None:
        if word == b"IDMP-DURATION":
            if self.duration_s is not None:
                raise CommandError("ERR IDMP-DURATION specified multiple times")
            # Checked as a local: compiled, the attribute counts as None until the end of the branch.
            seconds = integer(value)
            if not 1 <= seconds <= DURATION_S_MAX:
                raise CommandError(f"ERR IDMP-DURATION must be between 1 and {DURATION_S_MAX} seconds")
            self.duration_s = seconds
        elif word == b"IDMP-MAXSIZE":
            if self.entries_max is not None:
                raise CommandError("ERR IDMP-MAXSIZE specified multiple times")
            entries = integer(value)
            if not 1 <= entries <= ENTRIES_MAX:
                raise CommandError(f"ERR IDMP-MAXSIZE must be between 1 and {ENTRIES_MAX} entries")
            self.entries_max = entries
        else:
            raise CommandError(arguments.SYNTAX)


def xcfgset(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """A value that changes clears what is recorded."""
    key = (client.database, argv[1])
    stream = context.replica.keyspace.find(key)
    if stream is None:
        raise CommandError(NO_KEY)
    options = ProducerOptions(argv)
    duration_s, entries_max = duration_s_of(context, stream), entries_max_of(context, stream)
    wanted_s = duration_s if options.duration_s is None else options.duration_s
    wanted_max = entries_max if options.entries_max is None else options.entries_max
    if (wanted_s, wanted_max) != (duration_s, entries_max):
        context.replica.record(ProducersConfigured(key, wanted_s, wanted_max))
    return replies.OK


# XIDMPRECORD


def xidmprecord(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """XIDMPRECORD key pid iid id: restore a record."""
    producer, name, entry_id = argv[2], argv[3], arguments.parse_entry_id(argv[4])
    if not producer:
        raise CommandError("ERR producer ID must be non-empty")
    if not name:
        raise CommandError("ERR idempotent ID must be non-empty")
    key = (client.database, argv[1])
    stream = context.replica.keyspace.find(key)
    if stream is None:
        raise CommandError(NO_KEY)
    if not stream.origins_holding(entry_id):
        raise CommandError("ERR No such message in stream")
    known = added_before(context, stream, producer, name)
    if known is not None and known != entry_id:
        raise CommandError("ERR IID already exists for this producer with a different stream ID")
    if known is None:
        record(context, key, producer, name, entry_id)
    return replies.OK


COMMANDS: list[Command] = [
    Command(
        "xcfgset",
        xcfgset,
        arity=-2,
        flags="write fast",
        keys=keys_at(1, "RW update"),
        since="8.6.0",
        group="stream",
        summary="Sets the IDMP configuration parameters for a stream.",
        syntax="key [IDMP-DURATION duration#] [IDMP-MAXSIZE maxsize#]",
    ),
    Command(
        "xidmprecord",
        xidmprecord,
        arity=5,
        flags="write fast",
        keys=keys_at(1, "RW update"),
        since="8.6.2",
        group="stream",
        summary="An internal command for setting IDMP metadata on a stream message.",
        syntax="key pid iid stream-id",
    ),
]
