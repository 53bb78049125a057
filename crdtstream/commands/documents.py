"""The texts of COMMAND DOCS: for each command its summary, the Redis version that introduced it, its group, its
arguments.

Complexity is left out, because clients treat it as optional. Commands of our own exist since the first version.
Arguments that Redis has and this server lacks are left out.

Reference: Redis `COMMAND DOCS`.
"""

from __future__ import annotations

from crdtstream.connections.command import Command
from crdtstream.connections.syntax import NO_KEY, Argument
from crdtstream.protocols import replies


def documents(commands: list[Command], protocol: int) -> bytes:
    items: list[bytes] = []
    for command in commands:
        items += [replies.bulk(command.name.encode()), document(command, protocol)]
    return replies.mapping(items, protocol)


def document(command: Command, protocol: int) -> bytes:
    """The documentation of one command and of its subcommands, as a map."""
    items = [*pair("summary", command.summary), *pair("since", command.since), *pair("group", command.group)]
    if command.arguments:
        items += [replies.bulk(b"arguments"), argument_rows(command.arguments, protocol)]
    if command.subcommands:
        items += [replies.bulk(b"subcommands"), documents(list(command.subcommands.values()), protocol)]
    return replies.mapping(items, protocol)


# Arguments


def argument_rows(arguments: list[Argument], protocol: int) -> bytes:
    return replies.array([argument_row(argument, protocol) for argument in arguments])


def argument_row(argument: Argument, protocol: int) -> bytes:
    items = [*pair("name", argument.name), *pair("type", argument.kind)]
    if not argument.children:
        items += pair("display_text", argument.shown)
    if argument.key_index != NO_KEY:
        items += [replies.bulk(b"key_spec_index"), replies.integer(argument.key_index)]
    texts = (("token", argument.token), ("since", argument.since), ("deprecated_since", argument.deprecated))
    items += [item for name, value in texts if value for item in pair(name, value)]
    held = ((b"optional", argument.optional), (b"multiple", argument.multiple))
    flags = [replies.simple(flag) for flag, holds in held if holds]
    if flags:
        items += [replies.bulk(b"flags"), replies.unordered(flags, protocol)]
    if argument.children:
        items += [replies.bulk(b"arguments"), argument_rows(argument.children, protocol)]
    return replies.mapping(items, protocol)


def pair(name: str, value: str) -> list[bytes]:
    return [replies.bulk(name.encode()), replies.bulk(value.encode())]
