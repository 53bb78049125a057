"""The table of all commands, and COMMAND, which describes them.

Commands of other data types are not in the table; `foreign` has their names. A name written all
in upper or all in lower case, as clients usually send it, is found without a conversion.

Reference: Redis `COMMAND`, `COMMAND INFO`.
"""

from __future__ import annotations

from typing import Final

from crdtstream.commands import (
    acknowledging,
    acl,
    clients,
    configuration,
    conflicts,
    cursor_reading,
    diagnostics,
    dumping,
    expiry,
    group_reading,
    groups,
    homes,
    idempotence,
    importing,
    info,
    inspecting,
    keys,
    leaving,
    maintenance,
    members,
    pending_entries,
    publishing,
    reading,
    redriving,
    regions,
    releasing,
    removing,
    renaming,
    server,
    sessions,
    shards,
    stream_info,
    streams,
    transactions,
    unsupported,
    waiting,
)
from crdtstream.commands.catalogue import CATALOGUE
from crdtstream.commands.documents import documents
from crdtstream.commands.key_flags import flagged, keys_of, specifications
from crdtstream.commands.tips import NOTES, TIPS
from crdtstream.connections.client import Client
from crdtstream.connections.command import Command, help_row
from crdtstream.connections.context import CommandError, Context, Reply
from crdtstream.protocols import replies
from crdtstream.protocols.glob import matches, tokens_of

# In the order in which Redis tells them.
TOLD_FLAGS: Final = (
    "write",
    "readonly",
    "denyoom",
    "admin",
    "pubsub",
    "noscript",
    "blocking",
    "loading",
    "stale",
    "skip_slowlog",
    "fast",
    "no_auth",
    "no_async_loading",
    "no_multi",
    "movablekeys",
    "allow_busy",
)


