"""Clients of groups with dead letters: they claim, give entries up, and bring letters back.

They change what other clients of their world send, and draw that from a source of their own. Both groups of a key send
their letters to one key, which no other client uses.
"""

from __future__ import annotations

from random import Random

from crdtstream.core.replica import Replica
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN, format_id
from simulations.property_clients import Argv

LETTERS = b"dead"
OTHER_GROUP = b"h"
CLAIM_ODDS = 0.4
OTHER_ODDS = 0.4
GIVE_UP_ODDS = 0.05
REDRIVE_ODDS = 0.1


def with_letters(rng: Random, argv: Argv, replica: Replica, letters: bytes = LETTERS) -> list[Argv]:
    """Return what a client sends instead of this command."""
    if argv[:2] == [b"XGROUP", b"CREATE"]:
        limit = [b"MAXDELIVERIES", b"%d" % rng.randrange(1, 3), b"DEADLETTER", letters]
        create = [*argv, *([] if b"CRDT" in argv else [b"CRDT"]), *limit]
        return [create, [*create[:3], OTHER_GROUP, *create[4:]]]
    if argv[0] != b"XREADGROUP":
        return [argv]
    key, name = argv[-2], OTHER_GROUP if rng.random() < OTHER_ODDS else argv[2]
    reading = [*argv[:2], name, *argv[3:]]
    chance = rng.random()
    if chance < CLAIM_ODDS:
        return [[b"XAUTOCLAIM", key, name, argv[3], b"0", b"0", b"COUNT", b"3"], reading]
    if chance < CLAIM_ODDS + REDRIVE_ODDS:
        return [[b"CRDT.REDRIVE", key, name, b"COUNT", b"%d" % rng.randrange(1, 4)], reading]
    if chance < CLAIM_ODDS + REDRIVE_ODDS + GIVE_UP_ODDS:
        return [*given_up(rng, key, name, replica), reading]
    return [reading]


def given_up(rng: Random, key: bytes, name: bytes, replica: Replica) -> list[Argv]:
    """Return an XNACK FATAL of an entry that somebody here holds, if there is one."""
    stream = replica.keyspace.find((0, key))
    group = None if stream is None else stream.groups.get(name)
    rows = [] if group is None else group.pending.rows(ID_MIN, ID_MAX, -1, None)
    return [[b"XNACK", key, name, b"FATAL", b"IDS", b"1", format_id(rng.choice(rows).entry_id)]] if rows else []
