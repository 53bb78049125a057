"""Samples of the last hour, in memory: for charts, and for how long a region has been behind. Pure.

A sample is taken at each round of questions. Times are seconds of a steady clock, except where a name says otherwise.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from crdtstream.observing.info import RegionReport, Vector, lacking

HOUR_S = 3600.0


class VectorLog:
    """The vectors that one region had, oldest first; a vector only grows, so a bisection finds what another lacks."""

    def __init__(self) -> None:
        self._times: deque[float] = deque()
        self._vectors: deque[Vector] = deque()

    def record(self, now_s: float, vector: Vector) -> None:
        if not self._vectors or self._vectors[-1] != vector:
            self._times.append(now_s)
            self._vectors.append(vector)
        while len(self._times) > 1 and self._times[1] < now_s - HOUR_S:
            self._times.popleft()
            self._vectors.popleft()

    def behind_ms(self, applied: Vector, now_s: float) -> int:
        """For how long this log has held something that is not in `applied`; 0 if it holds nothing else."""
        vectors = list(self._vectors)
        at = bisect_left(vectors, True, key=lambda vector: lacking(vector, applied) > 0)
        return 0 if at == len(vectors) else round(1000 * (now_s - self._times[at]))


@dataclass(frozen=True)
class Sample:
    """What one region was like at a moment, for charts."""

    commands: int
    effects: int
    behind: int
    behind_ms: int
    memory_bytes: int
    disk_free_bytes: int
    log_bytes: int
    clients: int


def sample_of(report: RegionReport, total: int, behind_ms: int) -> Sample:
    """`total` is how many effects anybody has."""
    own = sum(report.vector.values())
    return Sample(
        commands=report.commands,
        effects=own,
        behind=total - own,
        behind_ms=behind_ms,
        memory_bytes=report.memory_bytes,
        disk_free_bytes=report.disk_free_bytes,
        log_bytes=report.log_bytes,
        clients=report.clients,
    )


def sample_of_all(shards: Sequence[Sample]) -> Sample:
    """That of a region: what its shards have together, the disk that has least left, and the time of the worst."""
    return Sample(
        commands=sum(each.commands for each in shards),
        effects=sum(each.effects for each in shards),
        behind=sum(each.behind for each in shards),
        behind_ms=max(each.behind_ms for each in shards),
        memory_bytes=sum(each.memory_bytes for each in shards),
        disk_free_bytes=min(each.disk_free_bytes for each in shards),
        log_bytes=sum(each.log_bytes for each in shards),
        clients=sum(each.clients for each in shards),
    )


class SampleLog:
    """The samples of all regions by their names. `times` are seconds since 1970."""

    def __init__(self, keep_s: float = HOUR_S) -> None:
        self._keep_s = keep_s
        self.times: deque[float] = deque()
        self._rows: deque[Mapping[str, Sample]] = deque()

    def record(self, now_s: float, row: Mapping[str, Sample]) -> None:
        self.times.append(now_s)
        self._rows.append(row)
        while self.times[0] < now_s - self._keep_s:
            self.times.popleft()
            self._rows.popleft()

    def names(self) -> list[str]:
        return sorted({name for row in self._rows for name in row})

    def values(self, name: str, field: str) -> list[tuple[float, float | None]]:
        """The values of a field, None where the region did not answer."""
        return [
            (time, getattr(row[name], field) if name in row else None)
            for time, row in zip(self.times, self._rows, strict=True)
        ]

    def rates(self, name: str, field: str) -> list[tuple[float, float | None]]:
        """The growth of a counter for each second; None across gaps, and where the region began again."""
        found: list[tuple[float, float | None]] = []
        before: tuple[float, float | None] | None = None
        for time, value in self.values(name, field):
            if before is not None:
                found.append((time, rate_between(before, (time, value))))
            before = (time, value)
        return found


def rate_between(before: tuple[float, float | None], after: tuple[float, float | None]) -> float | None:
    (began, low), (ended, high) = before, after
    if low is None or high is None or high < low or ended <= began:
        return None
    return (high - low) / (ended - began)


def thinned(points: list[tuple[float, float | None]], most: int) -> list[tuple[float, float | None]]:
    """At most about `most` points: of each stretch the highest, so that a peak stays."""
    step = -(-len(points) // most) if points else 1
    stretches = [points[at : at + step] for at in range(0, len(points), step)]
    return [max(stretch, key=lambda point: -1.0 if point[1] is None else point[1]) for stretch in stretches]