def count(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return replies.integer(len(COMMANDS))


def list_names(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """COMMAND LIST [FILTERBY MODULE name | ACLCAT category | PATTERN pattern]."""
    chosen = COMMANDS
    if len(argv) > 2:
        if len(argv) != 5 or argv[2].upper() != b"FILTERBY":
            raise CommandError("ERR syntax error")
        chosen = filtered(argv[3].upper(), argv[4])
    return replies.bulk_array([command.name.encode() for command in chosen])


def filtered(kind: bytes, value: bytes) -> list[Command]:
    if kind == b"PATTERN":
        tokens = tokens_of(value.lower())
        return [command for command in COMMANDS if matches(tokens, command.name.encode())]
    if kind == b"ACLCAT":
        return [command for command in COMMANDS if value.lower().decode("latin-1") in command.categories]
    if kind == b"MODULE":
        return []
    raise CommandError("ERR syntax error")


def describe_named(context: Context, client: Client, argv: list[bytes]) -> Reply:
    if len(argv) == 2:
        return describe_all(context, client, argv)
    rows: list[bytes] = []
    for name in argv[2:]:
        command = CATALOGUE.named(name)
        rows.append(replies.null_bulk(client.protocol) if command is None else described(command, client.protocol))
    return replies.array(rows)


def describe_all(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return replies.array([described(command, client.protocol) for command in COMMANDS])


def described(command: Command, protocol: int) -> bytes:
    """The ten fields of COMMAND INFO for one command."""
    flags = [b"+%b\r\n" % flag.encode() for flag in TOLD_FLAGS if flag in command.flags]
    tips = [replies.bulk(tip.encode()) for tip in TIPS.get(command.name, "").split()]
    children = [described(child, protocol) for child in (command.subcommands or {}).values()]
    return replies.array(
        [
            replies.bulk(command.name.encode()),
            replies.integer(command.arity),
            replies.unordered(flags, protocol),
            replies.integer(command.keys.first),
            replies.integer(command.keys.last),
            replies.integer(command.keys.step),
            replies.unordered([b"+@%b\r\n" % name.encode() for name in command.categories], protocol),
            replies.unordered(tips, protocol),
            specifications(command.keys, protocol, NOTES.get(command.name, "")),
            replies.unordered(children, protocol),
        ]
    )


def command_docs(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """COMMAND DOCS: for all commands, or for those of the named commands that exist."""
    found = COMMANDS
    if len(argv) > 2:
        found = [command for command in map(CATALOGUE.named, argv[2:]) if command is not None]
    return documents(found, client.protocol)


def key_names(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """COMMAND GETKEYS: the keys named by a complete request."""
    return replies.bulk_array(named_keys(argv[2:])[1])


def key_names_and_flags(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """COMMAND GETKEYSANDFLAGS: the keys, each with the flags of its specification."""
    command, found = named_keys(argv[2:])
    return flagged(command, found, client.protocol)


def named_keys(request: list[bytes]) -> tuple[Command, list[bytes]]:
    """The command named by a request, and its keys."""
    command = TABLE.get(request[0].upper())
    if command is not None and command.subcommands and len(request) > 1:
        command = command.subcommands.get(request[1].upper())
    if command is None:
        raise CommandError("ERR Invalid command specified")
    if not command.accepts(len(request)):
        raise CommandError("ERR Invalid number of arguments specified for command")
    found = keys_of(command, request)
    if not found:
        raise CommandError("ERR The command has no key arguments")
    return command, found


BY_DEFAULT = (
    "    If no command names are given, documentation details for all",
    "    commands are returned.",
)
SUBCOMMANDS = [
    Command(
        "command|count",
        count,
        arity=2,
        flags="loading stale",
        categories="connection",
        since="2.8.13",
        summary="Returns a count of commands.",
        help=("COUNT", "    Return the total number of commands in this Redis server."),
    ),
    Command(
        "command|docs",
        command_docs,
        arity=-2,
        flags="loading stale",
        categories="connection",
        since="7.0.0",
        summary="Returns documentary information about one, multiple or all commands.",
        syntax="[command-name...]",
        help=(
            "DOCS [<command-name> ...]",
            "    Return documentation details about multiple Redis commands.",
            *BY_DEFAULT,
        ),
    ),
    Command(
        "command|getkeys",
        key_names,
        arity=-3,
        flags="loading stale",
        categories="connection",
        since="2.8.13",
        summary="Extracts the key names from an arbitrary command.",
        syntax="command [arg...]",
        help=("GETKEYS <full-command>", "    Return the keys from a full Redis command."),
    ),
    Command(
        "command|getkeysandflags",
        key_names_and_flags,
        arity=-3,
        flags="loading stale",
        categories="connection",
        since="7.0.0",
        summary="Extracts the key names and access flags for an arbitrary command.",
        syntax="command [arg...]",
        help=(
            "GETKEYSANDFLAGS <full-command>",
            "    Return the keys and the access flags from a full Redis command.",
        ),
    ),
    help_row("command", since="5.0.0", flags="loading stale", line="    Print this help.", categories="connection"),
    Command(
        "command|info",
        describe_named,
        arity=-2,
        flags="loading stale",
        categories="connection",
        since="2.8.13",
        summary="Returns information about one, multiple or all commands.",
        syntax="[command-name...]",
        help=("INFO [<command-name> ...]", "    Return details about multiple Redis commands.", *BY_DEFAULT),
    ),
    Command(
        "command|list",
        list_names,
        arity=-2,
        flags="loading stale",
        categories="connection",
        since="7.0.0",
        summary="Returns a list of command names.",
        syntax="[FILTERBY filterby:<MODULE module-name | ACLCAT category | PATTERN pattern>]",
        help=("LIST", "    Return a list of all commands in this Redis server."),
    ),
]
TELLING = Command(
    "command",
    describe_all,
    arity=-1,
    flags="loading stale",
    categories="connection",
    since="2.8.13",
    group="server",
    summary="Returns detailed information about all commands.",
    help=("(no subcommand)", "    Return details about all Redis commands."),
    subcommands=SUBCOMMANDS,
    help_order="count list info docs getkeys getkeysandflags",
)
COMMANDS: list[Command] = [
    *keys.COMMANDS,
    *leaving.COMMANDS,
    *expiry.COMMANDS,
    *renaming.COMMANDS,
    *dumping.COMMANDS,
    *streams.COMMANDS,
    *idempotence.COMMANDS,
    *removing.COMMANDS,
    *reading.COMMANDS,
    *cursor_reading.COMMANDS,
    *stream_info.COMMANDS,
    *inspecting.COMMANDS,
    *groups.COMMANDS,
    *acknowledging.COMMANDS,
    *group_reading.COMMANDS,
    *pending_entries.COMMANDS,
    *releasing.COMMANDS,
    *server.COMMANDS,
    *waiting.COMMANDS,
    *sessions.COMMANDS,
    *conflicts.COMMANDS,
    *redriving.COMMANDS,
    *clients.COMMANDS,
    *transactions.COMMANDS,
    *publishing.COMMANDS,
    *configuration.COMMANDS,
    *maintenance.COMMANDS,
    *diagnostics.COMMANDS,
    *info.COMMANDS,
    *regions.COMMANDS,
    *members.COMMANDS,
    *homes.COMMANDS,
    *importing.COMMANDS,
    *shards.COMMANDS,
    *unsupported.COMMANDS,
    *acl.COMMANDS,
    TELLING,
]


def table_of(commands: list[Command]) -> dict[bytes, Command]:
    """Commands by name, in lower and in upper case."""
    table: dict[bytes, Command] = {}
    for command in commands:
        command.check()
        name = command.name.encode()
        assert name not in table, f"two commands are named {command.name}"
        table[name] = table[name.upper()] = command
    return table


TABLE: Final = table_of(COMMANDS)
CATALOGUE.fill(COMMANDS)
