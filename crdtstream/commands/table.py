"""The table of all commands, and COMMAND, which describes them.

Commands of other data types are not in the table, so they get Redis's error for an unknown command. A name written all
in upper or all in lower case, as clients usually send it, is found without a conversion.

Reference: Redis `COMMAND`, `COMMAND INFO`.
"""

from __future__ import annotations

from typing import Final

from crdtstream.clients.client import Client
from crdtstream.clients.command import Command
from crdtstream.clients.context import CommandError, Context, Reply
from crdtstream.commands import (
    clients,
    configuration,
    diagnostics,
    expiry,
    groups,
    info,
    keys,
    maintenance,
    members,
    pending_entries,
    regions,
    renaming,
    server,
    stream_info,
    streams,
    transactions,
)
from crdtstream.commands.documents import documents
from crdtstream.commands.glob import matches, tokens_of
from crdtstream.commands.key_flags import flagged, keys_of, specifications
from crdtstream.protocols import replies

HELP = (
    b"COMMAND <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    b"(no subcommand)",
    b"    Return details about all commands.",
    b"COUNT",
    b"    Return the total number of commands in this server.",
    b"LIST [FILTERBY (MODULE <name>|ACLCAT <category>|PATTERN <pattern>)]",
    b"    Return a list of all commands in this server.",
    b"INFO [<command-name> ...]",
    b"    Return details about multiple commands, by default about all.",
    b"DOCS [<command-name> ...]",
    b"    Return documentation about multiple commands, by default about all.",
    b"GETKEYS <full-command>",
    b"    Return the keys from a full command.",
    b"GETKEYSANDFLAGS <full-command>",
    b"    Return the keys from a full command, and the access flags of each.",
    b"HELP",
    b"    Prints this help.",
)
TOLD_FLAGS = (
    "write",
    "readonly",
    "denyoom",
    "admin",
    "blocking",
    "fast",
    "loading",
    "stale",
    "noscript",
    "no_auth",
    "no_multi",
    "movablekeys",
)
CATEGORIES = {
    "write": b"@write",
    "readonly": b"@read",
    "admin": b"@admin",
    "blocking": b"@blocking",
    "fast": b"@fast",
    "connection": b"@connection",
    "transaction": b"@transaction",
}


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
        return [command for command in COMMANDS if b"@" + value.lower() in categories(command)]
    if kind == b"MODULE":
        return []
    raise CommandError("ERR syntax error")


def describe_named(context: Context, client: Client, argv: list[bytes]) -> Reply:
    if len(argv) == 2:
        return describe_all(context, client, argv)
    rows: list[bytes] = []
    for name in argv[2:]:
        command = named(name)
        rows.append(replies.null_bulk(client.protocol) if command is None else described(command, client.protocol))
    return replies.array(rows)


def describe_all(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return replies.array([described(command, client.protocol) for command in COMMANDS])


def named(name: bytes) -> Command | None:
    """The command with a full name such as `xadd` or `xgroup|create`."""
    parent, bar, child = name.upper().partition(b"|")
    command = TABLE.get(parent)
    if command is None or not bar:
        return command
    return (command.subcommands or {}).get(child)


def described(command: Command, protocol: int) -> bytes:
    """The ten fields of COMMAND INFO for one command; its tips are empty."""
    flags = [b"+%b\r\n" % flag.encode() for flag in command.flags if flag in TOLD_FLAGS]
    children = [described(child, protocol) for child in (command.subcommands or {}).values()]
    return replies.array(
        [
            replies.bulk(command.name.encode()),
            replies.integer(command.arity),
            replies.unordered(flags, protocol),
            replies.integer(command.first_key),
            replies.integer(command.last_key),
            replies.integer(command.key_step),
            replies.unordered([b"+%b\r\n" % name for name in categories(command)], protocol),
            replies.unordered([], protocol),
            specifications(command, protocol),
            replies.unordered(children, protocol),
        ]
    )


def categories(command: Command) -> list[bytes]:
    found = [CATEGORIES[flag] for flag in command.flags if flag in CATEGORIES]
    if command.name.startswith("x"):
        found.append(b"@stream")
    return found if "fast" in command.flags else [*found, b"@slow"]


def tell(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """COMMAND DOCS: for all commands, or for those of the named commands that exist."""
    found = COMMANDS
    if len(argv) > 2:
        found = [command for command in map(named, argv[2:]) if command is not None]
    return documents(found, client.protocol)


def show_help(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return replies.array([replies.simple(line) for line in HELP])


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


TELLING = Command(
    "command",
    -1,
    ("loading",),
    0,
    0,
    0,
    describe_all,
    {
        b"COUNT": Command("command|count", 2, ("loading", "fast"), 0, 0, 0, count),
        b"DOCS": Command("command|docs", -2, ("loading",), 0, 0, 0, tell),
        b"GETKEYS": Command("command|getkeys", -4, ("loading",), 0, 0, 0, key_names),
        b"GETKEYSANDFLAGS": Command("command|getkeysandflags", -3, ("loading",), 0, 0, 0, key_names_and_flags),
        b"HELP": Command("command|help", 2, ("loading",), 0, 0, 0, show_help),
        b"INFO": Command("command|info", -2, ("loading",), 0, 0, 0, describe_named),
        b"LIST": Command("command|list", -2, ("loading",), 0, 0, 0, list_names),
    },
)
COMMANDS: list[Command] = [
    *keys.COMMANDS,
    *expiry.COMMANDS,
    *renaming.COMMANDS,
    *streams.COMMANDS,
    *stream_info.COMMANDS,
    *groups.COMMANDS,
    *pending_entries.COMMANDS,
    *server.COMMANDS,
    *clients.COMMANDS,
    *transactions.COMMANDS,
    *configuration.COMMANDS,
    *maintenance.COMMANDS,
    *diagnostics.COMMANDS,
    *info.COMMANDS,
    *regions.COMMANDS,
    *members.COMMANDS,
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
