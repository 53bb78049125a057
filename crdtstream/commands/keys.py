"""Commands on keys: DEL UNLINK EXISTS TOUCH TYPE OBJECT KEYS SCAN RANDOMKEY DBSIZE FLUSHDB FLUSHALL.

Every key is a stream. DEL removes what this region has seen and nothing else. FLUSHDB and FLUSHALL are a DEL of each
key that exists here, so an entry that another region adds concurrently survives. For all of them an expired key does
not exist; commands that delete keys delete it too.

RANDOMKEY derives its choice from the origin and a counter of draws, so a node's replies depend only on its inputs.

Reference: `db.c` of Redis.
"""

from __future__ import annotations

from hashlib import blake2b

from crdtstream.commands.integers import integer
from crdtstream.connections.client import Client
from crdtstream.connections.command import Command, help_row, keys_at, keys_from
from crdtstream.connections.context import CommandError, Context, Reply
from crdtstream.core.keyspace import DATABASES
from crdtstream.core.replica import Replica
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.entry_id import parse_u64
from crdtstream.protocols import replies
from crdtstream.protocols.glob import Token, matches, tokens_of

SYNTAX_ERROR = "ERR syntax error"
SCAN_COUNT = 10
STREAM_TYPE = b"stream"
SECOND_MS = 1000
DRAWS_MAX = 64
DRAW_END = 1 << 62
NO_FREQUENCY = (
    "ERR An LFU maxmemory policy is not selected, access frequency not tracked."
    " Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust."
)
ALL = b"*"


def delete(context: Context, client: Client, argv: list[bytes]) -> Reply:
    deleted = 0
    for name in argv[1:]:
        deleted += context.replica.delete_stream((client.database, name))
        context.replica.budget.ease()
    return replies.integer(deleted)


