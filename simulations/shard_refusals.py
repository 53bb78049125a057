"""What a shard must refuse, by the definition of Redis Cluster alone: requests of which it has not every key, and links
to other shards.

Hash slots are computed bit by bit here, and split in the middle; nothing of the product is used.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random

from crdtstream.scenarios.reply import ReplyError, Value
from simulations.property_clients import Argv
from simulations.spill_clients import Transaction

SHARDS = 2
HASH_SLOTS = 16_384
POLYNOMIAL = 0x1021
TAG = re.compile(rb"[^{]*\{([^}]+)\}")
# The first and the last hash slot of each shard, and braces that make no hash tag, or one in the middle.
EDGES = (b"edge2192", b"edge10922", b"edge27922", b"edge3623")
BRACES = (b"{", b"{}x", b"}{y", b"a{b", b"{{z}}", b"x{}{y}", b"n{m}o", b"{k}{l}")
NAMES = (*EDGES, *BRACES, *(b"%c" % letter for letter in range(ord("a"), ord("k"))))
TAGGED_ODDS = 0.5
TAGGED = (b"x", b"y", b"z")
QUEUED = "QUEUED"
# What a shard says that refuses a link.
SAID = {"hello", "refused"}
REFUSALS = ("MOVED", "CROSSSLOT", "CLUSTERDOWN")
# Of these the key is the third word.
SECOND_WORDS = (b"XGROUP", b"XINFO", b"CRDT.GROUP", b"CRDT.STREAM")


@lru_cache(maxsize=1 << 10)
def slot_of(key: bytes) -> int:
    tag = TAG.match(key)
    crc = 0
    for byte in key if tag is None else tag[1]:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ (POLYNOMIAL if crc & 0x8000 else 0)) & 0xFFFF
    return crc % HASH_SLOTS


def shard_of(key: bytes) -> int:
    return slot_of(key) * SHARDS // HASH_SLOTS


def draw_keys(rng: Random, shard: int, has_letters: bool) -> tuple[tuple[bytes, ...], bytes]:
    """Draw the streams that clients use in a shard, with one hash tag or with a hash slot each, and the key of their
    dead letters, which must have the hash slot of each stream.
    """
    names = [name for name in NAMES if shard_of(name) == shard]
    if has_letters or rng.random() < TAGGED_ODDS:
        tag = rng.choice([name for name in names if b"{" not in name and b"}" not in name])
        return tuple(b"{%b}%b" % (tag, name) for name in TAGGED), b"{%b}dead" % tag
    return tuple(rng.sample(names, len(TAGGED))), b"dead"


def keys_in(argv: Argv) -> list[bytes]:
    """Return the keys of a command of a simulated client or operator."""
    name = argv[0]
    if name == b"CRDT.EVICT":
        return []
    if isinstance(argv, Transaction):
        return [key for queued in argv.queued for key in keys_in(queued)]
    if name in (b"XREAD", b"XREADGROUP"):
        streams = argv[argv.index(b"STREAMS") + 1 :]
        return streams[: len(streams) // 2]
    if name == b"DEL":
        return argv[1:]
    keys = argv[2:3] if name in SECOND_WORDS else argv[1:2]
    return [*keys, argv[argv.index(b"DEADLETTER") + 1]] if b"DEADLETTER" in argv else keys


def refusal_of(names: list[bytes], shard: int, addresses: list[str]) -> str:
    """Return how the answer of a shard to a request with these keys begins; empty if it serves the request. An empty
    address is not known.
    """
    hash_slot, serving = slot_of(names[0]), shard_of(names[0])
    if serving != shard and not addresses[serving]:
        return "CLUSTERDOWN"
    if len({slot_of(name) for name in names}) > 1:
        return "CROSSSLOT"
    return "" if serving == shard else f"MOVED {hash_slot} {addresses[serving]}"


@dataclass
class Refused:
    """A command that a shard must refuse: how each answer must begin, the answers, and whether the shard has logged
    anything meanwhile. A transaction has an answer for each of its commands.
    """

    argv: Argv
    expected: list[str]
    values: list[Value]
    changed: bool

    def is_as_expected(self) -> bool:
        texts = [value.text if isinstance(value, ReplyError) else str(value) for value in self.values]
        expected = list(self.expected)
        for at, text in enumerate(texts[: len(expected)]):
            if expected[at] == QUEUED and text != QUEUED and not text.startswith(REFUSALS):
                # It belongs here and cannot run now, as while the region waits for others.
                expected[at], expected[-1] = text, "EXECABORT"
        together = zip(texts, expected, strict=False)
        return len(texts) == len(expected) and all(f"{text} ".startswith(f"{start} ") for text, start in together)


@dataclass
class WrongLink:
    """A link that must not be: who greeted whom, what the greeted one said, why either closed it, if it did, and
    whether anything of other regions came meanwhile.
    """

    ends: str
    said: list[str] = field(default_factory=list)
    reasons: list[str | None] = field(default_factory=list)
    changed: bool = False

    def is_refused(self) -> bool:
        return all(self.reasons) and set(self.said) <= SAID and not self.changed


def requests_of(argv: Argv) -> list[Argv]:
    return [[b"MULTI"], *argv.queued, [b"EXEC"]] if isinstance(argv, Transaction) else [argv]


def answers_expected(argv: Argv, shard: int, addresses: list[str]) -> list[str]:
    """Return how the answers to a command must begin that this shard cannot serve."""
    if not isinstance(argv, Transaction):
        return [refusal_of(keys_in(argv), shard, addresses)]
    queued = [refusal_of(keys_in(one), shard, addresses) for one in argv.queued]
    end = "EXECABORT" if any(queued) else refusal_of(keys_in(argv), shard, addresses)
    return ["OK", *(refusal or QUEUED for refusal in queued), end]


def with_two_slots(rng: Random, own: bytes, other: bytes) -> Argv:
    """Draw a request with keys of two hash slots, which belongs nowhere."""
    added = [[b"XADD", key, b"*", b"f", b"v"] for key in (own, other)]
    return rng.choice(
        [
            [b"DEL", own, other],
            [b"XREAD", b"BLOCK", b"40", b"STREAMS", own, other, b"0", b"0"],
            [b"XREADGROUP", b"GROUP", b"g", b"a", b"BLOCK", b"40", b"STREAMS", own, other, b">", b">"],
            [b"XGROUP", b"CREATE", own, b"g", b"0", b"MKSTREAM", b"CRDT", b"MAXDELIVERIES", b"2", b"DEADLETTER", other],
            Transaction(added),
            Transaction([added[0], [b"DEL", other]]),
        ]
    )
