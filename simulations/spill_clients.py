"""What clients also do in worlds that spill: they read what lies long behind, let transactions open blocks, and wait in
a group for entries that may be on disk by then.

They change what other clients of their world send, and draw that from a source of their own.
"""

from __future__ import annotations

from random import Random

from simulations.property_clients import Argv

LOOK_ODDS = 0.3
TRANSACTION_ODDS = 0.4
BLOCK_ODDS = 0.7
# What a transaction may hold: history has no entries or groups that one made.
IN_TRANSACTIONS = (b"XDEL", b"XTRIM", b"XRANGE", b"XLEN")
# Delivery to it is not checked, and it is set back to entries long before.
WAITED_GROUP = b"s"


class Transaction(list[bytes]):
    """An EXEC, and what is queued before it."""

    def __init__(self, queued: list[Argv]) -> None:
        super().__init__([b"EXEC"])
        self.queued = queued


def with_cold_reads(rng: Random, argv: Argv) -> list[Argv]:
    """Return what a client sends instead of this command."""
    key = argv[-2] if argv[0] == b"XREADGROUP" else argv[1]
    if argv[0] in IN_TRANSACTIONS and rng.random() < TRANSACTION_ODDS:
        return [Transaction([argv, look(rng, key)] if rng.random() < 0.5 else [look(rng, key), argv])]
    if argv[0] == b"XREADGROUP":
        argv = with_block(rng, argv)
    if argv[0] in (b"XADD", b"XREADGROUP", b"XACK") and rng.random() < LOOK_ODDS:
        return [argv, look(rng, key)]
    return [argv]


def look(rng: Random, key: bytes) -> Argv:
    count = b"%d" % rng.randrange(1, 6)
    return rng.choice(
        [
            [b"XRANGE", key, b"-", b"+", b"COUNT", count],
            [b"XREVRANGE", key, b"+", b"-"],
            [b"XREAD", b"COUNT", count, b"STREAMS", key, b"0"],
            [b"XINFO", b"STREAM", key, b"FULL"],
            [b"DUMP", key],
        ]
    )


def with_block(rng: Random, argv: Argv) -> Argv:
    waits = argv[2] == WAITED_GROUP and argv[-1] == b">" and b"NOACK" not in argv and rng.random() < BLOCK_ODDS
    at = argv.index(b"STREAMS")
    return [*argv[:at], b"BLOCK", b"%d" % rng.choice([30, 200]), *argv[at:]] if waits else argv
