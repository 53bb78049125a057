"""CLIENT: list and name connections, and close or unblock other clients.

A client is closed through the context, and the node performs that after the turn; the reply to an unblocked client goes
to the outbox.

Reference: `clientCommand` of Redis.
"""

from __future__ import annotations

from crdtstream.commands.integers import I64_MAX, integer
from crdtstream.commands.server import check_name, printable
from crdtstream.connections.acl.user import User
from crdtstream.connections.client import REPLIES_OFF, REPLIES_ON, REPLIES_SKIP_NEXT, Client
from crdtstream.connections.command import Command, help_row
from crdtstream.connections.context import CommandError, Context, Reply, shown
from crdtstream.connections.description import line_of
from crdtstream.connections.slicing import is_at_work
from crdtstream.protocols import replies
from crdtstream.status.availability import PAUSED_ALL, PAUSED_WRITES

SECOND_MS = 1000
SYNTAX_ERROR = "ERR syntax error"
UNBLOCKED = b"UNBLOCKED client unblocked via CLIENT UNBLOCK"
TYPES = (b"normal", b"master", b"replica", b"slave", b"pubsub")
NORMAL = TYPES[0]
PUBSUB = TYPES[4]
REPLY_MODES = {b"ON": REPLIES_ON, b"OFF": REPLIES_OFF, b"SKIP": REPLIES_SKIP_NEXT}


