"""Poison entries: where a claim would deliver an entry once more than MAXDELIVERIES allows, it becomes a letter under
the dead-letter key instead (core/names/letters.py), and is acknowledged. XNACK FATAL moves it at once.

A consumer that reads its own history counts nothing in such a group: else restarts would poison healthy entries. What
cannot be moved now is delivered as if there were no limit, and stays pending: what was a letter `HOPS_MAX` times, an
entry for which memory is short or no batch has room, and everything while a region of the cluster cannot read names. So
nothing is ever lost here.
"""

from __future__ import annotations

from crdtstream.commands.idempotence import reads_names
from crdtstream.connections.context import CommandError, Context
from crdtstream.connections.minting import minted, top_of
from crdtstream.core.effects import Key
from crdtstream.core.entries.encoding import entry_fields
from crdtstream.core.groups.group import Group
from crdtstream.core.groups.pending import PendingRow
from crdtstream.core.groups.properties import NO_LIMIT
from crdtstream.core.local_facts import PendingDropped
from crdtstream.core.names.letters import HOPS_MAX, PoisonEntry, hops_of, write_letter
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.entry_id import EntryId
from crdtstream.core.values.origin_intervals import OriginIntervals


class DeadLetters:
    """What one command moves to the dead-letter key of a group; nothing is moved before `write`."""

    __slots__ = ("_context", "_group", "_key", "_letters", "_stream", "accepted")

    def __init__(self, context: Context, key: Key, name: bytes, stream: Stream, rules_of: Group) -> None:
        self._context = context
        self._key = key
        self._group = name
        self._stream = stream
        self._letters: Key = (key[0], rules_of.rules.dead_letters)
        self.accepted: dict[tuple[int, EntryId], PoisonEntry] = {}

    def accept(self, origin: int, entry_id: EntryId, entry: bytes, deliveries: int) -> bool:
        """Accept this pending entry, which lives and was delivered so often, if it can be moved."""
        if (origin, entry_id) in self.accepted:
            return True
        fields = entry_fields(entry)
        if not self._may_move(fields):
            return False
        self.accepted[(origin, entry_id)] = PoisonEntry(self._key, self._group, origin, entry_id, deliveries, fields)
        return True

    def _may_move(self, fields: list[bytes]) -> bool:
        context = self._context
        # A key may have got the name of its dead-letter key since.
        if self._letters == self._key or context.standing.memory_short or not reads_names(context):
            return False
        if hops_of(fields) < HOPS_MAX:
            return True
        context.statistics.letters_refused += 1
        return False

    def write(self) -> int:
        """Move what was accepted; what does not fit stays pending. Returns how many were moved."""
        context, moved = self._context, 0
        for poison in self.accepted.values():
            try:
                letter_id = minted(context, top_of(context, self._letters))
            except CommandError:
                break
            if write_letter(context.replica, poison, self._letters, letter_id):
                moved += 1
                context.replica.budget.ease()
        context.statistics.letters_written += moved
        return moved


def limited(context: Context, key: Key, name: bytes, stream: Stream, group: Group) -> DeadLetters | None:
    """What a claim may move to a dead-letter key; None if the group has no limit."""
    if group.rules.deliveries_max == NO_LIMIT:
        return None
    return DeadLetters(context, key, name, stream, group)


def without_poison(
    context: Context, key: Key, name: bytes, stream: Stream, group: Group, rows: list[PendingRow]
) -> tuple[list[PendingRow], int]:
    """Move those of these pending entries, which live, that a claim would deliver too often. Returns what is left to be
    claimed, and how many were moved.
    """
    letters = limited(context, key, name, stream, group)
    if letters is None:
        return rows, 0
    left: list[PendingRow] = []
    for row in rows:
        entry = stream.trees[row.origin].find(row.entry_id)
        is_due = entry is not None and row.deliveries >= group.rules.deliveries_max
        if entry is None or not is_due or not letters.accept(row.origin, row.entry_id, entry, row.deliveries):
            left.append(row)
    return left, letters.write()


def move_fatal(
    context: Context, key: Key, name: bytes, stream: Stream, group: Group, ids: list[EntryId]
) -> dict[EntryId, None]:
    """XNACK FATAL in a group with a dead-letter key: move what is pending of these IDs; of what is gone, the pending
    entry leaves. Returns the IDs of which nothing is pending any more.
    """
    letters = DeadLetters(context, key, name, stream, group)
    gone: list[tuple[int, EntryId]] = []
    named: dict[EntryId, None] = {}
    for entry_id in ids:
        for origin in group.pending.origins_of(entry_id):
            named[entry_id] = None
            pending = group.pending.get(origin, entry_id)
            entry = stream.trees[origin].find(entry_id) if origin in stream.trees else None
            if entry is None:
                gone.append((origin, entry_id))
            elif pending is not None and not group.withholds(origin):
                letters.accept(origin, entry_id, entry, pending.deliveries)
    for origin, entry_id in gone:
        pieces = group.pending.pieces_of(origin, [entry_id])
        context.replica.record(PendingDropped(key, name, OriginIntervals.of({origin: pieces})))
    letters.write()
    return {entry_id: None for entry_id in named if not group.pending.origins_of(entry_id)}
