"""Clients that choose which region delivers a group, move it, order it and reset it; and the faults that matter there.

They change what other clients of their world send, and draw that from a source of their own. A region that is silent
for the takeover time loses its place, so in such worlds regions are cut off, or stand still, for longer than that.
"""

from __future__ import annotations

from random import Random

from crdtstream.core.groups.group import Group
from crdtstream.core.groups.properties import ANY_REGION, OWNER
from crdtstream.core.replica import Replica
from crdtstream.core.values.causality import region_of
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN, format_id
from simulations.property_clients import Argv, unread_ids

CREATE_ODDS = 0.7
SET_ODDS = 0.04
MOVE_ODDS = 0.2
HOLDER_ODDS = 0.8
# Of a group that is missing, that a reader creates it; of a move, that all is acknowledged before.
FORM_ODDS = 0.3
FINISH_ODDS = 0.8
RESET_ODDS = 0.04
TAKEOVERS = (b"1000", b"1000", b"1500")
WAITS = ((), (b"WAIT", b"50"), (b"WAIT", b"300"), (b"FORCE",), (b"FORCE",), (b"WAIT", b"50", b"FORCE"))


class DeliveryClients:
    """Of a world with so many regions."""

    def __init__(self, rng: Random, regions: int) -> None:
        self.rng = rng
        self._regions = regions

    def changed(self, commands: list[Argv], replica: Replica) -> list[Argv]:
        """Return what a client sends instead of these commands."""
        return [one for argv in commands for one in self._changed(argv, replica)]

    def _changed(self, argv: Argv, replica: Replica) -> list[Argv]:
        rng = self.rng
        if argv[:2] == [b"XGROUP", b"CREATE"]:
            return [[*argv[:6], b"CRDT", *self._chosen()] if rng.random() < CREATE_ODDS else argv]
        if argv[0] == b"XREADGROUP" and argv[-1] == b">":
            chance, key, name = rng.random(), argv[-2], argv[2]
            if group_at(replica, key, name) is None:
                create = [b"XGROUP", b"CREATE", key, name, b"0", b"MKSTREAM", b"CRDT", *self._chosen()]
                return [create, argv] if chance < FORM_ODDS else [argv]
            if chance < SET_ODDS:
                return [[b"CRDT.GROUP", b"SET", key, name, *self._chosen()], argv]
            if chance < SET_ODDS + MOVE_ODDS:
                return [*self._move(key, name, replica), argv]
            if chance < SET_ODDS + MOVE_ODDS + RESET_ODDS:
                return [[b"CRDT.GROUP", b"RESET", key, name, *self._start(key, name, replica)], argv]
        return [argv]

    def _chosen(self) -> Argv:
        """Properties: mostly one region delivers everything."""
        rng = self.rng
        owner = [b"DELIVER", b"OWNER", b"%d" % rng.randrange(1, self._regions + 1)]
        found = rng.choice([owner, owner, owner, owner, [b"DELIVER", b"ORIGIN"], [b"DELIVER", b"EVERYWHERE"]])
        acknowledge = rng.choice([[], [b"ACKNOWLEDGE", b"CONTIGUOUS"]])
        order = rng.choice([[], [b"ORDER", b"ALL"], [b"ORDER", b"ANY"]])
        return [*found, b"TAKEOVER", rng.choice(TAKEOVERS), *acknowledge, *order]

    def _move(self, key: bytes, name: bytes, replica: Replica) -> list[Argv]:
        """A move to some region; mostly sent only where it may be made."""
        rng = self.rng
        target, options = b"%d" % rng.randrange(1, self._regions + 1), rng.choice(WAITS)
        group = group_at(replica, key, name)
        here = group is not None and is_held(group, region_of(replica.applied.origin))
        if group is None or (not here and rng.random() < HOLDER_ODDS):
            return []
        pending = [format_id(row.entry_id) for row in group.pending.rows(ID_MIN, ID_MAX, -1, None)]
        # A move by force leaves something behind.
        finishes = here and pending and b"FORCE" not in options and rng.random() < FINISH_ODDS
        finished = [[b"XACK", key, name, *pending]] if finishes else []
        return [*finished, [b"CRDT.GROUP", b"MOVE", key, name, target, *options]]

    def _start(self, key: bytes, name: bytes, replica: Replica) -> Argv:
        rng, stream = self.rng, replica.keyspace.find((0, key))
        unread = [] if stream is None else unread_ids(stream, name)
        if unread and rng.random() < 0.3:
            return [b"ID", format_id(rng.choice(unread))]
        time = [b"TIME", b"%d" % max(0, replica.keyspace.now_ms - rng.randrange(1_000))]
        return rng.choice([[b"ID", b"0"], [b"ID", b"0"], [b"NEW"], time, [b"CURSOR", b"0"]])


def group_at(replica: Replica, key: bytes, name: bytes) -> Group | None:
    stream = replica.keyspace.find((0, key))
    return None if stream is None else stream.groups.get(name)


def is_held(group: Group, region: int) -> bool:
    """True if this region delivers entries of the group."""
    rules = group.rules
    if rules.is_everywhere:
        return False
    return rules.deliverer(ANY_REGION if rules.mode == OWNER else region) == region
