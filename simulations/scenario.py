"""Scenarios: texts with commands, movements between regions, and the expected replies.

    # A title, then corrections of the published table, one line each
    regions 2
    id-mode liberal

    t1
      1> XADD x 100-1 f1 v1
         100-1
    t2
      sync

`N>` runs a command in region N; the more deeply indented lines below it are its reply, or `(waits)` if there is none
yet; `N<` is where that reply is expected. Other lines are steps:

    sync              deliver everything until all is quiet
    sync 1 2          the same between two regions
    1 -> 2            deliver to region 2 everything that region 1 has to send, and nothing back
    send 1 2          send a message from region 1 to region 2; `arrive 1 2`, or any delivery to 2, delivers it first
    cut 1 2, heal 1 2
    fsync 1           region 1 syncs its log, as `everysec` does each second
    checkpoint 1      region 1 takes a checkpoint and cuts its log
    cut-log 1         the same, and region 1 keeps no more of its log than a restart needs
    kill 1            region 1's process ends and starts again
    power-loss 1      region 1 loses everything that was not synced and starts again
    disk-loss 1 N     region 1 starts with an empty disk and `--incarnation N`
    copy 1            copy region 1's disk; `put-back 1` starts region 1 from the copy, `twin 4 1` starts it on a second
                      machine, called 4 in the scenario, beside region 1 and without links
    clone 4 1         copy region 1's memory and disk: a second process, called 4 in the scenario, continues beside it
                      as the same origin, and without links
    stop 1            region 1 stops, and does not return
    disk-full 1       region 1 has no space for writes, until `disk-room 1`
    clock MS          set the time in all regions
    pass MS           let everything continue for this long: time, messages, and syncs of the logs
    absent 3          region 3 does not exist (before any step), until `new 3 2` starts it with an empty disk and with
                      region 2 as the peer that it waits for; `new 4 2 1` starts region 1 so, on a machine called 4
    collect 1         region 1 forgets the tombstones that are stable as far as it knows
    remembers 1 N     region 1 must have N tombstones
    turn 1            run the more deeply indented commands below in one turn of region 1, without showing replies
    check NAME        the checker of that name must hold (simulations/checkers.py); `sync` must precede it

A command `stream ...` is a call to a partitioned stream: see simulations/stream_calls.py.

Settings come first: `regions N`, `id-mode`, `topology` (mesh, ring, line, hub), `fsync` (one for all, or one for each).

Replies: `nil`, numbers and texts as they are, `! ` before an error, lists in brackets. `rewritten` returns the text
with the actual replies, for `--rewrite`: the difference is reviewed like code.
"""

from __future__ import annotations

import random
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from simulations.checkers import all_checkers
from simulations.cluster import Cluster
from simulations.reply import read_reply, show_reply
from simulations.settings import pairs_of
from simulations.stream_calls import StreamCalls

COMMAND = re.compile(r"^(\s*)(\d+)> (.*)$")
ANSWER = re.compile(r"^(\s*)(\d+)<$")
CARRY = re.compile(r"^(\d+) -> (\d+)$")
CHECK = re.compile(r"^check (.+)$")
KEYS_MAX = 1_000
CHECKERS = [checker.name for checker in all_checkers()]


class ScenarioError(Exception):
    """A scenario text that cannot be parsed, with its line."""


@dataclass
class Line:
    """One line of the text, and for a command the actual and the expected reply."""

    number: int
    text: str
    region: int = 0
    # Empty if the reply to an earlier command is expected.
    command: str = ""
    expected: list[str] | None = None
    actual: list[str] | None = None
    turn: list[str] | None = None
    setting: bool = False


