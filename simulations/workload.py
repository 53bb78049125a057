"""The commands of simulated clients, drawn from one random source, on few keys, so that they conflict.

Groups `g` and `h` are only read and acknowledged; `s` may also skip entries (SETID, LASTID, DELCONSUMER), so delivery
is checked for `g` and `h` only. IDs to delete and to acknowledge are drawn from what the region holds, because random
IDs would rarely exist.
"""

from __future__ import annotations

from random import Random

from crdtstream.core.replica import Replica
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.entry_id import STRICT, format_id
from simulations.delivery_clients import DeliveryClients
from simulations.letter_clients import LETTERS, with_letters
from simulations.named_adds import with_names
from simulations.property_clients import Argv, with_properties
from simulations.retention_clients import with_limits
from simulations.spill_clients import with_cold_reads

KEYS: tuple[bytes, ...] = (b"x", b"y", b"z")
READ_GROUPS = (b"g", b"h")
SKIP_GROUP = b"s"
CONSUMERS = (b"a", b"b")
LARGE_ODDS = 0.2
LARGE_BYTES_MAX = 20_000
# Some are too large for the smallest bound of a batch, others almost.
ADDED_BYTES = (500, 2_000, 4_500, 5_500, 9_000, 14_000)
MANY_BYTES = 1_000

KINDS = (
    *("add", "read", "ack", "delete", "trim", "create", "destroy", "drop", "claim", "skip", "look", "rebirth", "run"),
    "expire",
)
# The weight of each kind in the order of KINDS, the number of keys used, and the groups.
PROFILES = {
    "mixed": ((40, 22, 22, 6, 3, 5, 1, 1, 3, 2, 4, 1, 2, 4), 3, (*READ_GROUPS, SKIP_GROUP)),
    "groups": ((25, 25, 25, 3, 1, 10, 1, 1, 2, 2, 1, 1, 12, 0), 1, READ_GROUPS),
    "skips": ((25, 25, 25, 3, 1, 8, 1, 1, 4, 8, 1, 0, 4, 0), 1, (SKIP_GROUP,)),
    "rebirths": ((20, 10, 10, 2, 1, 20, 10, 8, 1, 1, 1, 12, 6, 2), 1, READ_GROUPS[:1]),
    "deletes": ((40, 8, 8, 15, 8, 6, 4, 8, 1, 1, 2, 1, 1, 0), 2, READ_GROUPS[:1]),
    "adds": ((80, 4, 4, 1, 4, 3, 1, 1, 0, 0, 4, 0, 1, 0), 1, READ_GROUPS[:1]),
    "expiries": ((30, 14, 14, 3, 2, 8, 1, 1, 1, 1, 2, 1, 2, 20), 2, READ_GROUPS[:1]),
}
# What most clients do where they set properties: what a group promises shows only while it and its entries live.
QUEUES = ((180, 150, 180, 9, 0, 42, 1, 1, 15, 0, 3, 1, 0, 0), 1, READ_GROUPS[:1])
QUEUES_ODDS = 0.75


