"""Random requests of the newest commands beside a model of them: the same replies."""

from __future__ import annotations

from random import Random

import pytest

from tests.commands.harness import Argument, Region
from tests.commands.newest_oracle import EntryId, Model, said
from tests.commands.portraits import Part, parsed

COMMANDS = 300
GROUPS, CONSUMERS = (b"g", b"h"), (b"a", b"b", b"c")
PRODUCERS, NAMES = (b"p", b"q"), (b"1", b"2", b"3", b"4", b"5")
FIELDS = ([b"f", b"v"], [b"f", b"w"], [b"f", b"v", b"g", b"w"], [b"g", b"w", b"f", b"v"], [b"f", b"", b"f", b"v"])
MODES = ("SILENT", "FAIL", "FATAL")


def plain(part: Part) -> object:
    """The reply as the model gives it."""
    kind, value = part
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value.decode() if kind == b"-" and isinstance(value, bytes) else value


def alike(ours: object, expected: object) -> bool:
    if isinstance(ours, list) and isinstance(expected, list):
        return len(ours) == len(expected) and all(map(alike, ours, expected))
    return expected == "any" or (type(ours) is type(expected) and ours == expected)


class Dialogue:
    """Both sides of a conversation, and what was said last."""

    def __init__(self, seed: int) -> None:
        self.rng, self.region, self.model = Random(seed), Region(), Model()
        self.lines: list[tuple[Argument, ...]] = []
        self.model.now_ms = self.region.context.now_ms
        for group in GROUPS:
            self.region.run("XGROUP", "CREATE", "s", group, "0", "MKSTREAM")

    def say(self, expected: object, *request: Argument) -> None:
        self.lines = [*self.lines[-40:], request]
        reply = self.region.run(*request)
        assert reply is not None
        ours = plain(parsed(reply))
        assert alike(ours, expected), (ours, expected, self.lines)

    def step(self) -> None:
        kinds = (self.add, self.read, self.release, self.acknowledge, self.claim, self.configure, self.look, self.wait)
        self.rng.choices(kinds, (9, 7, 5, 3, 2, 1, 3, 4))[0]()
        if self.rng.random() < 0.1:
            self.region.end_turn()

    # Kinds of requests

    def add(self) -> None:
        rng, model = self.rng, self.model
        producer, name, fields = rng.choice(PRODUCERS), rng.choice(NAMES), rng.choice(FIELDS)
        how = rng.randrange(3)
        if how == 0:
            self.say(model.xadd(fields), "XADD", "s", "*", *fields)
        elif how == 1:
            self.say(model.xadd_idmp(producer, name, fields), "XADD", "s", "IDMP", producer, name, "*", *fields)
        else:
            self.say(model.xadd_idmpauto(producer, fields), "XADD", "s", "IDMPAUTO", producer, "*", *fields)

    def read(self) -> None:
        rng, group, consumer = self.rng, self.rng.choice(GROUPS), self.rng.choice(CONSUMERS)
        count, claim_ms = rng.randrange(1, 5), rng.choice([None, 0, 5, 500, 5000])
        expected = self.model.xreadgroup(group, consumer, count, claim_ms)
        claim: list[Argument] = [] if claim_ms is None else ["CLAIM", claim_ms]
        self.say(expected, "XREADGROUP", "GROUP", group, consumer, "COUNT", count, *claim, "STREAMS", "s", ">")

    def ids(self, group: bytes, pending: bool) -> list[EntryId]:
        """Some IDs, none of which was released."""
        held = self.model.groups[group].pending
        known = sorted(held) if pending and held else sorted(self.model.entries)
        usable = [one for one in known[-12:] if one not in held or not held[one].released]
        return self.rng.sample(usable, min(len(usable), self.rng.randrange(1, 4))) or [(1, 1)]

    def release(self) -> None:
        rng, group = self.rng, self.rng.choice(GROUPS)
        ids, mode = self.ids(group, rng.random() < 0.7), rng.choice(MODES)
        count, force = rng.choice([None, None, 0, 7]), rng.random() < 0.3
        options: list[Argument] = [] if count is None else ["RETRYCOUNT", count]
        options += ["FORCE"] if force else []
        expected = self.model.xnack(group, mode, ids, count, force)
        self.say(expected, "XNACK", "s", group, mode, "IDS", len(ids), *map(said, ids), *options)

    def acknowledge(self) -> None:
        group = self.rng.choice(GROUPS)
        held = sorted(self.model.groups[group].pending) or [(1, 1)]
        ids = self.rng.sample(held, min(len(held), self.rng.randrange(1, 5)))
        self.say(self.model.xack(group, ids), "XACK", "s", group, *map(said, ids))

    def claim(self) -> None:
        group, consumer = self.rng.choice(GROUPS), self.rng.choice(CONSUMERS)
        held = sorted(self.model.groups[group].pending) or [(1, 1)]
        ids = self.rng.sample(held, min(len(held), 2))
        expected = self.model.xclaim(group, consumer, ids)
        self.say(expected, "XCLAIM", "s", group, consumer, 0, *map(said, ids), "JUSTID")

    def configure(self) -> None:
        rng, model = self.rng, self.model
        if rng.random() < 0.5 and model.entries:
            producer, name = rng.choice(PRODUCERS), rng.choice(NAMES)
            entry_id = rng.choice([*sorted(model.entries)[-5:], (1, 1)])
            self.say(model.xidmprecord(producer, name, entry_id), "XIDMPRECORD", "s", producer, name, said(entry_id))
            return
        seconds, records = rng.choice([1, 2, 100]), rng.choice([1, 3, 100])
        expected = model.xcfgset(seconds, records)
        self.say(expected, "XCFGSET", "s", "IDMP-DURATION", seconds, "IDMP-MAXSIZE", records)

    def look(self) -> None:
        group = self.rng.choice(GROUPS)
        self.say(self.model.xpending(group), "XPENDING", "s", group, "-", "+", 10_000)
        reply = plain(parsed(self.region.run("XINFO", "STREAM", "s", "FULL") or b""))
        assert isinstance(reply, list)
        told = dict(zip(reply[::2], map(repr, reply[1::2]), strict=True))
        groups = [dict(zip(row[::2], row[1::2], strict=True)) for row in reply[reply.index(b"groups") + 1]]
        told.update({row[b"name"]: repr(row[b"nacked-count"]) for row in groups})
        expected = self.model.counts()
        assert {name: told[name] for name in expected} == {name: repr(count) for name, count in expected.items()}

    def wait(self) -> None:
        """Not until exactly the time when a record expires, of which the reference says nothing."""
        self.model.now_ms += self.rng.choice([1, 1, 7, 400, 1300])
        while any((self.model.now_ms - at_ms) % 1000 == 0 for _, at_ms in self.model.records.values()):
            self.model.now_ms += 1
        self.region.replica.keyspace.now_ms = self.model.now_ms


def converse(seed: int, count: int) -> None:
    dialogue = Dialogue(seed)
    for _ in range(count):
        dialogue.step()
    dialogue.region.check()


@pytest.mark.parametrize("seed", range(20))
def test_some_conversations(seed: int) -> None:
    converse(seed, COMMANDS)


@pytest.mark.slow
def test_sixty_thousand_commands() -> None:
    for seed in range(100, 100 + 60_000 // COMMANDS):
        converse(seed, COMMANDS)