def exists(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """EXISTS: a key named twice counts twice."""
    found = [name for name in argv[1:] if context.replica.keyspace.peek((client.database, name)) is not None]
    return replies.integer(len(found))


def touch(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """TOUCH: like EXISTS, and marks the keys as used."""
    found = [name for name in argv[1:] if context.replica.keyspace.find((client.database, name)) is not None]
    return replies.integer(len(found))


def type_of(context: Context, client: Client, argv: list[bytes]) -> Reply:
    known = context.replica.keyspace.peek((client.database, argv[1])) is not None
    return replies.simple(STREAM_TYPE if known else b"none")


def keys(context: Context, client: Client, argv: list[bytes]) -> Reply:
    names = context.replica.keyspace.keys(client.database)
    if argv[1] != ALL:
        tokens = tokens_of(argv[1])
        names = [name for name in names if matches(tokens, name)]
    return replies.bulk_array(names)


def database_size(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return replies.integer(len(context.replica.keyspace.keys(client.database)))


def scan(context: Context, client: Client, argv: list[bytes]) -> Reply:
    cursor = cursor_of(argv[1])
    count, pattern, wanted = scan_options(argv[2:])
    following, names = context.replica.keyspace.orders[client.database].read(cursor, count)
    if wanted.lower() != STREAM_TYPE:
        names = []
    names = [name for name in names if context.replica.keyspace.peek((client.database, name)) is not None]
    if pattern is not None:
        names = [name for name in names if matches(pattern, name)]
    return replies.array([replies.bulk(b"%d" % following), replies.bulk_array(names)])


def cursor_of(text: bytes) -> int:
    cursor = parse_u64(text)
    if cursor is None:
        raise CommandError("ERR invalid cursor")
    return cursor


def scan_options(options: list[bytes]) -> tuple[int, list[Token] | None, bytes]:
    """Parse COUNT, MATCH and TYPE."""
    count, pattern, wanted = SCAN_COUNT, ALL, STREAM_TYPE
    for i in range(0, len(options), 2):
        option = options[i].upper()
        if i + 1 == len(options) or option not in (b"COUNT", b"MATCH", b"TYPE"):
            raise CommandError(SYNTAX_ERROR)
        if option == b"MATCH":
            pattern = options[i + 1]
        elif option == b"TYPE":
            wanted = options[i + 1]
        else:
            count = integer(options[i + 1])
            if count < 1:
                raise CommandError(SYNTAX_ERROR)
    return count, None if pattern == ALL else tokens_of(pattern), wanted


# RANDOMKEY


def random_key(context: Context, client: Client, argv: list[bytes]) -> Reply:
    order = context.replica.keyspace.orders[client.database]
    for _ in range(DRAWS_MAX if len(order) else 0):
        name = order.drawn(draw(context, DRAW_END))
        if name is not None and context.replica.keyspace.peek((client.database, name)) is not None:
            return replies.bulk(name)
    # Draws fail repeatedly only if most names belong to remembered or hidden keys: choose from the visible ones.
    names = context.replica.keyspace.keys(client.database)
    return replies.bulk(names[draw(context, len(names))]) if names else replies.null_bulk(client.protocol)


def draw(context: Context, count: int) -> int:
    """The next pseudo-random number in [0, count)."""
    context.draws += 1
    seed = b"%d %d" % (context.replica.applied.origin, context.draws)
    return int.from_bytes(blake2b(seed, digest_size=8).digest(), "big") % count


# OBJECT


def examined(context: Context, client: Client, name: bytes) -> Stream | None:
    """The stream; a miss counts, but is not told."""
    stream = context.replica.keyspace.peek((client.database, name))
    if stream is None:
        context.statistics.misses += 1
    else:
        context.statistics.hits += 1
    return stream


def object_encoding(context: Context, client: Client, argv: list[bytes]) -> Reply:
    known = examined(context, client, argv[2]) is not None
    return replies.bulk(STREAM_TYPE) if known else replies.null_bulk(client.protocol)


def object_references(context: Context, client: Client, argv: list[bytes]) -> Reply:
    known = examined(context, client, argv[2]) is not None
    return replies.ONE if known else replies.null_bulk(client.protocol)


def object_idle_time(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """Seconds since a command in this region last used the key, or since the start of the process."""
    stream = examined(context, client, argv[2])
    if stream is None:
        return replies.null_bulk(client.protocol)
    used_ms = max(stream.used_ms, context.clock.started_ms)
    return replies.integer(max(0, context.now_ms - used_ms) // SECOND_MS)


def object_frequency(context: Context, client: Client, argv: list[bytes]) -> Reply:
    if examined(context, client, argv[2]) is None:
        return replies.null_bulk(client.protocol)
    raise CommandError(NO_FREQUENCY)


# FLUSHDB and FLUSHALL


def flush_database(context: Context, client: Client, argv: list[bytes]) -> Reply:
    check_flush_option(argv)
    flush(context.replica, client.database)
    context.notifications.publish_prepared(quiet=True)
    return replies.OK


def flush_all(context: Context, client: Client, argv: list[bytes]) -> Reply:
    check_flush_option(argv)
    for database in range(DATABASES):
        flush(context.replica, database)
    context.notifications.publish_prepared(quiet=True)
    return replies.OK


def check_flush_option(argv: list[bytes]) -> None:
    """Accept ASYNC and SYNC, which in Redis select how memory is freed; they make no difference here."""
    if len(argv) > 2 or (len(argv) == 2 and argv[1].upper() not in (b"ASYNC", b"SYNC")):
        raise CommandError(SYNTAX_ERROR)


def flush(replica: Replica, database: int) -> None:
    for name in replica.keyspace.known_keys(database):
        replica.delete_stream((database, name))
        replica.budget.ease()


OBJECT = [
    Command(
        "object|encoding",
        object_encoding,
        arity=3,
        flags="readonly",
        counts_itself=True,
        keys=keys_at(2, "RO"),
        since="2.2.3",
        summary="Returns the internal encoding of a key.",
        syntax="key",
        help=(
            "ENCODING <key>",
            "    Return the kind of internal representation used in order to store the value",
            "    associated with a <key>.",
        ),
    ),
    Command(
        "object|freq",
        object_frequency,
        arity=3,
        flags="readonly",
        counts_itself=True,
        keys=keys_at(2, "RO"),
        since="4.0.0",
        summary="Returns the logarithmic access frequency counter of a key.",
        syntax="key",
        help=(
            "FREQ <key>",
            "    Return the access frequency index of the <key>. The returned integer is",
            "    proportional to the logarithm of the recent access frequency of the key.",
        ),
    ),
    help_row("object", since="6.2.0"),
    Command(
        "object|idletime",
        object_idle_time,
        arity=3,
        flags="readonly",
        counts_itself=True,
        keys=keys_at(2, "RO"),
        since="2.2.3",
        summary="Returns the time since the last access to a key.",
        syntax="key",
        help=(
            "IDLETIME <key>",
            "    Return the idle time of the <key>, that is the approximated number of",
            "    seconds elapsed since the last access to the key.",
        ),
    ),
    Command(
        "object|refcount",
        object_references,
        arity=3,
        flags="readonly",
        counts_itself=True,
        keys=keys_at(2, "RO"),
        since="2.2.3",
        summary="Returns the reference count of a value of a key.",
        syntax="key",
        help=(
            "REFCOUNT <key>",
            "    Return the number of references of the value associated with the specified",
            "    <key>.",
        ),
    ),
]
COMMANDS: list[Command] = [
    Command(
        "del",
        delete,
        arity=-2,
        flags="write frees",
        keys=keys_from(1, "RM delete"),
        since="1.0.0",
        group="generic",
        summary="Deletes one or more keys.",
        syntax="key...",
    ),
    Command(
        "unlink",
        delete,
        arity=-2,
        flags="write frees fast",
        keys=keys_from(1, "RM delete"),
        since="4.0.0",
        group="generic",
        summary="Deletes one or more keys.",
        syntax="key...",
    ),
    Command(
        "exists",
        exists,
        arity=-2,
        flags="readonly fast",
        keys=keys_from(1, "RO"),
        since="1.0.0",
        group="generic",
        summary="Determines whether one or more keys exist.",
        syntax="key...",
    ),
    Command(
        "touch",
        touch,
        arity=-2,
        flags="readonly fast",
        keys=keys_from(1, "RO"),
        since="3.2.1",
        group="generic",
        summary="Returns the number of existing keys and updates the time they were last accessed.",
        syntax="key...",
    ),
    Command(
        "type",
        type_of,
        arity=2,
        flags="readonly fast",
        keys=keys_at(1, "RO"),
        since="1.0.0",
        group="generic",
        summary="Determines the type of value stored at a key.",
        syntax="key",
    ),
    Command(
        "keys",
        keys,
        arity=2,
        flags="readonly",
        categories="keyspace dangerous",
        since="1.0.0",
        group="generic",
        summary="Returns all key names that match a pattern.",
        syntax="pattern",
    ),
    Command(
        "scan",
        scan,
        arity=-2,
        flags="readonly",
        since="2.8.0",
        group="generic",
        summary="Iterates over the key names in the database.",
        syntax="cursor# [MATCH pattern] [COUNT count#] [TYPE type@6.0.0]",
    ),
    Command(
        "randomkey",
        random_key,
        arity=1,
        flags="readonly",
        since="1.0.0",
        group="generic",
        summary="Returns a random key name from the database.",
    ),
    Command(
        "object",
        arity=-2,
        since="2.2.3",
        group="generic",
        summary="A container for object introspection commands.",
        subcommands=OBJECT,
    ),
    Command(
        "dbsize",
        database_size,
        arity=1,
        flags="readonly fast",
        categories="keyspace",
        since="1.0.0",
        group="server",
        summary="Returns the number of keys in the database.",
    ),
    Command(
        "flushdb",
        flush_database,
        arity=-1,
        flags="write frees",
        categories="keyspace dangerous",
        since="1.0.0",
        group="server",
        summary="Removes all keys from the current database.",
        syntax="[flush-type:<ASYNC@4.0.0 | SYNC@6.2.0>]",
    ),
    Command(
        "flushall",
        flush_all,
        arity=-1,
        flags="write frees",
        categories="keyspace dangerous",
        since="1.0.0",
        group="server",
        summary="Removes all keys from all databases.",
        syntax="[flush-type:<ASYNC@4.0.0 | SYNC@6.2.0>]",
    ),
]