class Workload:
    """The clients of one world; `profile` says what they do most."""

    def __init__(
        self,
        rng: Random,
        profile: str,
        id_mode: str,
        references: Random | None = None,
        bounds: Random | None = None,
        properties: Random | None = None,
        retention: Random | None = None,
        names: Random | None = None,
        letters: Random | None = None,
        streams: tuple[bytes, ...] = KEYS,
        letters_key: bytes = LETTERS,
    ) -> None:
        self.rng = rng
        self._references = references
        # Where the sizes of large entries come from, in worlds that have any.
        self.large: Random | None = None
        self._bounds = bounds
        self._properties = properties
        self._retention = retention
        # In worlds that have clients who choose which region delivers.
        self.delivering: DeliveryClients | None = None
        self._names = names
        # In worlds that spill.
        self.spilling: Random | None = None
        self._letters = letters
        queues = properties is not None and properties.random() < QUEUES_ODDS
        self.weights, keys, self.groups = QUEUES if queues else PROFILES[profile]
        self.keys = streams[:keys]
        self.letters_key = letters_key
        self.id_mode = id_mode

    @property
    def has_large(self) -> bool:
        """True if some entries take many messages."""
        return self.large is not None or self._bounds is not None

    def draw(self, replica: Replica) -> list[Argv]:
        """Draw the commands that a client of this region sends next, all at once."""
        commands = self._draw_known(replica)
        if self.spilling is not None:
            commands = [one for argv in commands for one in with_cold_reads(self.spilling, argv)]
        return commands

    def _draw_known(self, replica: Replica) -> list[Argv]:
        """Draw the same from clients that read little of what lies long behind."""
        commands = self._draw_plain(replica)
        if self._retention is not None:
            commands = [one for argv in commands for one in with_limits(self._retention, argv)]
        if self._names is not None:
            commands = [one for argv in commands for one in with_names(self._names, argv)]
        if self._properties is None:
            return commands
        commands = [one for argv in commands for one in with_properties(self._properties, argv, replica)]
        if self._letters is not None:
            key = self.letters_key
            commands = [one for argv in commands for one in with_letters(self._letters, argv, replica, key)]
        return commands if self.delivering is None else self.delivering.changed(commands, replica)

    def _draw_plain(self, replica: Replica) -> list[Argv]:
        """Draw the same from clients that know nothing of properties of groups."""
        rng = self.rng
        kind = rng.choices(KINDS, self.weights)[0]
        key = rng.choice(self.keys)
        group = rng.choice(self.groups)
        stream = replica.keyspace.find((0, key))
        if kind == "rebirth":
            return rebirth(rng, key, group, stream)
        if kind == "run":
            return run(rng, key, group, self.id_mode)
        return self._bounded(self._enlarged(self._with_references(self._draw_one(kind, key, group, stream))))

    def _enlarged(self, argv: Argv) -> Argv:
        """Let an entry take many messages."""
        if self.large is None or argv[0] != b"XADD" or self.large.random() >= LARGE_ODDS:
            return argv
        return [*argv[:-1], argv[-1] + b"." * self.large.randrange(LARGE_BYTES_MAX)]

    def _with_references(self, argv: Argv) -> Argv:
        """Let a removal say what happens to references, in worlds that have a source to draw that from."""
        if self._references is None or argv[0] not in (b"XDEL", b"XTRIM", b"XACK"):
            return argv
        strategy = self._references.choice([b"KEEPREF", b"DELREF", b"DELREF", b"ACKED", b"ACKED"])
        if argv[0] == b"XTRIM":
            return [*argv, strategy]
        named = argv[2:] if argv[0] == b"XDEL" else argv[3:]
        rest = [strategy, b"IDS", b"%d" % len(named), *named]
        if argv[0] == b"XDEL":
            return [b"XDELEX", argv[1], *rest]
        return [b"XACKDEL", argv[1], argv[2], *rest] if self._references.random() < 0.3 else argv

    def _bounded(self, argv: Argv) -> list[Argv]:
        """Make some adds large, or many, in worlds that have a source to draw that from."""
        bounds = self._bounds
        if bounds is None or argv[0] != b"XADD" or bounds.random() < 0.6:
            return [argv]
        if bounds.random() < 0.5:
            return [[*argv[:-1], b"v" * bounds.choice(ADDED_BYTES)]]
        return [[*argv[:-1], b"v" * MANY_BYTES] for _ in range(bounds.randrange(2, 8))]

    def draw_rebirth(self) -> list[Argv]:
        """Destroy and create a group, whatever the profile."""
        key, group = self.rng.choice(self.keys), self.rng.choice(self.groups)
        return [[b"XGROUP", b"DESTROY", key, group], create(self.rng, key, group)]

    def _draw_one(self, kind: str, key: bytes, group: bytes, stream: Stream | None) -> Argv:
        rng = self.rng
        if kind == "add":
            return add(rng, key, self.id_mode)
        if kind == "read":
            return read(rng, key, group)
        if kind == "create":
            return create(rng, key, group)
        if kind == "expire":
            return expire(rng, key)
        if kind == "drop":
            return [b"DEL", key]
        if kind == "trim":
            return [b"XTRIM", key, b"MAXLEN", b"%d" % rng.randrange(12)]
        if kind == "look" or stream is None:
            return rng.choice([[b"XLEN", key], [b"XRANGE", key, b"-", b"+"], [b"XINFO", b"STREAM", key, b"FULL"]])
        return on_stream(rng, kind, key, group, stream)


def create(rng: Random, key: bytes, group: bytes) -> Argv:
    return [b"XGROUP", b"CREATE", key, group, rng.choice([b"0", b"0", b"$"]), b"MKSTREAM"]


