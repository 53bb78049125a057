"""Commands on the connection and the server: PING ECHO HELLO AUTH QUIT RESET SELECT TIME ROLE.

Reference: `helloCommand`, `authCommand` and `resetCommand` of Redis.
"""

from __future__ import annotations

from crdtstream.commands.integers import integer
from crdtstream.connections.access import log_in, log_out
from crdtstream.connections.acl.users import DEFAULT
from crdtstream.connections.client import REPLIES_ON, Client
from crdtstream.connections.command import Command
from crdtstream.connections.context import CommandError, Context, Reply, shown
from crdtstream.connections.guard import deny
from crdtstream.core.keyspace import DATABASES
from crdtstream.protocols import replies

REDIS_VERSION = b"8.10.0"
NO_PASSWORD_SET = (
    "ERR AUTH <password> called without any password configured for the default user."
    " Are you sure your configuration is correct?"
)
HELLO_NOAUTH = (
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass>"
    " option can be used to authenticate the client and select the RESP protocol version at the same time"
)
BAD_NAME = "ERR Client names cannot contain spaces, newlines or special characters."


def ping(context: Context, client: Client, argv: list[bytes]) -> Reply:
    if len(argv) > 2:
        raise CommandError("ERR wrong number of arguments for 'ping' command")
    if client.subscribed and client.protocol == replies.RESP2:
        return replies.bulk_array([b"pong", argv[1] if len(argv) == 2 else b""])
    return replies.PONG if len(argv) == 1 else replies.bulk(argv[1])


