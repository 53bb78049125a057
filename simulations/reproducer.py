"""Converts a run to a scenario that reproduces its violation.

`Recorder` observes a run and writes it down as steps of a scenario: each command in its turn, each message sent and
received, each fault. A `Reproducer` is such a plan, or a part of it, as the text of a scenario.

A scenario cannot express everything. Left out are wrong clocks, the first greeting of a connection, which pages of an
unsynced write survived, late regions, logs shorter than members need, and bounds and volumes that are small.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from shlex import quote

from crdtstream.core.values.causality import VersionVector
from crdtstream.core.values.entry_id import STRICT
from crdtstream.replication.wire_pb2 import Message
from crdtstream.scenarios.reply import Value
from crdtstream.settings.config import ALWAYS
from simulations.history import Violation
from simulations.network import START_MS, Connection, Network, Watcher
from simulations.scenario import Scenario
from simulations.settings import Settings, pairs_of

NEEDS_QUOTES = re.compile(r"[\s'\"\\]")
CRASH = "crash"
CLOCK = "clock "
CLOCK_MS = 50
SEEN_MAX = 110


@dataclass
class Step:
    """One line of the plan: a command of `region` in turn `turn`, or a step of the scenario language.

    `sent` is the command as the client sent it, if `text` asks for the ID that it received.
    """

    text: str
    region: int = 0
    turn: int = 0
    sent: str = ""

    @property
    def is_command(self) -> bool:
        return self.turn > 0


@dataclass
class Recorder(Watcher):
    """The plan of a run."""

    steps: list[Step] = field(default_factory=list)
    _turn: int = 0
    _clock_ms: int = 0
    _asked: dict[int, tuple[list[bytes], Step]] = field(default_factory=dict)
    _greeted: set[tuple[int, int]] = field(default_factory=set)
    _greetings: list[bytes] = field(default_factory=list)
    _open: dict[tuple[int, int], set[int]] = field(default_factory=dict)
    _stopped_by: dict[int, str] = field(default_factory=dict)
    _unborn: dict[int, Step] = field(default_factory=dict)
    _full: set[int] = field(default_factory=set)
    _had: dict[int, list[tuple[Step, VersionVector]]] = field(default_factory=dict)
    _policies: dict[int, str] = field(default_factory=dict)

    def asked(self, world: Network, number: int, argv: list[bytes]) -> None:
        last = self.steps[-1] if self.steps else None
        if last is None or last.turn != self._turn or last.region != number:
            self._turn += 1
        step = Step(words_of(argv), number, self._turn)
        self.steps.append(step)
        self._asked[id(argv)] = (argv, step)

    def put_off(self, world: Network, number: int, argv: list[bytes]) -> None:
        """The plan has it when it runs."""
        known = self._asked.pop(id(argv), None)
        if known is not None:
            self.steps.remove(known[1])

    def commanded(self, world: Network, number: int, argv: list[bytes], value: Value) -> None:
        """Ask for the ID that the region chose, so that the clock plays no part in it."""
        known = self._asked.pop(id(argv), None)
        if known is not None and argv[0] == b"XADD" and b"*" in argv and isinstance(value, str):
            chosen = value.split("-")[0] if world.settings.id_mode == STRICT else value
            at = argv.index(b"*")
            known[1].sent = known[1].text
            known[1].text = words_of([*argv[:at], chosen.encode(), *argv[at + 1 :]])

    def sent(self, world: Network, connection: Connection, sender: int, message: Message, data: bytes) -> None:
        if (connection.number, sender) in self._greeted:
            self.steps.append(Step(f"send {sender} {connection.other(sender)}"))
        else:
            self._greeted.add((connection.number, sender))
            self._greetings.append(data)

    def received(self, world: Network, connection: Connection, receiver: int, message: Message, data: bytes) -> None:
        if not any(data is greeting for greeting in self._greetings):
            self.steps.append(Step(f"arrive {connection.other(receiver)} {receiver}"))

    def opened(self, world: Network, connection: Connection) -> None:
        joined = self._open.setdefault(connection.ends, set())
        if not joined:
            self.steps.append(Step(f"heal {connection.ends[0]} {connection.ends[1]}"))
        joined.add(connection.number)

    def closed(self, world: Network, connection: Connection, end: int, reason: str) -> None:
        joined = self._open.get(connection.ends, set())
        if joined == {connection.number}:
            self.steps.append(Step(f"cut {connection.ends[0]} {connection.ends[1]}"))
        joined.discard(connection.number)

    def stopped(self, world: Network, number: int, fault: str) -> None:
        self._stopped_by[number] = fault
        if world.machines[number].config.fsync == ALWAYS:
            self._forget_unanswered(number)
        for ends, joined in self._open.items():
            if number in ends and joined:
                joined.clear()
                self.steps.append(Step(f"cut {ends[0]} {ends[1]}"))

    def _forget_unanswered(self, number: int) -> None:
        """Drop unanswered commands: when repeated under `always`, they would be answered and durable at once."""
        unanswered = [step for _, step in self._asked.values() if step.region == number]
        self.steps = [step for step in self.steps if not any(step is gone for gone in unanswered)]

    def started(self, world: Network, number: int, fault: str) -> None:
        fault = self._stopped_by.get(number, fault)
        if fault == "disk-loss":
            self._unborn[number] = Step("")
            self.steps.append(self._unborn[number])
        elif fault in ("kill", "rot"):
            self.steps.append(Step(f"kill {number}"))
        else:
            self._save_what_came_back(number, world.machines[number].node.replica.applied.vector)
            self.steps.append(Step(f"power-loss {number}"))
        self._had[number] = [(self.steps[-1], world.machines[number].node.replica.applied.vector.copy())]

    def _save_what_came_back(self, number: int, recovered: VersionVector) -> None:
        """Move the last sync to where the region held no more than it recovered: a power loss then loses as much."""
        kept = {id(step) for step, had in self._had.get(number, []) if recovered.descends(had)}
        after = max((at + 1 for at, step in enumerate(self.steps) if id(step) in kept), default=0)
        sync = Step(f"fsync {number}")
        self.steps[after:] = [sync, *(step for step in self.steps[after:] if step.text != sync.text)]

    def synced(self, world: Network, number: int) -> None:
        if self.steps and self.steps[-1].text != f"fsync {number}":
            self.steps.append(Step(f"fsync {number}"))

    def saved(self, world: Network, number: int) -> None:
        self.steps.append(Step(f"checkpoint {number}"))

    def looked(self, world: Network) -> None:
        self._turn += 1
        now_ms = world.now_ms - START_MS
        if now_ms >= self._clock_ms + CLOCK_MS:
            self._clock_ms = now_ms
            self.steps.append(Step(f"{CLOCK}{now_ms}"))
        for number in list(self._unborn):
            if world.machines[number].node.membership.serving():
                self._unborn.pop(number).text = f"disk-loss {number} {world.machines[number].starts - 1}"
        for number, machine in world.machines.items():
            self._policies.setdefault(number, machine.config.fsync)
        full = {number for number, machine in world.machines.items() if machine.disk.capacity_bytes is not None}
        self.steps += [Step(f"disk-full {number}") for number in sorted(full - self._full)]
        self.steps += [Step(f"disk-room {number}") for number in sorted(self._full - full)]
        self._full = full
        for number, machine in world.machines.items():
            rows, vector = self._had.setdefault(number, []), machine.node.replica.applied.vector
            if machine.up and self.steps and (not rows or rows[-1][1] != vector):
                rows.append((self.steps[-1], vector.copy()))

    def plan(self, clocks: bool = False) -> list[Step]:
        """Return the steps, with or without those that only let time pass."""
        return [step for step in self.steps if step.text and (clocks or not step.text.startswith(CLOCK))]

    def fsync(self) -> tuple[str, ...]:
        """Return the initial fsync policies of the regions."""
        return tuple(policy for _, policy in sorted(self._policies.items()))


def words_of(argv: list[bytes]) -> str:
    words = [word.decode(errors="backslashreplace") for word in argv]
    return " ".join(quote(word) if NEEDS_QUOTES.search(word) or not word else word for word in words)


# A plan as a text


@dataclass
class Reproducer:
    """A plan and its settings; `check` names the checker that it violates."""

    settings: Settings
    steps: list[Step]
    title: str = ""
    check: str = ""
    fsync: tuple[str, ...] = ()

    def text(self) -> str:
        head = [f"# {self.title}"] if self.title else []
        head += [f"regions {self.settings.regions}", f"id-mode {self.settings.id_mode}"]
        if self.settings.topology != "mesh":
            head.append(f"topology {self.settings.topology}")
        if self.fsync:
            head.append(f"fsync {' '.join(self.fsync)}")
        lines = [*head, "", *self._recorded(), *self._healed(), "  sync"]
        return "\n".join([*lines, *([f"  check {self.check}"] if self.check else []), ""])

    def _recorded(self) -> Iterator[str]:
        for _, group in groupby(enumerate(self.steps), lambda pair: pair[1].turn or -pair[0] - 1):
            steps = [step for _, step in group]
            if len(steps) > 1:
                yield f"  turn {steps[0].region}"
                yield from (f"    {step.text}" for step in steps)
            else:
                yield f"  {steps[0].region}> {steps[0].text}" if steps[0].is_command else f"  {steps[0].text}"

    def _healed(self) -> list[str]:
        """Return steps that heal what the plan leaves broken. Links of a full or late region are opened again."""
        cut: set[str] = set()
        full: set[str] = set()
        refused: set[str] = set()
        for step in self.steps:
            name, _, where = step.text.partition(" ")
            if step.is_command:
                continue
            if name in ("cut", "heal"):
                (cut.add if name == "cut" else cut.discard)(where)
            elif name == "disk-full":
                full.add(where)
                pairs = pairs_of(self.settings.topology, self.settings.regions)
                refused |= {f"{low} {high}" for low, high in pairs if where in (str(low), str(high))}
            elif name == "disk-room":
                full.discard(where)
            elif name == "clock":
                refused |= {f"{low} {high}" for low, high in pairs_of(self.settings.topology, self.settings.regions)}
        room = [f"  disk-room {number}" for number in sorted(full)]
        again = [f"  cut {link}" for link in sorted(refused - cut)]
        return [*room, *again, *(f"  heal {link}" for link in sorted(refused | cut))]

    def violated(self) -> str:
        """Run the reproducer; return the checker that it violates, or where it crashes, or an empty text."""
        try:
            Scenario(self.text()).run()
        except Violation as violation:
            return violation.checker
        except Exception as error:
            return crash_name(error)
        return ""

    def replied(self) -> str:
        """Return the text with the replies up to the failure, and the failure itself."""
        scenario = Scenario(self.text())
        try:
            scenario.run()
        except Exception as error:
            seen = " ".join(f"{type(error).__name__}: {error}".split())
            title, _, rest = scenario.rewritten().partition("\n")
            return f"{title}\n# {shorten(seen, SEEN_MAX)}\n{rest}"
        return scenario.rewritten()


def shorten(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def crash_name(error: Exception) -> str:
    """Return where a crash happened, to distinguish it from other crashes."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"{CRASH} {type(error).__name__} in {where.name}"
