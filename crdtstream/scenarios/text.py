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
yet; `N<` is where that reply is expected. `tN` begins a moment, one row where the text is shown as a table. Between
regions nothing moves but by steps, which are all other lines:

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
    skew 1 MS         the clock of region 1 is so far ahead of that time
    pass MS           let everything continue for this long: time, messages, and syncs of the logs
    absent 3          region 3 does not exist (before any step), until `new 3 2` starts it with an empty disk and with
                      region 2 as the peer that it waits for; `new 4 2 1` starts region 1 so, on a machine called 4
    collect 1         region 1 forgets the tombstones that are stable as far as it knows
    remembers 1 N     region 1 must have N tombstones
    effects 1 N       the last command of region 1 must have made N effects for the other regions
    differ 1 2        the digests of regions 1 and 2 must not be equal
    turn 1            run the more deeply indented commands below in one turn of region 1, without showing replies
    check NAME        the checker of that name must hold (simulations/checkers.py); `sync` must precede it

Settings come first: `regions N`, `id-mode`, `topology` (mesh, ring, line, hub), `fsync` (one for all, or one for each),
`shards N` (of each region).

With several shards, `N>` is a client that asks the shard that it asked last, shard 0 at first, and follows `MOVED`;
`N.K>` asks shard K of region N, and shows what that says. A step concerns all shards, or shard K alone if it says
`N.K`: `kill 1.0`, `cut 1.0 2.0`, `1.1 -> 2.1`. A shard is linked to the same shard of other regions only.

Replies: `nil`, numbers and texts as they are, `! ` before an error, lists in brackets. `rewritten` returns the text
with the actual replies, for `--rewrite`: the difference is reviewed like code.

Who plays a text knows what the steps do: simulations/scenario.py all of them, on simulated machines, and the demo
(demo/player.py) on real processes those that need none: sync, cut, heal, pass, effects, differ.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field

PLACE = re.compile(r"\d+(?:\.\d+)?")
COMMAND = re.compile(rf"^(\s*)({PLACE.pattern})> (.*)$")
ANSWER = re.compile(rf"^(\s*)({PLACE.pattern})<$")
CARRY = re.compile(rf"^({PLACE.pattern}) -> ({PLACE.pattern})$")
MOMENT = re.compile(r"^t\d+$")
SETTINGS = {"regions": "2", "id-mode": "strict", "fsync": "everysec", "topology": "mesh", "absent": "", "shards": "1"}
SHARDS_MAX = 64
CARRIES = "carry"
CHECKS = "check"
WAITS = ["(waits)"]


class ScenarioError(Exception):
    """A scenario text that cannot be parsed or played, with its line."""


@dataclass
class Line:
    """One line of the text: a command with the actual and the expected reply, a turn, a step, or none of them."""

    number: int
    text: str
    region: int = 0
    # None if the line names no shard of that region.
    shard: int | None = None
    # Empty if the reply to an earlier command is expected.
    command: str = ""
    expected: list[str] | None = None
    actual: list[str] | None = None
    turn: list[str] | None = None
    # The name of a step, and what follows it.
    step: list[str] = field(default_factory=list)

    @property
    def acts(self) -> bool:
        return self.expected is not None or self.turn is not None or bool(self.step)

    def words(self, command: str) -> list[str]:
        """The arguments of a command of this line."""
        try:
            return shlex.split(command)
        except ValueError as error:
            raise self.error(str(error)) from error

    def error(self, what: str) -> ScenarioError:
        return ScenarioError(f"line {self.number}: {what}")


def place_of(text: str) -> tuple[int, int | None]:
    """A region, and the shard of it if the text names one."""
    region, _, shard = text.partition(".")
    return int(region), int(shard) if shard else None


class ScenarioText:
    """A parsed scenario; who plays it fills in the actual replies."""

    def __init__(self, text: str) -> None:
        self.lines: list[Line] = []
        self.settings = dict(SETTINGS)
        self._read(text)

    def _read(self, text: str) -> None:
        indent = -1
        for number, raw in enumerate(text.splitlines(), 1):
            stripped = raw.strip()
            depth = len(raw) - len(raw.lstrip())
            command, answer = COMMAND.match(raw), ANSWER.match(raw)
            if command is not None:
                indent = depth
                self.lines.append(Line(number, raw, *place_of(command[2]), command[3], []))
            elif answer is not None:
                indent = depth
                self.lines.append(Line(number, raw, *place_of(answer[2]), "", []))
            elif stripped and depth > indent >= 0:
                self._read_below(self.lines[-1], stripped)
            elif stripped.startswith("turn "):
                indent = depth
                self.lines.append(Line(number, raw, *place_of(stripped.split()[1]), turn=[]))
            else:
                indent = -1
                self._read_step(number, raw, stripped)

    def _read_below(self, line: Line, stripped: str) -> None:
        """Add a reply to its command, or a command to its turn."""
        below = line.expected if line.turn is None else line.turn
        assert below is not None
        below.append(stripped)

    def _read_step(self, number: int, raw: str, stripped: str) -> None:
        line = Line(number, raw)
        self.lines.append(line)
        name, _, value = stripped.partition(" ")
        # `fsync always` is a setting, `fsync 1` a step.
        if name in self.settings and not raw.startswith(" ") and not (name == "fsync" and PLACE.fullmatch(value)):
            self.settings[name] = value
        elif name == CHECKS:
            line.step = [CHECKS, value]
        elif carry := CARRY.match(stripped):
            line.step = [CARRIES, *carry.groups()]
        elif not stripped.startswith("#") and not MOMENT.match(stripped):
            line.step = stripped.split()

    # What a reader sees of it

    @property
    def notes(self) -> list[str]:
        """The title and the lines below it."""
        found: list[str] = []
        for line in self.lines:
            if not line.text.startswith("#"):
                break
            found.append(line.text.removeprefix("#").strip())
        return found

    @property
    def regions(self) -> int:
        return int(self.settings["regions"])

    @property
    def shards(self) -> int:
        """How many each region has."""
        text = self.settings["shards"]
        if not text.isdecimal() or not 1 <= int(text) <= SHARDS_MAX:
            raise ScenarioError(f"shards {text}: give a number from 1 to {SHARDS_MAX}")
        return int(text)

    def moments(self) -> list[tuple[str, list[Line]]]:
        """Each `tN`, and what is below it."""
        found: list[tuple[str, list[Line]]] = []
        for line in self.lines:
            name = line.text.strip()
            if MOMENT.match(name):
                found.append((name, []))
            elif line.acts and not found:
                raise line.error("no moment (t1) begins before it")
            elif line.acts:
                found[-1][1].append(line)
        return found

    # The replies that came

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