def echo(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return replies.bulk(argv[1])


def select(context: Context, client: Client, argv: list[bytes]) -> Reply:
    database = integer(argv[1])
    if database != 0 and context.shards is not None:
        raise CommandError("ERR SELECT is not allowed in cluster mode")
    if not 0 <= database < DATABASES:
        raise CommandError("ERR DB index is out of range")
    client.database = database
    return replies.OK


def time(context: Context, client: Client, argv: list[bytes]) -> Reply:
    seconds, rest_ms = divmod(context.now_ms, 1000)
    return replies.bulk_array([b"%d" % seconds, b"%d" % (rest_ms * 1000)])


def close(context: Context, client: Client, argv: list[bytes]) -> Reply:
    context.close(client)
    return replies.OK


def reset(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """RESET: return to the state of a new connection."""
    context.end_transaction(client)
    context.pubsub.forget(client)
    context.monitors.pop(client.id, None)
    client.monitoring = False
    client.database = 0
    client.protocol = replies.RESP2
    client.name = b""
    client.reply_mode = REPLIES_ON
    client.no_evict = client.no_touch = False
    log_out(context, client)
    return replies.simple(b"RESET")


# Authentication


def authenticate(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """AUTH [user] password."""
    if len(argv) > 3:
        raise CommandError("ERR syntax error")
    if len(argv) == 2 and context.users.default.nopass:
        raise CommandError(NO_PASSWORD_SET)
    name = argv[1] if len(argv) == 3 else DEFAULT
    user = context.users.authenticate(name, argv[-1])
    if user is None:
        return deny(context, client, argv[0], name)
    log_in(context, client, user)
    return replies.OK


def hello(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """HELLO [protocol [AUTH user password] [SETNAME name]]."""
    protocol = client.protocol
    if len(argv) > 1:
        protocol = integer(argv[1], "ERR Protocol version is not an integer or out of range")
        if protocol not in (replies.RESP2, replies.RESP3):
            raise CommandError("NOPROTO unsupported protocol version")
    credentials, name = hello_options(argv)
    if credentials:
        user = context.users.authenticate(credentials[0], credentials[1])
        if user is None:
            return deny(context, client, argv[0], credentials[0])
        log_in(context, client, user)
    if not client.authenticated and context.users.requires_login():
        raise CommandError(HELLO_NOAUTH)
    if name is not None:
        client.name = name
    client.protocol = protocol
    return greeting(context, client)


def hello_options(argv: list[bytes]) -> tuple[list[bytes], bytes | None]:
    """The credentials (user and password, or empty if not given), and the name (None if not given)."""
    credentials: list[bytes] = []
    name: bytes | None = None
    at = 2
    while at < len(argv):
        option, more = argv[at].upper(), len(argv) - 1 - at
        if option == b"AUTH" and more >= 2:
            credentials = argv[at + 1 : at + 3]
            at += 3
        elif option == b"SETNAME" and more:
            name = argv[at + 1]
            check_name(name)
            at += 2
        else:
            raise CommandError(f"ERR Syntax error in HELLO option '{shown(argv[at])}'")
    return credentials, name


def check_name(name: bytes) -> None:
    if not printable(name):
        raise CommandError(BAD_NAME)


def printable(text: bytes) -> bool:
    """True if all bytes are printable ASCII other than space."""
    return all(b"!"[0] <= byte <= b"~"[0] for byte in text)


def greeting(context: Context, client: Client) -> bytes:
    items = [
        replies.bulk(b"server"),
        replies.bulk(b"redis"),
        replies.bulk(b"version"),
        replies.bulk(REDIS_VERSION),
        replies.bulk(b"proto"),
        replies.integer(client.protocol),
        replies.bulk(b"id"),
        replies.integer(client.id),
        replies.bulk(b"mode"),
        replies.bulk(b"standalone" if context.shards is None else b"cluster"),
        replies.bulk(b"role"),
        replies.bulk(b"master"),
        replies.bulk(b"modules"),
        replies.EMPTY_ARRAY,
    ]
    return replies.mapping(items, client.protocol)


def role(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """ROLE: a master without replicas, as clients and tools take each region; its offset as in INFO."""
    offset = replies.integer(context.replica.applied.counter())
    return replies.array([replies.bulk(b"master"), offset, replies.EMPTY_ARRAY])


COMMANDS: list[Command] = [
    Command(
        "ping",
        ping,
        arity=-1,
        flags="fast connection",
        since="1.0.0",
        group="connection",
        summary="Returns the server's liveliness response.",
        syntax="[message]",
    ),
    Command(
        "echo",
        echo,
        arity=2,
        flags="loading fast connection stale",
        since="1.0.0",
        group="connection",
        summary="Returns the given string.",
        syntax="message",
    ),
    Command(
        "hello",
        hello,
        arity=-1,
        flags="loading fast connection no_auth noscript stale allow_busy",
        since="6.0.0",
        group="connection",
        summary="Handshakes with the server.",
        syntax="[arguments:(protover# [AUTH auth:(username password)] [SETNAME clientname])]",
    ),
    Command(
        "auth",
        authenticate,
        arity=-2,
        flags="loading fast connection no_auth noscript stale allow_busy",
        since="1.0.0",
        group="connection",
        summary="Authenticates the connection.",
        syntax="[username@6.0.0] password",
    ),
    Command(
        "quit",
        close,
        arity=-1,
        flags="loading fast connection no_auth unqueued noscript stale allow_busy",
        since="1.0.0",
        group="connection",
        summary="Closes the connection.",
    ),
    Command(
        "reset",
        reset,
        arity=1,
        flags="loading fast connection no_auth unqueued noscript stale allow_busy",
        since="6.2.0",
        group="connection",
        summary="Resets the connection.",
    ),
    Command(
        "select",
        select,
        arity=2,
        flags="loading fast connection stale",
        since="1.0.0",
        group="connection",
        summary="Changes the selected database.",
        syntax="index#",
    ),
    Command(
        "time",
        time,
        arity=1,
        flags="loading fast stale",
        since="2.6.0",
        group="server",
        summary="Returns the server time.",
    ),
    Command(
        "role",
        role,
        arity=1,
        flags="noscript loading stale fast",
        categories="admin dangerous",
        since="2.8.12",
        group="server",
        summary="Returns the replication role: a master without replicas.",
    ),
]
