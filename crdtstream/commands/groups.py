"""Consumer groups: XGROUP.

A group is replicated, but what its readers do is local: deliveries, claims and cursors are recorded as local facts and
never sent.

Reference: `xgroupCommand` of Redis.
"""

from __future__ import annotations

from crdtstream.commands import arguments
from crdtstream.commands.delivery import require_delivered_here
from crdtstream.commands.fitting import require_name
from crdtstream.commands.integers import integer
from crdtstream.commands.properties import parse_properties, require_dead_letters, require_properties_readable
from crdtstream.connections.admission import await_admission, must_wait
from crdtstream.connections.client import Client
from crdtstream.connections.command import Command, Keys, help_row, keys_at
from crdtstream.connections.context import CommandError, Context, Reply, shown
from crdtstream.core.effects import UNKNOWN_ENTRIES_READ, Key, Position
from crdtstream.core.groups.group import Group
from crdtstream.core.groups.properties import PLAIN
from crdtstream.core.local_facts import ConsumerCreated, ConsumerDeleted, PositionSet
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.entry_id import ID_MIN, EntryId
from crdtstream.protocols import replies

CREATE_ARGUMENTS_MAX = 8
SETID_ARGUMENTS = (5, 7)
NO_KEY = (
    "ERR The XGROUP subcommand requires the key to exist."
    " Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically."
)
BUSY = "BUSYGROUP Consumer Group name already exists"
NEGATIVE_ENTRIES_READ = "ERR value for ENTRIESREAD must be positive or -1"


def group_of(context: Context, key: Key, name: bytes) -> Group | None:
    stream = context.replica.keyspace.find(key)
    return None if stream is None else stream.groups.get(name)


def live_entry(stream: Stream, origin: int, entry_id: EntryId) -> bytes | None:
    tree = stream.trees.get(origin)
    return None if tree is None else tree.find(entry_id)


def attend(context: Context, key: Key, name: bytes, consumer: bytes) -> None:
    """Note a request of this consumer: it is created if necessary, and was seen now."""
    group = group_of(context, key, name)
    assert group is not None
    if consumer in group.consumers:
        group.touch(consumer, context.now_ms)
    else:
        context.replica.record(ConsumerCreated(key, name, consumer, context.now_ms))


# XGROUP


class GroupOptions:
    """The options `[MKSTREAM] [ENTRIESREAD n] [CRDT property value ...]` of CREATE; SETID has only the second one.
    `properties_at` is where properties begin, 0 without any.
    """

    __slots__ = ("entries_read", "mkstream", "properties_at")

    def __init__(self) -> None:
        self.properties_at = 0
        self.mkstream = False
        self.entries_read = UNKNOWN_ENTRIES_READ

    def parse(self, argv: list[bytes], at: int, creating: bool) -> int:
        """Parse the option at `at`; returns how many arguments it takes."""
        word = argv[at].upper()
        if creating and word == b"CRDT":
            self.properties_at = at + 1
            return len(argv) - at
        if creating and word == b"MKSTREAM":
            self.mkstream = True
            return 1
        if word != b"ENTRIESREAD" or at + 1 == len(argv):
            raise CommandError(bad_arguments(argv[1]))
        self.entries_read = integer(argv[at + 1])
        if self.entries_read < 0 and self.entries_read != UNKNOWN_ENTRIES_READ:
            raise CommandError(NEGATIVE_ENTRIES_READ)
        return 2


def parse_group(argv: list[bytes], creating: bool) -> GroupOptions:
    options = GroupOptions()
    at = 5
    while at < len(argv):
        at += options.parse(argv, at, creating)
    return options


def bad_arguments(subcommand: bytes) -> str:
    return f"ERR unknown subcommand or wrong number of arguments for '{shown(subcommand)}'. Try XGROUP HELP."


def existing_stream(context: Context, key: Key) -> Stream:
    stream = context.replica.keyspace.find(key)
    if stream is None:
        raise CommandError(NO_KEY)
    return stream


def existing_group(context: Context, key: Key, name: bytes) -> tuple[Stream, Group]:
    stream = existing_stream(context, key)
    group = stream.groups.get(name)
    if group is None:
        raise CommandError(f"NOGROUP No such consumer group '{shown(name)}' for key name '{shown(key[1])}'")
    return stream, group


def seen_now(context: Context, stream: Stream | None) -> Position:
    """`$`: what this region has seen. For this region's own origin the stream's last ID is used, which is at least its
    last add, and which all its later adds will exceed.
    """
    if stream is None:
        return Position()
    position = stream.seen_position()
    if stream.top == ID_MIN:
        return position
    ids = {**position.ids, context.replica.applied.origin: stream.top}
    return Position(position.default, dict(sorted(ids.items())))


def bounded(entries_read: int, stream: Stream | None) -> int:
    """Limit ENTRIESREAD to entries-added: a group cannot have read more than that."""
    return min(entries_read, 0 if stream is None else stream.entries_added())