def expire(rng: Random, key: bytes) -> Argv:
    """Draw an expiry: very soon, within the duration of a fault, or perhaps not before the end."""
    if rng.random() < 0.2:
        return [b"PERSIST", key]
    within_ms = rng.choice([60, 800, 3_000])
    condition = rng.choice([[], [], [b"NX"], [b"XX"], [b"GT"], [b"LT"]])
    return [b"PEXPIRE", key, b"%d" % rng.randrange(1, within_ms), *condition]


def rebirth(rng: Random, key: bytes, group: bytes, stream: Stream | None) -> list[Argv]:
    """Acknowledge in a group, then destroy and create it, in about one turn."""
    acks = [] if stream is None else [[b"XACK", key, group, *pending_ids(rng, stream, group)]]
    end = [b"XGROUP", b"DESTROY", key, group] if rng.random() < 0.7 else [b"DEL", key]
    rest = [end, create(rng, key, group), read(rng, key, group)]
    return [*acks, *rest[: rng.randrange(1, 4)]]


def run(rng: Random, key: bytes, group: bytes, id_mode: str) -> list[Argv]:
    """Draw alternating adds, reads and trims: effects and local facts that must be replayed in this order."""
    commands: list[Argv] = []
    for _ in range(rng.randrange(1, 4)):
        commands += [add(rng, key, id_mode), read(rng, key, group)]
    if rng.random() < 0.5:
        commands.append([b"XTRIM", key, b"MAXLEN", b"%d" % rng.randrange(3)])
    return commands


def add(rng: Random, key: bytes, id_mode: str) -> Argv:
    entry_id = b"*"
    if id_mode != STRICT and rng.random() < 0.3:
        entry_id = b"%d-%d" % (rng.randrange(10**12), rng.randrange(4))
    trim = [b"MAXLEN", b"%d" % rng.randrange(5, 20)] if rng.random() < 0.05 else []
    return [b"XADD", key, *trim, entry_id, b"f", b"%d" % rng.randrange(1000)]


def read(rng: Random, key: bytes, group: bytes) -> Argv:
    count = b"%d" % rng.randrange(1, 6)
    noack = [b"NOACK"] if rng.random() < 0.1 else []
    position = rng.choice([b">", b">", b">", b"0"])
    consumer = rng.choice(CONSUMERS)
    return [b"XREADGROUP", b"GROUP", group, consumer, b"COUNT", count, *noack, b"STREAMS", key, position]


def on_stream(rng: Random, kind: str, key: bytes, group: bytes, stream: Stream) -> Argv:
    """Draw a command that addresses existing data."""
    if kind == "delete":
        return [b"XDEL", key, *some_ids(rng, stream, 3)]
    if kind == "destroy":
        return [b"XGROUP", b"DESTROY", key, group]
    if kind == "ack":
        return [b"XACK", key, group, *pending_ids(rng, stream, group)]
    if kind == "claim":
        consumer = rng.choice(CONSUMERS)
        if rng.random() < 0.5:
            return [b"XAUTOCLAIM", key, group, consumer, b"0", b"0", b"COUNT", b"3"]
        return [b"XCLAIM", key, group, consumer, b"0", *pending_ids(rng, stream, group)]
    if rng.random() < 0.5:
        return [b"XGROUP", b"SETID", key, SKIP_GROUP, rng.choice([b"0", b"$", *some_ids(rng, stream, 1)])]
    return [b"XGROUP", b"DELCONSUMER", key, SKIP_GROUP, rng.choice(CONSUMERS)]


def some_ids(rng: Random, stream: Stream, most: int) -> list[bytes]:
    ids = [entry_id for origin in sorted(stream.trees) for part in all_slices(stream, origin) for entry_id in part]
    chosen = rng.sample(ids, min(len(ids), rng.randrange(1, most + 1)))
    return [format_id(entry_id) for entry_id in chosen] or [b"1-1"]


def all_slices(stream: Stream, origin: int) -> list[list[tuple[int, int]]]:
    top = stream.trees[origin].last_id()
    return [] if top is None else [part.ids() for part in stream.trees[origin].slices((0, 0), top, -1, False)]


def pending_ids(rng: Random, stream: Stream, group: bytes) -> list[bytes]:
    known = stream.groups.get(group)
    if known is None:
        return [b"1-1"]
    ids = [entry_id for origin in sorted(stream.trees) for entry_id in known.pending.ids(origin, None)]
    in_order = rng.random() < 0.5
    chosen = sorted(ids)[: rng.randrange(1, 5)] if in_order else rng.sample(ids, min(len(ids), 3))
    return [format_id(entry_id) for entry_id in chosen] or [b"1-1"]
