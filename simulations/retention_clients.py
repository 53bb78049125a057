"""Clients that set properties of streams: how long entries are kept.

They remove nothing themselves, so that what is removed is removed by retention. They change what other clients of their
world send, and draw that from a source of their own.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from crdtstream.settings.config import Limits
from simulations.property_clients import Argv

SET_ODDS = 0.15
LIMITS = (
    *((b"MAXLEN", b"3"), (b"MAXLEN", b"8"), (b"MAXBYTES", b"400"), (b"MAXBYTES", b"1500"), (b"MAXAGE", b"1000")),
    *((b"ACKED",), (b"ACKED", b"MAXLEN", b"0", b"MAXAGE", b"0", b"MAXBYTES", b"0"), (b"MAXLEN", b"2", b"ACKED")),
    *((b"MAXLEN", b"4", b"ACKED"), (b"MAXAGE", b"1000", b"ACKED", b"YES"), (b"ACKED", b"NO")),
    *((b"MAXLEN", b"0"), (b"MAXBYTES", b"NONE", b"MAXAGE", b"NONE"), (b"ACKED", b"NO", b"MAXLEN", b"6")),
)
REMOVING = (b"XDEL", b"XDELEX", b"XTRIM")


def with_limits(rng: Random, argv: Argv) -> list[Argv]:
    """Return what a client sends instead of this command."""
    if argv[0] in REMOVING:
        return [set_limits(rng, argv[1])]
    if argv[0] == b"XACKDEL":
        return [[b"XACK", *argv[1:3], *argv[argv.index(b"IDS") + 2 :]]]
    if argv[0] == b"XADD":
        added = argv if argv[2] != b"MAXLEN" else [*argv[:2], *argv[4:]]
        return [added, set_limits(rng, argv[1])] if rng.random() < SET_ODDS else [added]
    return [argv]


def set_limits(rng: Random, key: bytes) -> Argv:
    return [b"CRDT.STREAM", b"SET", key, *rng.choice(LIMITS)]


def draw_retention(rng: Random, limits: Limits) -> Limits:
    """Draw after what silence a region removes what another one wrote."""
    return replace(limits, retention_takeover_ms=rng.choice([600, 1_500, 60_000]))
