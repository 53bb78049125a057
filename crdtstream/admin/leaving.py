"""Follows a region that leaves: how much the others still lack, until its process has ended, or those of its shards.

The region does the work (CRDT.LEAVE); this program only follows it, and may be stopped and started again at any time.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from crdtstream.admin.regions import Counterparts
from crdtstream.observing.asking import RegionAnswer

POLL_S = 0.2
PATIENCE_S = 10.0
ENDING, LEFT, STAYING = b"ending", b"left", b"staying"
ABORTED = "the leave was aborted, and the region takes writes"

# Name or number of a region, and how many effects it lacks.
LackingEffects = dict[str, int]


def leave(shards: Sequence[Counterparts], console: Console) -> dict[int | None, RegionAnswer]:
    """Have the first region of these leave, all of the shards at once; return the origin of each, or why it stays."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    found: dict[int | None, RegionAnswer] = {}
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        left = [Follower(each, console, progress) for each in shards]
        while left:
            found |= {each.shard: answer for each in left if (answer := each.step()) is not None}
            left = [each for each in left if each.shard not in found]
            if left:
                time.sleep(POLL_S)
    return found


class Follower:
    """The leave of one shard, as it is shown."""

    def __init__(self, counterparts: Counterparts, console: Console, progress: Progress) -> None:
        self.shard = counterparts.shard
        self._counterparts = counterparts
        self._console = console
        self._progress = progress
        self._origin = ""
        # The words of the next question: the first one begins.
        self._words = ["CRDT.LEAVE"]
        self._ending = False
        self._shown: dict[str, Any] = {}
        self._before: LackingEffects = {}
        self._changed_s = time.monotonic()

    def step(self) -> RegionAnswer | None:
        """Ask how far it is; return the end of it, if it has come."""
        self._counterparts.deadline.renew()
        self._origin = self._origin or self._counterparts.fields_of_first().get("origin", "")
        answer = self._counterparts.ask_first(*self._words)
        if answer.error:
            return self._lost(answer) if self._ending else answer
        self._words = ["CRDT.LEAVE", "STATUS"]
        state, lacking = read_status(answer)
        if state == LEFT:
            return self._left(answer)
        if state == STAYING:
            return RegionAnswer(answer.region, error=ABORTED)
        self._ending = state == ENDING
        self._show(lacking)
        return None

    def _lost(self, answer: RegionAnswer) -> RegionAnswer:
        """It stops a moment after the last step, so its membership has probably ended."""
        text = f"{answer.error}; look at CRDT.MEMBERS of another region whether origin {self._origin} is evicted"
        return RegionAnswer(answer.region, error=text, unreachable=answer.unreachable)

    def _left(self, answer: RegionAnswer) -> RegionAnswer:
        return RegionAnswer(answer.region, [b"origin", self._origin.encode(), b"state", LEFT])

    def _show(self, lacking: LackingEffects) -> None:
        progress, prefix = self._progress, "" if self.shard is None else f"shard {self.shard}: "
        for name, left in lacking.items():
            if name not in self._shown:
                self._shown[name] = progress.add_task(f"{prefix}{name} takes what it lacks", total=left)
        for name, task in self._shown.items():
            total = progress.tasks[task].total or 0
            progress.update(task, completed=total - lacking.get(name, 0))
        if lacking != self._before:
            self._before, self._changed_s = lacking, time.monotonic()
        elif lacking and time.monotonic() - self._changed_s >= PATIENCE_S:
            self._changed_s = time.monotonic()
            for name, left in lacking.items():
                text = f"{name} lacks {left} effects and takes none: link it again, evict it, or add --abort to stay"
                self._console.print(prefix + text, soft_wrap=True)


def read_status(answer: RegionAnswer) -> tuple[bytes, LackingEffects]:
    fields = pairs(answer.value)
    rows = [pairs(row) for row in fields[b"lacking"]]
    return fields[b"state"], {label_of(row): int(row[b"effects"]) for row in rows}


def label_of(row: dict[bytes, Any]) -> str:
    name = row[b"name"].decode()
    return f"region {name} ({row[b'region']})" if name else f"region {row[b'region']}"


def pairs(flat: Any) -> dict[bytes, Any]:
    return dict(zip(flat[::2], flat[1::2], strict=True))
