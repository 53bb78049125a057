"""XNACK: a consumer gives pending entries back to its group, where any consumer may claim them at once.

Local, like the pending entries. A released entry stays pending under the consumer with the empty name. Its delivery
time is below 0: that puts it before all others, in the order of release (core/groups/pending.py); replies show it as 0.

Reference: `xnackCommand` of Redis 8.8.
"""

from __future__ import annotations

from crdtstream.commands import arguments
from crdtstream.commands.dead_letters import move_fatal
from crdtstream.commands.delivery import look
from crdtstream.commands.integers import I64_MAX, integer
from crdtstream.commands.pending_entries import found_group
from crdtstream.connections.client import Client
from crdtstream.connections.command import Command, keys_at
from crdtstream.connections.context import CommandError, Context, Reply
from crdtstream.core.effects import Key
from crdtstream.core.groups.group import Group
from crdtstream.core.groups.pending import NOBODY
from crdtstream.core.local_facts import PendingClaimed
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.entry_id import EntryId
from crdtstream.protocols import replies

SILENT = 0
FAIL = 1
FATAL = 2
MODES = {b"SILENT": SILENT, b"FAIL": FAIL, b"FATAL": FATAL}
NO_MODE = "ERR mode must be SILENT, FAIL, or FATAL"
BAD_RETRYCOUNT = "ERR Invalid RETRYCOUNT option argument for XNACK"


class NackOptions:
    """`SILENT|FAIL|FATAL`, then in any order `IDS n id... [RETRYCOUNT n] [FORCE]`."""

    __slots__ = ("force", "ids", "mode", "retries")

    def __init__(self, argv: list[bytes]) -> None:
        mode = MODES.get(argv[3].upper())
        if mode is None:
            raise CommandError(NO_MODE)
        self.mode = mode
        self.ids: list[EntryId] = []
        self.retries: int | None = None
        self.force = False
        at = 4
        while at < len(argv):
            at += self._parse_option(argv, at)
        if not self.ids:
            raise CommandError(arguments.NO_IDS)

    def _parse_option(self, argv: list[bytes], at: int) -> int:
        """Parse the option at `at`; returns how many arguments it takes."""
        word = argv[at].upper()
        if word == b"IDS" and not self.ids:
            self.ids = arguments.parse_numbered_ids(argv, at)
            return 2 + len(self.ids)
        if word == b"RETRYCOUNT" and at + 1 < len(argv):
            self.retries = integer(argv[at + 1], BAD_RETRYCOUNT)
            if self.retries < 0:
                raise CommandError(BAD_RETRYCOUNT)
            return 2
        if word != b"FORCE":
            raise CommandError(arguments.SYNTAX)
        self.force = True
        return 1

    def deliveries(self, before: int) -> int:
        """The number of deliveries to record, instead of `before`."""
        if self.retries is not None:
            return self.retries
        if self.mode == FATAL:
            return I64_MAX
        return max(before - 1, 0) if self.mode == SILENT else before


def xnack(context: Context, client: Client, argv: list[bytes]) -> Reply:
    options = NackOptions(argv)
    key = (client.database, argv[1])
    stream, group = found_group(context, key, argv[2])
    return replies.integer(release(context, key, argv[2], stream, group, options))


def release(context: Context, key: Key, name: bytes, stream: Stream, group: Group, options: NackOptions) -> int:
    """Release what is pending, and with FORCE what lives; returns how many IDs were released, or moved to the
    dead-letter key.
    """
    moved: dict[EntryId, None] = {}
    if options.mode == FATAL and group.rules.dead_letters:
        look(context, key, name, stream, group, False)
        moved = move_fatal(context, key, name, stream, group, options.ids)
    rows: dict[tuple[int, EntryId], tuple[int, int]] = {}
    released: dict[EntryId, None] = {}
    order = group.pending.next_released()
    for entry_id in [entry_id for entry_id in options.ids if entry_id not in moved]:
        origins = group.pending.origins_of(entry_id)
        if not origins and options.force:
            origins = stream.origins_holding(entry_id)
        for origin in origins:
            known = rows.get((origin, entry_id))
            pending = group.pending.get(origin, entry_id)
            before = known[1] if known is not None else 0 if pending is None else pending.deliveries
            rows[(origin, entry_id)] = (order, options.deliveries(before))
            order += 1
            released[entry_id] = None
    if rows:
        context.replica.record(PendingClaimed(key, name, NOBODY, [(*row, *state) for row, state in rows.items()]))
        # Readers with CLAIM wait for this.
        context.replica.changed.touched[key] = None
    return len(released) + len(moved)


COMMANDS: list[Command] = [
    Command(
        "xnack",
        xnack,
        arity=-7,
        flags="write fast",
        keys=keys_at(1, "RW update"),
        since="8.8.0",
        group="stream",
        summary=(
            "Releases pending messages back to the group's PEL without acknowledging them, making them available for"
            " re-delivery."
        ),
        syntax="key group mode:<SILENT | FAIL | FATAL> IDS ids:(numids# id...) [RETRYCOUNT count#] [FORCE]",
    ),
]
