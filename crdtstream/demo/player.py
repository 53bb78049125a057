"""Plays stories on a cluster and records what each moment produced and what did not hold.

At the start of a story every link is held, and only its steps move anything between regions:

    sync            the links among these regions carry everything pending until they agree, and are held again
    cut, heal       a link is dropped, or is there again
    pass            every link carries for so long, and until those that wait are answered; logs sync by themselves
    effects         how many effects the last command of a region made
    differ          the digests of two regions

A command that waits is only sent: on real processes time passes anyway, so it may be answered sooner than simulated.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from crdtstream.demo.cluster import NAMES, Cluster, DemoError
from crdtstream.demo.proof import brief_digest
from crdtstream.demo.region import Region
from crdtstream.demo.story import Story, brief_reply
from crdtstream.processes.waiting import ProcessError, until
from crdtstream.scenarios.reply import show_reply
from crdtstream.scenarios.text import WAITS, Line


@dataclass(frozen=True, slots=True)
class ToldLine:
    """One cell: a command and its reply, or what happened to the links."""

    command: str
    text: str
    holds: bool = True


@dataclass(slots=True)
class Outcome:
    """The result of one moment: for each region what was done, what it produced, and whether that was expected."""

    title: str
    moment: str
    cells: dict[str, ToldLine] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)

    def move(self, name: str, text: str) -> None:
        """Tell what happened to its links, unless a command is shown there."""
        told = self.cells.get(name, ToldLine("", ""))
        if not told.command and text not in told.text:
            self.cells[name] = ToldLine("", f"{told.text}, {text}" if told.text else text)

    def complain(self, what: str, name: str = "") -> None:
        where = [self.title, self.moment, *([name] if name else [])]
        self.complaints.append(f"{', '.join(where)}: {what}")


class Player:
    """Plays stories one after the other."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._names: tuple[str, ...] = NAMES
        # The last command of each region, and how many effects the region had made before it.
        self._commands: dict[str, str] = {}
        self._before: dict[str, int] = {}
        self._waiting: list[Region] = []
        self._steps: dict[str, Callable[..., None]] = {
            "sync": self._sync,
            "pass": self._pass,
            "cut": self._cut,
            "heal": self._heal,
            "effects": self._effects,
            "differ": self._differ,
        }

    def play(self, story: Story, outcomes: list[Outcome]) -> None:
        """Play a story, appending outcomes as they arrive; raises DemoError if it cannot continue."""
        if story.shards not in (1, self._cluster.shards):
            raise DemoError(f"{story.title}: its regions have {story.shards} shards: give --shards {story.shards}")
        self._cluster.reset_links()
        self._names = story.names
        for moment, lines in story.moments():
            outcomes.append(Outcome(story.title, moment))
            try:
                for line in lines:
                    self._play(outcomes[-1], line)
            except ProcessError as error:
                raise DemoError(f"{story.title}, {moment}: {error}") from error

    def _play(self, outcome: Outcome, line: Line) -> None:
        if line.shard is not None or any("." in word for word in line.step):
            raise DemoError(
                f"line {line.number}: the demo names no shard: clients find that of a key, and a step concerns all"
            )
        if line.expected is not None:
            self._converse(outcome, line, line.expected)
            return
        name, *words = line.step or ["turn"]
        if name not in self._steps:
            raise DemoError(f"line {line.number}: the demo has no step {name!r}")
        self._steps[name](outcome, *map(int, words))

    # Commands

    def _converse(self, outcome: Outcome, line: Line, expected: list[str]) -> None:
        region = self._region(line.region)
        if line.command:
            self._commands[region.name] = line.command
            self._before[region.name] = region.own_counter()
            region.send(*line.words(line.command))
        if expected == WAITS:
            self._waiting.append(region)
        else:
            self._receive_reply(outcome, region, line, expected)

    def _receive_reply(self, outcome: Outcome, region: Region, line: Line, expected: list[str]) -> None:
        command = self._commands[region.name]
        argv = line.words(command)
        reply = region.await_reply(*argv)
        self._waiting = [other for other in self._waiting if other is not region]
        line.actual = show_reply(reply)
        outcome.cells[region.name] = ToldLine(command, brief_reply(argv, reply), line.actual == expected)
        if line.actual != expected:
            came, wanted = " ".join(line.actual), " ".join(expected)
            outcome.complain(f"{command} answered {came!r}, expected {wanted!r}", region.name)

    def _effects(self, outcome: Outcome, number: int, count: int) -> None:
        name = self._region(number).name
        made = self._region(number).own_counter() - self._before[name]
        told = outcome.cells[name]
        came, wanted = told.text + effects_text(made), told.text + effects_text(count)
        outcome.cells[name] = ToldLine(told.command, came, told.holds and made == count)
        if made != count:
            outcome.complain(f"{told.command} answered {came!r}, expected {wanted!r}", name)

    def _differ(self, outcome: Outcome, one: int, other: int) -> None:
        regions = [self._region(number) for number in (one, other)]
        found = list(zip(*[region.text_digests() for region in regions], strict=True))
        shown = next((pair for pair in found if pair[0] != pair[1]), found[0])
        digests = {region.name: digest for region, digest in zip(regions, shown, strict=True)}
        holds = len(set(digests.values())) == len(digests)
        for name, digest in digests.items():
            text = f"{brief_digest(digest)}, {'unequal' if holds else 'EQUAL'}"
            outcome.cells[name] = ToldLine("CRDT.DIGEST", text, holds)
        if not holds:
            names, [digest, _] = " and ".join(digests), digests.values()
            outcome.complain(f"the digests of {names} should differ, both are {digest}")

    # Links

    def _sync(self, outcome: Outcome, *numbers: int) -> None:
        names = tuple(self._region(number).name for number in numbers) or self._names
        self._cluster.open_links(names)
        self._cluster.await_agreement(names)
        self._cluster.hold_links()
        for name in names:
            outcome.move(name, "sync")

    def _pass(self, outcome: Outcome, time_ms: int) -> None:
        self._cluster.open_links(NAMES)
        time.sleep(time_ms / 1000)
        waiting = ", ".join(self._commands[region.name] for region in self._waiting)
        until(lambda: all(region.is_answered() for region in self._waiting), f"{waiting} is answered")
        self._cluster.hold_links()

    def _cut(self, outcome: Outcome, one: int, other: int) -> None:
        ends = self._region(one).name, self._region(other).name
        self._cluster.link(*ends).cut()
        for name, far in (ends, ends[::-1]):
            outcome.move(name, f"link to {far} cut")

    def _heal(self, outcome: Outcome, one: int, other: int) -> None:
        ends = self._region(one).name, self._region(other).name
        self._cluster.link(*ends).hold()
        for name in ends:
            outcome.move(name, "links open")

    def _region(self, number: int) -> Region:
        return self._cluster.regions[NAMES[number - 1]]


def effects_text(count: int) -> str:
    return f", {('nothing', 'one effect')[count] if count < 2 else f'{count} effects'} to send"
