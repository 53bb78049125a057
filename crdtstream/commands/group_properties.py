"""CRDT.GROUP SET and GET: the properties of consumer groups."""

from __future__ import annotations

from crdtstream.commands import group_moving, group_resetting
from crdtstream.commands.delivery import delivery_of
from crdtstream.commands.groups import existing_group
from crdtstream.commands.properties import parse_properties, require_dead_letters, require_properties_readable
from crdtstream.connections.client import Client
from crdtstream.connections.command import Command, Keys, help_row, keys_at
from crdtstream.connections.context import Context, Reply
from crdtstream.core.groups.group import Group
from crdtstream.core.groups.properties import (
    ACKNOWLEDGE,
    ALL,
    ANY,
    ANY_REGION,
    CONTIGUOUS,
    DEADLETTER,
    DELIVER,
    EXACT,
    MAXDELIVERIES,
    ORDER,
    OWNER,
    TAKEOVER,
)
from crdtstream.protocols import replies


def set_properties(context: Context, client: Client, argv: list[bytes]) -> Reply:
    key = (client.database, argv[2])
    _, group = existing_group(context, key, argv[3])
    values = parse_properties(context, argv, 4)
    require_dead_letters(values, key[1], group.rules)
    require_properties_readable(context)
    context.replica.set_properties(key, argv[3], values)
    return replies.OK


def get_properties(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """All properties of a group, also those that nobody set, and which region delivers."""
    stream, group = existing_group(context, (client.database, argv[2]), argv[3])
    found = [*properties_of(group), *delivery_of(context, stream, group)]
    items = [item for name, value in found for item in (replies.bulk(name), value)]
    return replies.mapping(items, client.protocol)


def properties_of(group: Group) -> list[tuple[bytes, bytes]]:
    """Each property and its value, as a reply."""
    rules = group.rules
    found = [
        (ACKNOWLEDGE, replies.bulk(EXACT if rules.exact else CONTIGUOUS)),
        (DELIVER, replies.bulk(rules.mode)),
        (TAKEOVER, replies.integer(rules.takeover_ms)),
        (ORDER, replies.bulk(ALL if rules.ordered else ANY)),
        (MAXDELIVERIES, replies.integer(rules.deliveries_max)),
        (DEADLETTER, replies.bulk(rules.dead_letters)),
    ]
    if rules.mode == OWNER:
        found.append((OWNER, replies.integer(rules.deliverer(ANY_REGION))))
    return found


SUBCOMMANDS: list[Command] = [
    Command(
        "crdt.group|set",
        set_properties,
        arity=-6,
        flags="write denyoom",
        keys=Keys(2, 2, ("RW update",), word="DEADLETTER", word_from=4),
        since="0.2.0",
        summary="Sets properties of a consumer group, in all regions.",
        syntax="key group property:(name value...)...",
        help=("SET <key> <groupname> <property> <value> [...]", "    Set properties of the group, in all regions."),
    ),
    Command(
        "crdt.group|get",
        get_properties,
        arity=4,
        flags="readonly",
        keys=keys_at(2, "RO access"),
        since="0.2.0",
        summary="Returns the properties of a consumer group.",
        syntax="key group",
        help=("GET <key> <groupname>", "    Return the properties of the group."),
    ),
    group_moving.COMMAND,
    group_resetting.COMMAND,
    help_row("crdt.group", since="0.2.0"),
]
