"""Expiry of keys: EXPIRE PEXPIRE EXPIREAT PEXPIREAT set it, TTL PTTL EXPIRETIME PEXPIRETIME return it, PERSIST removes
it.

An expiry is replicated as an absolute time. Of concurrent expiries the longest wins, and PERSIST beats all of them; an
expiry in the past is a DEL. A key exists up to and including its time, and not after it.

Reference: `expire.c` of Redis.
"""

from __future__ import annotations

from crdtstream.commands.integers import I64_MAX, integer
from crdtstream.connections.client import Client
from crdtstream.connections.command import Command, keys_at
from crdtstream.connections.context import CommandError, Context, Reply, shown
from crdtstream.core.streams.expiry import NO_EXPIRY
from crdtstream.core.streams.stream import Stream
from crdtstream.protocols import replies

SECOND_MS = 1000
NX_ALONE = "ERR NX and XX, GT or LT options at the same time are not compatible"
GT_OR_LT = "ERR GT and LT options at the same time are not compatible"
ABSENT = replies.integer(-2)
PERSISTENT = replies.integer(-1)
CONDITIONS = (b"NX", b"XX", b"GT", b"LT")


def expire(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return expire_at(context, client, argv, context.now_ms, SECOND_MS, "expire")


def pexpire(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return expire_at(context, client, argv, context.now_ms, 1, "pexpire")


def expireat(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return expire_at(context, client, argv, 0, SECOND_MS, "expireat")


def pexpireat(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return expire_at(context, client, argv, 0, 1, "pexpireat")


def expire_at(context: Context, client: Client, argv: list[bytes], base_ms: int, unit_ms: int, name: str) -> Reply:
    conditions = conditions_of(argv)
    expires_ms = integer(argv[2]) * unit_ms
    if not -I64_MAX - 1 <= expires_ms <= I64_MAX - base_ms:
        raise CommandError(f"ERR invalid expire time in '{name}' command")
    expires_ms += base_ms
    key = (client.database, argv[1])
    stream = context.replica.keyspace.find(key)
    if stream is None or not allowed(conditions, expires_ms, stream.expires_ms):
        return replies.ZERO
    if expires_ms <= context.now_ms:
        context.replica.delete_stream(key)
    else:
        context.replica.set_expiry(key, expires_ms)
    return replies.ONE


def conditions_of(argv: list[bytes]) -> list[bytes]:
    conditions = [word.upper() for word in argv[3:]]
    for i, condition in enumerate(conditions, 3):
        if condition not in CONDITIONS:
            raise CommandError(f"ERR Unsupported option {shown(argv[i])}")
    if b"NX" in conditions and len(set(conditions)) > 1:
        raise CommandError(NX_ALONE)
    if b"GT" in conditions and b"LT" in conditions:
        raise CommandError(GT_OR_LT)
    return conditions


def allowed(conditions: list[bytes], expires_ms: int, current_ms: int) -> bool:
    """True if all conditions hold; a key without an expiry counts as never expiring."""
    for condition in conditions:
        if condition == b"NX":
            fits = current_ms == NO_EXPIRY
        elif condition == b"XX":
            fits = current_ms != NO_EXPIRY
        elif condition == b"GT":
            fits = expires_ms > current_ms
        else:
            fits = expires_ms < current_ms
        if not fits:
            return False
    return True


def persist(context: Context, client: Client, argv: list[bytes]) -> Reply:
    key = (client.database, argv[1])
    stream = context.replica.keyspace.find(key)
    if stream is None or stream.expires_ms == NO_EXPIRY:
        return replies.ZERO
    context.replica.set_expiry(key, NO_EXPIRY)
    return replies.ONE


# Returning times


def ttl(context: Context, client: Client, argv: list[bytes]) -> Reply:
    stream = context.replica.keyspace.peek((client.database, argv[1]))
    return time_reply(stream, context.now_ms, SECOND_MS)


def pttl(context: Context, client: Client, argv: list[bytes]) -> Reply:
    stream = context.replica.keyspace.peek((client.database, argv[1]))
    return time_reply(stream, context.now_ms, 1)


def expiretime(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return time_reply(context.replica.keyspace.peek((client.database, argv[1])), 0, SECOND_MS)


def pexpiretime(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return time_reply(context.replica.keyspace.peek((client.database, argv[1])), 0, 1)


def time_reply(stream: Stream | None, since_ms: int, unit_ms: int) -> bytes:
    """The reply of TTL and the like: the expiry relative to `since_ms`, rounded to the unit."""
    if stream is None:
        return ABSENT
    if stream.expires_ms == NO_EXPIRY:
        return PERSISTENT
    return replies.integer((stream.expires_ms - since_ms + unit_ms // 2) // unit_ms)


COMMANDS: list[Command] = [
    Command(
        "expire",
        expire,
        arity=-3,
        flags="write frees fast",
        keys=keys_at(1, "RW update"),
        since="1.0.0",
        group="generic",
        summary="Sets the expiration time of a key in seconds.",
        syntax="key seconds# [condition:<NX | XX | GT | LT>@7.0.0]",
    ),
    Command(
        "pexpire",
        pexpire,
        arity=-3,
        flags="write frees fast",
        keys=keys_at(1, "RW update"),
        since="2.6.0",
        group="generic",
        summary="Sets the expiration time of a key in milliseconds.",
        syntax="key milliseconds# [condition:<NX | XX | GT | LT>@7.0.0]",
    ),
    Command(
        "expireat",
        expireat,
        arity=-3,
        flags="write frees fast",
        keys=keys_at(1, "RW update"),
        since="1.2.0",
        group="generic",
        summary="Sets the expiration time of a key to a Unix timestamp.",
        syntax="key unix-time-seconds [condition:<NX | XX | GT | LT>@7.0.0]",
    ),
    Command(
        "pexpireat",
        pexpireat,
        arity=-3,
        flags="write frees fast",
        keys=keys_at(1, "RW update"),
        since="2.6.0",
        group="generic",
        summary="Sets the expiration time of a key to a Unix milliseconds timestamp.",
        syntax="key unix-time-milliseconds [condition:<NX | XX | GT | LT>@7.0.0]",
    ),
    Command(
        "persist",
        persist,
        arity=2,
        flags="write fast",
        keys=keys_at(1, "RW update"),
        since="2.2.0",
        group="generic",
        summary="Removes the expiration time of a key.",
        syntax="key",
    ),
    Command(
        "ttl",
        ttl,
        arity=2,
        flags="readonly fast",
        keys=keys_at(1, "RO access"),
        since="1.0.0",
        group="generic",
        summary="Returns the expiration time in seconds of a key.",
        syntax="key",
    ),
    Command(
        "pttl",
        pttl,
        arity=2,
        flags="readonly fast",
        keys=keys_at(1, "RO access"),
        since="2.6.0",
        group="generic",
        summary="Returns the expiration time in milliseconds of a key.",
        syntax="key",
    ),
    Command(
        "expiretime",
        expiretime,
        arity=2,
        flags="readonly fast",
        keys=keys_at(1, "RO access"),
        since="7.0.0",
        group="generic",
        summary="Returns the expiration time of a key as a Unix timestamp.",
        syntax="key",
    ),
    Command(
        "pexpiretime",
        pexpiretime,
        arity=2,
        flags="readonly fast",
        keys=keys_at(1, "RO access"),
        since="7.0.0",
        group="generic",
        summary="Returns the expiration time of a key as a Unix milliseconds timestamp.",
        syntax="key",
    ),
]