class Scenario:
    """A parsed scenario; `run` fills in the actual replies."""

    def __init__(self, text: str) -> None:
        self.lines: list[Line] = []
        self.settings = {"regions": "2", "id-mode": "strict", "fsync": "everysec", "topology": "mesh", "absent": ""}
        self._stream_calls = StreamCalls()
        self._read(text)

    def _read(self, text: str) -> None:
        indent = -1
        for number, raw in enumerate(text.splitlines(), 1):
            stripped = raw.strip()
            depth = len(raw) - len(raw.lstrip())
            command, answer = COMMAND.match(raw), ANSWER.match(raw)
            if command is not None:
                indent = depth
                self.lines.append(Line(number, raw, int(command[2]), command[3], []))
            elif answer is not None:
                indent = depth
                self.lines.append(Line(number, raw, int(answer[2]), "", []))
            elif stripped and depth > indent >= 0:
                self._read_below(self.lines[-1], stripped)
            elif stripped.startswith("turn "):
                indent = depth
                self.lines.append(Line(number, raw, int(stripped.split()[1]), turn=[]))
            else:
                indent = -1
                self._read_step(number, raw, stripped)

    def _read_below(self, line: Line, stripped: str) -> None:
        """Add a reply to its command, or a command to its turn."""
        below = line.expected if line.turn is None else line.turn
        assert below is not None
        below.append(stripped)

    def _read_step(self, number: int, raw: str, stripped: str) -> None:
        name, _, value = stripped.partition(" ")
        step = raw.startswith(" ") or (value.isdigit() and name in STEPS)
        line = Line(number, raw, setting=name in self.settings and not step)
        if line.setting:
            self.settings[name] = value
        self.lines.append(line)

    def cluster(self) -> Cluster:
        regions = int(self.settings["regions"])
        pairs = pairs_of(self.settings["topology"], regions)
        checked = [self._checker(line, match[1]) for line in self.lines if (match := CHECK.match(line.text.strip()))]
        absent = tuple(int(number) for number in self.settings["absent"].split())
        return Cluster(regions, self.settings["id-mode"], self.settings["fsync"], pairs, absent=absent, checked=checked)

    def _checker(self, line: Line, name: str) -> str:
        if name not in CHECKERS:
            raise ScenarioError(f"line {line.number}: no checker is called {name!r}: use one of {', '.join(CHECKERS)}")
        return name

    def run(self) -> Cluster:
        cluster = self.cluster()
        for line in self.lines:
            if line.expected is not None:
                line.actual = self._execute(cluster, line)
            elif line.turn is not None:
                cluster.execute_turn(line.region, [self._argv(line, command) for command in line.turn])
            else:
                self._step(cluster, line)
            cluster.check()
        return cluster

    def _execute(self, cluster: Cluster, line: Line) -> list[str]:
        if line.command.startswith("stream "):
            return [self._stream_calls.execute(cluster, line.region, line.command.split()[1:])]
        if line.command:
            reply = cluster.execute(line.region, self._argv(line, line.command))
        else:
            reply = cluster.take_reply(line.region)
        return ["(waits)"] if reply is None else show_reply(read_reply(reply))

    def _argv(self, line: Line, command: str) -> list[bytes]:
        try:
            return [word.encode() for word in shlex.split(command)]
        except ValueError as error:
            raise ScenarioError(f"line {line.number}: {error}") from error

    def _step(self, cluster: Cluster, line: Line) -> None:
        text = line.text.strip()
        name, *words = text.split() or [""]
        if not text or text.startswith("#") or line.setting or re.fullmatch(r"t\d+", name):
            return
        check = CHECK.match(text)
        if check is not None:
            cluster.verify(check[1])
            return
        carry = CARRY.match(text)
        if carry is not None:
            cluster.carry(int(carry[1]), int(carry[2]))
            return
        step = STEPS.get(name)
        if step is None:
            raise ScenarioError(f"line {line.number}: no step is called {name!r}")
        step(cluster, *map(int, words))

    def differences(self) -> list[str]:
        """Return a line for each reply that differs from the expected one."""
        return [
            f"line {line.number}: {line.text.strip()}: expected {line.expected}, got {line.actual}"
            for line in self.lines
            if line.expected is not None and line.expected != line.actual
        ]

    def rewritten(self) -> str:
        """Return the text with the actual replies."""
        out: list[str] = []
        for line in self.lines:
            out.append(line.text)
            depth = len(line.text) - len(line.text.lstrip())
            out += [" " * (depth + 3) + reply for reply in line.actual or []]
            out += [" " * (depth + 2) + command for command in line.turn or []]
        return "\n".join(out) + "\n"


def _clock(cluster: Cluster, time_ms: int) -> None:
    cluster.tick(time_ms - cluster.now_ms)


def _power_loss(cluster: Cluster, number: int) -> None:
    cluster.lose_power(number, random.Random(0), odds=0.0)


def _room(cluster: Cluster, number: int, writable: bool) -> None:
    cluster.node(number).writable(writable)
    cluster.turn(number)


def _collect(cluster: Cluster, number: int) -> None:
    node = cluster.node(number)
    node.replica.keyspace.collect(node.exchange.stable(), KEYS_MAX)


def _remembers(cluster: Cluster, number: int, wanted: int) -> None:
    streams = [stream for database in cluster.node(number).replica.keyspace.databases for stream in database.values()]
    count = sum(len(counters) for stream in streams for counters in (stream.deleted, *stream.destroyed.values()))
    if count != wanted:
        raise ScenarioError(f"region {number} remembers {count} tombstones, not {wanted}")


STEPS: dict[str, Callable[..., object]] = {
    "sync": Cluster.sync,
    "cut": Cluster.cut,
    "heal": Cluster.heal,
    "send": Cluster.send,
    "arrive": Cluster.arrive,
    "fsync": lambda cluster, number: cluster.machines[number].sync(),
    "checkpoint": lambda cluster, number: cluster.machines[number].checkpoint(),
    "cut-log": lambda cluster, number: cluster.machines[number].cut_log(),
    "kill": Cluster.restart,
    "power-loss": _power_loss,
    "disk-loss": Cluster.lose_disk,
    "disk-full": partial(_room, writable=False),
    "disk-room": partial(_room, writable=True),
    "copy": Cluster.copy,
    "put-back": Cluster.put_back,
    "twin": Cluster.twin,
    "clone": Cluster.clone,
    "new": Cluster.add,
    "stop": Cluster.stop,
    "clock": _clock,
    "pass": Cluster.live,
    "collect": _collect,
    "remembers": _remembers,
}
