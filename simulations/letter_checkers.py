"""What dead letters promise (docs/queues.md): once each, and none is lost: an entry is acknowledged by its consumer,
pending, or one letter.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from crdtstream.core.values.causality import Dot
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN, EntryId
from crdtstream.scenarios.reply import Value
from simulations.checking import Checker
from simulations.history import GroupName
from simulations.letter_oracle import LetterRow, letters_of, redriven
from simulations.name_oracle import survivors
from simulations.network import Network
from simulations.queue_checkers import group_of, stream_of

# Faults after which something that was answered may be gone, or known in one region alone.
LOSSY = ("power", "torn", "disk-loss", "disk-error", "damage", "rot", "evict", "put-back", "twin", "clone")


@dataclass
class GivenUp:
    """A claim, or an XNACK, of a group, and what was pending in its region before it; after it, what of that lives and
    is not pending any more.
    """

    argv: list[bytes]
    group: GroupName
    held: set[tuple[int, EntryId]]


class OneLetter(Checker):
    """A letter stays until it is brought back, or another one of its group and entry stays for it; there is one under
    one create and reset; and wherever it is known, its entry is not delivered again.
    """

    name = "letters"

    def __init__(self) -> None:
        self._asked: list[GivenUp] = []
        self._kept: list[GivenUp] = []

    def asked(self, world: Network, number: int, argv: list[bytes]) -> None:
        if not world.settings.has_letters or argv[0] not in (b"XAUTOCLAIM", b"XCLAIM", b"XNACK"):
            return
        name: GroupName = ((0, argv[1]), argv[2])
        group = group_of(world, number, name)
        if group is not None:
            held = {(row.origin, row.entry_id) for row in group.pending.rows(ID_MIN, ID_MAX, -1, None)}
            self._asked.append(GivenUp(argv, name, held))

    def put_off(self, world: Network, number: int, argv: list[bytes]) -> None:
        self._asked = [one for one in self._asked if one.argv is not argv]

    def commanded(self, world: Network, number: int, argv: list[bytes], value: Value) -> None:
        """What a claim drops, and what still lives and nobody acknowledged, must have become a letter."""
        for one in [one for one in self._asked if one.argv is argv]:
            self._asked.remove(one)
            stream, group = stream_of(world, number, one.group[0]), group_of(world, number, one.group)
            if stream is not None and group is not None:
                one.held = {place for place in one.held if stream.holds(*place) and group.pending.get(*place) is None}
                self._kept.append(one)

    def _look_for_dropped(self, world: Network) -> None:
        rows = world.oracle.effects(world.oracle.vector())
        known = {(one.group, one.source) for one in letters_of(rows, world.letters)}
        for one in self._kept:
            acknowledged = set().union(*world.history.acknowledged.get(one.group, {}).values())
            left = {place for place in one.held if (one.group, place) not in known and place[1] not in acknowledged}
            if left:
                self.fail(f"{one.argv} dropped {sorted(left)}, and there is no letter")

    def at_end(self, world: Network) -> None:
        if not world.settings.has_letters or world.settings.twin:
            return
        rows = world.oracle.effects(world.vector())
        letters, key = letters_of(rows, world.letters), (0, world.letters)
        expected = world.expected()
        living = {(one[1], one[2]) for one in expected[key].entries} if key in expected else set()
        self._look_for_dropped(world)
        self._look_for_lost(world, letters, living, redriven(rows, world.letters))
        self._count(world, [one for one in letters if one.dot in living])
        for one in letters:
            for number in world.served():
                self._look_again(world, number, one)

    def _look_for_lost(self, world: Network, letters: list[LetterRow], living: set[Dot], back: Collection[Dot]) -> None:
        by_dot = {one.dot: one for one in letters}
        losses = {lost.dot: survivor.dot for lost, survivor in survivors(world).get((0, world.letters), {}).items()}
        for one in letters:
            if one.dot in living or one.dot in back:
                continue
            other = by_dot.get(losses.get(one.dot, one.dot))
            if other is None or other is one or (other.group, other.source) != (one.group, one.source):
                self.fail(f"{one} is gone" if other in (None, one) else f"{one} is gone for {other}")

    def _count(self, world: Network, letters: list[LetterRow]) -> None:
        if any(world.injected[fault] for fault in LOSSY):
            return
        seen: dict[tuple[GroupName, tuple[int, EntryId]], LetterRow] = {}
        for one in letters:
            known = seen.setdefault((one.group, one.source), one)
            if known is not one and min(known.lays, default=None) == min(one.lays, default=None):
                self.fail(f"{known} is there twice: {one}")

    def _look_again(self, world: Network, number: int, one: LetterRow) -> None:
        stream, group = stream_of(world, number, one.group[0]), group_of(world, number, one.group)
        if stream is None or group is None or not stream.holds(*one.source):
            return
        lays = {(dot, create.reset) for dot, create in group.creates.items()}
        if one.lays and not lays.intersection(one.lays):
            return
        if not one.lays:
            self.fail(f"{one} was written without an acknowledgement")
        if group.wants(*one.source) or group.pending.get(*one.source) is not None:
            self.fail(f"region {number} has the entry of {one} again")