def client_id(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return replies.integer(client.id)


def get_name(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return replies.bulk(client.name) if client.name else replies.null_bulk(client.protocol)


def set_name(context: Context, client: Client, argv: list[bytes]) -> Reply:
    check_name(argv[2])
    client.name = argv[2]
    return replies.OK


def set_info(context: Context, client: Client, argv: list[bytes]) -> Reply:
    option = argv[2].upper()
    if option not in (b"LIB-NAME", b"LIB-VER"):
        raise CommandError(f"ERR Unrecognized option '{shown(argv[2])}'")
    if not printable(argv[3]):
        raise CommandError(f"ERR {shown(argv[2])} cannot contain spaces, newlines or special characters.")
    if option == b"LIB-NAME":
        client.lib_name = argv[3]
    else:
        client.lib_version = argv[3]
    return replies.OK


def set_no_evict(context: Context, client: Client, argv: list[bytes]) -> Reply:
    client.no_evict = switch(argv[2])
    return replies.OK


def set_no_touch(context: Context, client: Client, argv: list[bytes]) -> Reply:
    client.no_touch = switch(argv[2])
    return replies.OK


def switch(text: bytes) -> bool:
    if text.upper() not in (b"ON", b"OFF"):
        raise CommandError(SYNTAX_ERROR)
    return text.upper() == b"ON"


def set_reply_mode(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """CLIENT REPLY. Dispatch suppresses the replies, including the one to this command unless the mode is ON."""
    mode = REPLY_MODES.get(argv[2].upper())
    if mode is None:
        raise CommandError(SYNTAX_ERROR)
    client.reply_mode = mode
    return replies.OK


# LIST and INFO


def list_clients(context: Context, client: Client, argv: list[bytes]) -> Reply:
    lines = [line_of(context.now_ms, one) + b"\n" for one in chosen(context, argv)]
    return replies.verbatim(b"".join(lines), client.protocol)


def chosen(context: Context, argv: list[bytes]) -> list[Client]:
    """The clients that [TYPE type | ID id ...] selects, in the order in which they connected."""
    everyone = list(context.clients.values())
    if len(argv) == 2:
        return everyone
    option = argv[2].upper()
    if option == b"TYPE" and len(argv) == 4:
        wanted_type = type_named(argv[3])
        return [one for one in everyone if type_of(one) == wanted_type]
    if option == b"ID" and len(argv) > 3:
        wanted = [integer(text, "ERR Invalid client ID") for text in argv[3:]]
        return [context.clients[one] for one in wanted if one in context.clients]
    raise CommandError(SYNTAX_ERROR)


def type_named(text: bytes) -> bytes:
    if text.lower() not in TYPES:
        raise CommandError(f"ERR Unknown client type '{shown(text)}'")
    return text.lower()


def type_of(client: Client) -> bytes:
    return PUBSUB if client.subscribed else NORMAL


def show_self(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return replies.verbatim(line_of(context.now_ms, client) + b"\n", client.protocol)


# KILL and UNBLOCK


class Filter:
    """Which clients CLIENT KILL closes; None means any."""

    __slots__ = ("address", "age_s", "id", "kind", "local_address", "skips_caller", "user")

    def __init__(self) -> None:
        self.address: str | None = None
        self.local_address: str | None = None
        self.id: int | None = None
        self.age_s = 0
        self.kind: bytes | None = None
        self.user: User | None = None
        self.skips_caller = True

    def matches(self, client: Client, caller: Client, now_ms: int) -> bool:
        if client is caller and self.skips_caller:
            return False
        if self.kind is not None and type_of(client) != self.kind:
            return False
        if now_ms - client.connected_ms < self.age_s * SECOND_MS:
            return False
        if self.address is not None and client.address != self.address:
            return False
        if self.local_address is not None and client.local_address != self.local_address:
            return False
        if self.user is not None and client.user is not self.user:
            return False
        return self.id is None or client.id == self.id


def kill(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """CLIENT KILL. The old form gives one address and may close the caller; the new form gives filters and returns a
    count.
    """
    if len(argv) == 3:
        wanted = Filter()
        wanted.address, wanted.skips_caller = shown(argv[2]), False
        if not kill_matching(context, client, wanted):
            raise CommandError("ERR No such client")
        return replies.OK
    return replies.integer(kill_matching(context, client, parse_filter(context, argv)))


def parse_filter(context: Context, argv: list[bytes]) -> Filter:
    wanted = Filter()
    for i in range(2, len(argv), 2):
        if i + 1 == len(argv):
            raise CommandError(SYNTAX_ERROR)
        add_filter(context, wanted, argv[i].upper(), argv[i + 1])
    return wanted


def add_filter(context: Context, wanted: Filter, option: bytes, value: bytes) -> None:
    if option == b"ID":
        wanted.id = integer(value, "ERR client-id should be greater than 0")
        if wanted.id < 1:
            raise CommandError("ERR client-id should be greater than 0")
    elif option == b"MAXAGE":
        wanted.age_s = integer(value, "ERR maxage is not an integer or out of range")
        if wanted.age_s < 1:
            raise CommandError("ERR maxage should be greater than 0")
    elif option == b"TYPE":
        wanted.kind = type_named(value)
    elif option == b"ADDR":
        wanted.address = shown(value)
    elif option == b"LADDR":
        wanted.local_address = shown(value)
    elif option == b"USER":
        wanted.user = context.users.get(value)
        if wanted.user is None:
            raise CommandError(f"ERR No such user '{shown(value)}'")
    elif option == b"SKIPME" and value.upper() in (b"YES", b"NO"):
        wanted.skips_caller = value.upper() == b"YES"
    else:
        raise CommandError(SYNTAX_ERROR)


def kill_matching(context: Context, caller: Client, wanted: Filter) -> int:
    killed = 0
    for client in context.clients.values():
        if wanted.matches(client, caller, context.now_ms) and not client.dropped:
            if client is caller:
                context.close(client)
            else:
                context.drop(client)
            killed += 1
    return killed


def wrong_arguments(subcommand: bytes) -> str:
    return f"ERR unknown subcommand or wrong number of arguments for '{shown(subcommand)}'. Try CLIENT HELP."


def unblock(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """UNBLOCK id [TIMEOUT|ERROR]: end a wait as its timeout would, or with an error; a command that takes several turns
    does not wait for anything.
    """
    if len(argv) > 4:
        raise CommandError(wrong_arguments(argv[1]))
    how = argv[3].upper() if len(argv) == 4 else b"TIMEOUT"
    if how not in (b"TIMEOUT", b"ERROR"):
        raise CommandError("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
    other = context.clients.get(integer(argv[2]))
    if other is None or is_at_work(context, other):
        return replies.ZERO
    waiter = context.unpark(other)
    if waiter is None:
        return replies.ZERO
    reply = replies.error(UNBLOCKED) if how == b"ERROR" else waiter.expired(context)
    context.outbox.append((waiter.client, reply))
    return replies.ONE


# PAUSE and UNPAUSE


def pause(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """PAUSE timeout [WRITE|ALL]."""
    if len(argv) > 4:
        raise CommandError(wrong_arguments(argv[1]))
    modes = {b"WRITE": PAUSED_WRITES, b"ALL": PAUSED_ALL}
    paused = modes.get(argv[3].upper() if len(argv) == 4 else b"ALL")
    if paused is None:
        raise CommandError("ERR CLIENT PAUSE mode must be WRITE or ALL")
    context.pause.begin(context.now_ms + pause_ms(context, argv[2]), paused, context.now_ms)
    return replies.OK


def pause_ms(context: Context, text: bytes) -> int:
    timeout_ms = integer(text, "ERR timeout is not an integer or out of range")
    if timeout_ms < 0:
        raise CommandError("ERR timeout is negative")
    if timeout_ms > I64_MAX - context.now_ms:
        raise CommandError("ERR timeout is out of range")
    return timeout_ms


def unpause(context: Context, client: Client, argv: list[bytes]) -> Reply:
    context.pause.end()
    return replies.OK


CLIENT = [
    Command(
        "client|getname",
        get_name,
        arity=2,
        flags="loading connection noscript stale",
        since="2.6.9",
        summary="Returns the name of the connection.",
        help=("GETNAME", "    Return the name of the current connection."),
    ),
    help_row("client", since="5.0.0", flags="loading stale connection"),
    Command(
        "client|id",
        client_id,
        arity=2,
        flags="loading connection noscript stale",
        since="5.0.0",
        summary="Returns the unique client ID of the connection.",
        help=("ID", "    Return the ID of the current connection."),
    ),
    Command(
        "client|info",
        show_self,
        arity=2,
        flags="loading connection noscript stale",
        since="6.2.0",
        summary="Returns information about the connection.",
        help=("INFO", "    Return information about the current client connection."),
    ),
    Command(
        "client|kill",
        kill,
        arity=-3,
        flags="admin loading connection noscript stale",
        since="2.4.0",
        summary="Terminates open connections.",
        syntax=(
            "filter:<old-format=ip:port!2.8.12 | new-format:<[ID client-id#@2.8.12] | [TYPE client-type:<NORMAL |"
            " MASTER@3.2.0 | SLAVE | REPLICA@5.0.0 | PUBSUB>@2.8.12] | [USER username] | [ADDR addr=ip:port] |"
            " [LADDR laddr=ip:port@6.2.0] | [SKIPME skipme:<YES | NO>] | [MAXAGE maxage#@7.4.0]>...>"
        ),
        help=(
            "KILL <ip:port>",
            "    Kill connection made from <ip:port>.",
            "KILL <option> <value> [<option> <value> [...]]",
            "    Kill connections. Options are:",
            "    * ADDR (<ip:port>|<unixsocket>:0)",
            "      Kill connections made from the specified address",
            "    * LADDR (<ip:port>|<unixsocket>:0)",
            "      Kill connections made to specified local address",
            "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
            "      Kill connections by type.",
            "    * USER <username>",
            "      Kill connections authenticated by <username>.",
            "    * SKIPME (YES|NO)",
            "      Skip killing current connection (default: yes).",
            "    * ID <client-id>",
            "      Kill connections by client id.",
            "    * MAXAGE <maxage>",
            "      Kill connections older than the specified age.",
        ),
    ),
    Command(
        "client|list",
        list_clients,
        arity=-2,
        flags="admin loading connection noscript stale",
        since="2.4.0",
        summary="Lists open connections.",
        syntax="[TYPE client-type:<NORMAL | MASTER | REPLICA | PUBSUB>@5.0.0] [ID client-id#@6.2.0...]",
        help=(
            "LIST [options ...]",
            "    Return information about client connections. Options:",
            "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
            "      Return clients of specified type.",
        ),
    ),
    Command(
        "client|no-evict",
        set_no_evict,
        arity=3,
        flags="admin loading connection noscript stale",
        since="7.0.0",
        summary="Accepted and shown; nothing is evicted.",
        syntax="enabled:<ON | OFF>",
        help=("NO-EVICT (ON|OFF)", "    Protect current client connection from eviction."),
    ),
    Command(
        "client|no-touch",
        set_no_touch,
        arity=3,
        flags="loading connection noscript stale",
        since="7.2.0",
        summary="Accepted and shown.",
        syntax="enabled:<ON | OFF>",
        help=("NO-TOUCH (ON|OFF)", "    Will not touch LRU/LFU stats when this mode is on."),
    ),
    Command(
        "client|pause",
        pause,
        arity=-3,
        flags="admin loading connection noscript stale",
        since="3.0.0",
        summary="Suspends commands processing.",
        syntax="timeout# [mode:<WRITE | ALL>@6.2.0]",
        help=(
            "PAUSE <timeout> [WRITE|ALL]",
            "    Suspend all, or just write, clients for <timeout> milliseconds.",
        ),
    ),
    Command(
        "client|reply",
        set_reply_mode,
        arity=3,
        flags="loading connection noscript stale",
        since="3.2.0",
        summary="Instructs the server whether to reply to commands.",
        syntax="action:<ON | OFF | SKIP>",
        help=("REPLY (ON|OFF|SKIP)", "    Control the replies sent to the current connection."),
    ),
    Command(
        "client|setinfo",
        set_info,
        arity=4,
        flags="loading connection noscript stale",
        since="7.2.0",
        summary="Sets information specific to the client or connection.",
        syntax="attr:<LIB-NAME libname | LIB-VER libver>",
        help=(
            "SETINFO <option> <value>",
            "    Set client meta attr. Options are:",
            "    * LIB-NAME: the client lib name.",
            "    * LIB-VER: the client lib version.",
        ),
    ),
    Command(
        "client|setname",
        set_name,
        arity=3,
        flags="loading connection noscript stale",
        since="2.6.9",
        summary="Sets the connection name.",
        syntax="connection-name",
        help=("SETNAME <name>", "    Assign the name <name> to the current connection."),
    ),
    Command(
        "client|unpause",
        unpause,
        arity=2,
        flags="admin loading connection noscript stale",
        since="6.2.0",
        summary="Resumes processing commands from paused clients.",
        help=("UNPAUSE", "    Stop the current client pause, resuming traffic."),
    ),
    Command(
        "client|unblock",
        unblock,
        arity=-3,
        flags="admin loading connection noscript stale",
        since="5.0.0",
        summary="Unblocks a client blocked by a blocking command from a different connection.",
        syntax="client-id# [unblock-type:<TIMEOUT | ERROR>]",
        help=("UNBLOCK <clientid> [TIMEOUT|ERROR]", "    Unblock the specified blocked client."),
    ),
]
COMMANDS: list[Command] = [
    Command(
        "client",
        arity=-2,
        since="2.4.0",
        group="connection",
        summary="A container for client connection commands.",
        subcommands=CLIENT,
        help_order="getname id info kill list unpause pause reply setname setinfo unblock no-evict no-touch",
    ),
]
