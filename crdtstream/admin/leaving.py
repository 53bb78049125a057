"""Follows a region that leaves: how much the others still lack, until its process has ended.

The region does the work (CRDT.LEAVE); this program only follows it, and may be stopped and started again at any time.
"""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from crdtstream.admin.regions import Regions
from crdtstream.observing.asking import RegionAnswer

POLL_S = 0.2
PATIENCE_S = 10.0
ENDING, LEFT, STAYING = b"ending", b"left", b"staying"

# Name or number of a region, and how many effects it lacks.
LackingEffects = dict[str, int]


def leave(regions: Regions, console: Console) -> RegionAnswer:
    """Have the first of these regions leave; return its origin, or the reason why it is still there."""
    fields = regions.fields_of_first()
    answer = regions.ask_first("CRDT.LEAVE")
    return answer if answer.error else Follower(regions, console, fields.get("origin", "")).follow(answer)


class Follower:
    """One leave, as it is shown."""

    def __init__(self, regions: Regions, console: Console, origin: str) -> None:
        self._regions = regions
        self._console = console
        self._origin = origin
        self._shown: dict[str, Any] = {}
        self._before: LackingEffects = {}
        self._changed_s = time.monotonic()

    def follow(self, answer: RegionAnswer) -> RegionAnswer:
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
        disabled = not self._console.is_terminal
        with Progress(*columns, console=self._console, disable=disabled) as progress:
            while True:
                state, lacking = read_status(answer)
                if state == LEFT:
                    return self._left(answer)
                if state == STAYING:
                    return RegionAnswer(answer.region, error="the leave was aborted, and the region takes writes")
                self._show(progress, lacking)
                time.sleep(POLL_S)
                self._regions.deadline.renew()
                answer = self._regions.ask_first("CRDT.LEAVE", "STATUS")
                if answer.error:
                    return self._lost(answer) if state == ENDING else answer

    def _lost(self, answer: RegionAnswer) -> RegionAnswer:
        """It stops a moment after the last step, so its membership has probably ended."""
        text = f"{answer.error}; look at CRDT.MEMBERS of another region whether origin {self._origin} is evicted"
        return RegionAnswer(answer.region, error=text, unreachable=answer.unreachable)

    def _left(self, answer: RegionAnswer) -> RegionAnswer:
        return RegionAnswer(answer.region, [b"origin", self._origin.encode(), b"state", LEFT])

    def _show(self, progress: Progress, lacking: LackingEffects) -> None:
        for name, left in lacking.items():
            if name not in self._shown:
                self._shown[name] = progress.add_task(f"{name} takes what it lacks", total=left)
        for name, task in self._shown.items():
            total = progress.tasks[task].total or 0
            progress.update(task, completed=total - lacking.get(name, 0))
        if lacking != self._before:
            self._before, self._changed_s = lacking, time.monotonic()
        elif lacking and time.monotonic() - self._changed_s >= PATIENCE_S:
            self._changed_s = time.monotonic()
            for name, left in lacking.items():
                text = f"{name} lacks {left} effects and takes none: link it again, evict it, or add --abort to stay"
                self._console.print(text, soft_wrap=True)


def read_status(answer: RegionAnswer) -> tuple[bytes, LackingEffects]:
    fields = pairs(answer.value)
    rows = [pairs(row) for row in fields[b"lacking"]]
    return fields[b"state"], {label_of(row): int(row[b"effects"]) for row in rows}


def label_of(row: dict[bytes, Any]) -> str:
    name = row[b"name"].decode()
    return f"region {name} ({row[b'region']})" if name else f"region {row[b'region']}"


def pairs(flat: Any) -> dict[bytes, Any]:
    return dict(zip(flat[::2], flat[1::2], strict=True))