def xgroup_create(context: Context, client: Client, argv: list[bytes]) -> Reply:
    options = parse_group(argv, True)
    key = (client.database, argv[2])
    stream = context.replica.keyspace.find(key) if options.mkstream else existing_stream(context, key)
    if (options.properties_at or len(argv)) > CREATE_ARGUMENTS_MAX + bool(options.properties_at):
        raise CommandError(bad_arguments(argv[1]))
    start = seen_now(context, stream) if argv[4] == b"$" else Position(arguments.parse_entry_id(argv[4]))
    if stream is not None and argv[3] in stream.groups:
        raise CommandError(BUSY)
    require_name(context, "group", argv[3])
    require_name(context, "key", argv[2])
    properties = parse_properties(context, argv, options.properties_at) if options.properties_at else {}
    if properties:
        require_dead_letters(properties, argv[2], PLAIN)
        require_properties_readable(context)
    if must_wait(context):
        return await_admission(context, client, xgroup_create, argv)
    context.replica.create_group(key, argv[3], start, bounded(options.entries_read, stream))
    if properties:
        context.replica.set_properties(key, argv[3], properties)
    return replies.OK


def xgroup_setid(context: Context, client: Client, argv: list[bytes]) -> Reply:
    options = parse_group(argv, False)
    key = (client.database, argv[2])
    stream, group = existing_group(context, key, argv[3])
    if len(argv) not in SETID_ARGUMENTS:
        raise CommandError(bad_arguments(argv[1]))
    require_delivered_here(context, stream, group)
    position = seen_now(context, stream) if argv[4] == b"$" else Position(arguments.parse_bound(argv[4], 0))
    context.replica.record(PositionSet(key, argv[3], position, bounded(options.entries_read, stream)))
    return replies.OK


def xgroup_destroy(context: Context, client: Client, argv: list[bytes]) -> Reply:
    key = (client.database, argv[2])
    existing_stream(context, key)
    return replies.integer(context.replica.destroy_group(key, argv[3]))


def xgroup_createconsumer(context: Context, client: Client, argv: list[bytes]) -> Reply:
    key = (client.database, argv[2])
    _, group = existing_group(context, key, argv[3])
    if argv[4] in group.consumers:
        return replies.ZERO
    context.replica.record(ConsumerCreated(key, argv[3], argv[4], context.now_ms))
    return replies.ONE


def xgroup_delconsumer(context: Context, client: Client, argv: list[bytes]) -> Reply:
    key = (client.database, argv[2])
    _, group = existing_group(context, key, argv[3])
    if argv[4] not in group.consumers:
        return replies.ZERO
    pending = group.pending.count_of(argv[4])
    context.replica.record(ConsumerDeleted(key, argv[3], argv[4]))
    return replies.integer(pending)


XGROUP = [
    Command(
        "xgroup|create",
        xgroup_create,
        arity=-5,
        flags="write denyoom",
        keys=Keys(2, 2, ("RW insert",), word="DEADLETTER", word_from=5),
        since="5.0.0",
        summary="Creates a consumer group.",
        syntax="key group id-selector:<id | $> [MKSTREAM] [ENTRIESREAD entriesread#=entries-read]",
        help=(
            "CREATE <key> <groupname> <id|$> [option]",
            "    Create a new consumer group. Options are:",
            "    * MKSTREAM",
            "      Create the empty stream if it does not exist.",
            "    * ENTRIESREAD entries_read",
            "      Set the group's entries_read counter (internal use).",
        ),
    ),
    Command(
        "xgroup|setid",
        xgroup_setid,
        arity=-5,
        flags="write",
        keys=keys_at(2, "RW update"),
        since="5.0.0",
        summary="Sets the last-delivered ID of a consumer group.",
        syntax="key group id-selector:<id | $> [ENTRIESREAD entriesread#=entries-read]",
        help=(
            "SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
            "    Set the current group ID and entries_read counter.",
        ),
    ),
    Command(
        "xgroup|destroy",
        xgroup_destroy,
        arity=4,
        flags="write frees",
        keys=keys_at(2, "RW delete"),
        since="5.0.0",
        summary="Destroys a consumer group.",
        syntax="key group",
        help=("DESTROY <key> <groupname>", "    Remove the specified group."),
    ),
    Command(
        "xgroup|createconsumer",
        xgroup_createconsumer,
        arity=5,
        flags="write denyoom",
        keys=keys_at(2, "RW insert"),
        since="6.2.0",
        summary="Creates a consumer in a consumer group.",
        syntax="key group consumer",
        help=("CREATECONSUMER <key> <groupname> <consumer>", "    Create a new consumer in the specified group."),
    ),
    Command(
        "xgroup|delconsumer",
        xgroup_delconsumer,
        arity=5,
        flags="write frees",
        keys=keys_at(2, "RW delete"),
        since="5.0.0",
        summary="Deletes a consumer from a consumer group.",
        syntax="key group consumer",
        help=("DELCONSUMER <key> <groupname> <consumer>", "    Remove the specified consumer."),
    ),
    help_row("xgroup", since="5.0.0"),
]
COMMANDS: list[Command] = [
    Command(
        "xgroup",
        arity=-2,
        since="5.0.0",
        group="stream",
        summary="A container for consumer groups commands.",
        subcommands=XGROUP,
    ),
]
