"""Clients that name their adds, in several regions under the same few names.

They change what other clients of their world send, and draw that from a source of their own.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from crdtstream.settings.config import Limits
from simulations.property_clients import Argv

NAMED_ODDS = 0.7
PRODUCERS = (b"p", b"q")
NAMES = 6


def with_names(rng: Random, argv: Argv) -> list[Argv]:
    """Return what a client sends instead of this command."""
    if argv[0] != b"XADD" or argv[4 if argv[2] == b"MAXLEN" else 2] != b"*" or rng.random() >= NAMED_ODDS:
        return [argv]
    name = [b"IDMP", rng.choice(PRODUCERS), b"%d" % rng.randrange(NAMES)]
    return [[*argv[:2], *name, *argv[2:]]]


def draw_names(rng: Random, limits: Limits) -> Limits:
    """Draw for how long a region recognises a name: mostly so short that clients use names again."""
    return replace(limits, stream_idmp_duration_s=rng.choice([1, 1, 100]))
