"""CRDT.REDRIVE: dead letters of a group go back to their stream.

Any region may do it, and of two that do it at once one entry stays (core/names/letters.py). Letters are looked for from
the beginning of the dead-letter key; those of other groups and streams, and what is no letter, stay there.
"""

from __future__ import annotations

from typing import Final

from crdtstream.commands.groups import existing_group
from crdtstream.commands.idempotence import reads_names
from crdtstream.commands.integers import integer
from crdtstream.commands.properties import require_properties_readable
from crdtstream.connections.access import require_rights
from crdtstream.connections.acl.log import TOP_LEVEL
from crdtstream.connections.client import Client
from crdtstream.connections.command import Command, keys_at
from crdtstream.connections.context import CommandError, Context, Reply, shown
from crdtstream.connections.minting import minted, top_of
from crdtstream.core.effects import Key
from crdtstream.core.entries.encoding import entry_fields
from crdtstream.core.entries.merging import BlockRange, merge
from crdtstream.core.names.letters import TRAILER_ITEMS, Letter, LetterOrigin, origin_of, return_bytes, return_letter
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.batch_budget import excess
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN, EntryId, next_id
from crdtstream.protocols import replies

COUNT_DEFAULT: Final = 100
COUNT_MAX: Final = 10_000
# Entries of the dead-letter key that are looked at together.
PAGE_ENTRIES: Final = 256
SYNTAX = "ERR syntax error: CRDT.REDRIVE key group [COUNT n]"
BAD_COUNT = f"ERR COUNT must be a number from 1 to {COUNT_MAX}"


def redrive(context: Context, client: Client, argv: list[bytes]) -> Reply:
    key, name = (client.database, argv[1]), argv[2]
    count = parse_count(argv)
    _, group = existing_group(context, key, name)
    letters = (client.database, group.rules.dead_letters)
    if not letters[1] or letters == key:
        raise CommandError(
            f"ERR group '{shown(name)}' has no dead-letter key: name it by CRDT.GROUP SET ... DEADLETTER, another key"
            " than the stream itself"
        )
    if not client.unrestricted:
        require_rights(context, client, RIGHTS, [argv[0], argv[1], letters[1]], TOP_LEVEL)
    if not reads_names(context):
        require_properties_readable(context)
    source = context.replica.keyspace.find(letters)
    found = [] if source is None else letters_of(source, letters, LetterOrigin(argv[1], name, 0), count)
    return replies.integer(bring_back(context, key, name, found))


def parse_count(argv: list[bytes]) -> int:
    if len(argv) == 3:
        return COUNT_DEFAULT
    if len(argv) != 5 or argv[3].upper() != b"COUNT":
        raise CommandError(SYNTAX)
    count = integer(argv[4], BAD_COUNT)
    if not 1 <= count <= COUNT_MAX:
        raise CommandError(BAD_COUNT)
    return count


def letters_of(stream: Stream, key: Key, came_from: LetterOrigin, count: int) -> list[Letter]:
    """The first letters, at most `count`, that came from there."""
    found: list[Letter] = []
    start: EntryId | None = ID_MIN
    while start is not None and len(found) < count:
        runs = merge(stream.chain_ranges(start, ID_MAX, PAGE_ENTRIES, False), PAGE_ENTRIES)
        found += [letter for run in runs for letter in letters_in(run, key, came_from)]
        start = behind(runs, found)
    return found[:count]


def letters_in(run: BlockRange, key: Key, came_from: LetterOrigin) -> list[Letter]:
    found: list[Letter] = []
    for index in range(run.low, run.high):
        fields = entry_fields(run.block.entry(index))
        origin = origin_of(fields)
        if origin is not None and (origin.key, origin.group) == (came_from.key, came_from.group):
            dot = (run.origin, run.block.counter_at(index))
            found.append(Letter(key, dot, run.block.id_at(index), fields[:-TRAILER_ITEMS]))
    return found


def behind(runs: list[BlockRange], found: list[Letter]) -> EntryId | None:
    """Where the next page begins; None at the end. Several origins may have one ID: a full page that ends with it
    leaves it to the next one.
    """
    if sum([run.high - run.low for run in runs]) < PAGE_ENTRIES:
        return None
    last = runs[-1].block.id_at(runs[-1].high - 1)
    if runs[0].block.id_at(runs[0].low) == last:
        return next_id(last)
    while found and found[-1].letter_id == last:
        found.pop()
    return last


def bring_back(context: Context, key: Key, name: bytes, found: list[Letter]) -> int:
    """Bring these letters back, in a transaction as many as its batch has room for; returns how many."""
    replica, returned = context.replica, 0
    for letter in found:
        entry_id = minted(context, top_of(context, key))
        if not return_letter(replica, key, name, letter, entry_id):
            if returned:
                break
            size = return_bytes(replica, key, letter)
            raise CommandError(f"ERR {excess(replica.budget, 'the letter', size, 'destroy groups that are not used')}")
        returned += 1
        context.statistics.letters_returned += 1
        replica.budget.ease()
    return returned


COMMAND: Command = Command(
    "crdt.redrive",
    redrive,
    arity=-3,
    flags="write denyoom",
    keys=keys_at(1, "RW insert"),
    since="0.2.0",
    group="stream",
    summary="Adds dead letters of a consumer group to its stream again, for this group alone.",
    syntax="key group [COUNT count#]",
)
# The dead-letter key is no argument: the group names it. A user needs these rights to both.
RIGHTS: Command = Command(
    "crdt.redrive",
    redrive,
    arity=3,
    flags="write",
    keys=keys_at(1, "RW insert", "RW access delete"),
    since="0.2.0",
    group="stream",
    summary="The rights that CRDT.REDRIVE needs.",
)
COMMANDS: list[Command] = [COMMAND]
