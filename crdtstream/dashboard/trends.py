"""What the last hour says, as far as alerts need it: starts, wrong passwords, a disk that fills up. Pure.

Times are seconds of a steady clock. A dashboard knows nothing from before its start, so what takes an hour to see is
seen an hour later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import pairwise

from crdtstream.observing.info import RegionReport
from crdtstream.observing.unread import UnreadGroups

RESTARTS_S, RESTARTS_MAX = 900.0, 2
GUESSES_S, GUESSES_MAX = 300.0, 20
# A disk is looked at so often, for an hour; it fills up if it would be full so soon, for so long.
DISK_STEP_S, DISK_KEPT_S = 30.0, 3600.0
FULL_IN_S, FILLS_FOR_S = 4 * 3600.0, 900.0

TrendPoint = tuple[float, float]


class Trend:
    """Values of the last `keep_s`, one in `step_s` at most."""

    def __init__(self, keep_s: float, step_s: float = 0.0) -> None:
        self._keep_s = keep_s
        self._step_s = step_s
        self.points: deque[TrendPoint] = deque()

    def record(self, now_s: float, value: float) -> None:
        if not self.points or now_s - self.points[-1][0] >= self._step_s:
            self.points.append((now_s, value))
        while self.points[0][0] < now_s - self._keep_s:
            self.points.popleft()

    def growth(self) -> float:
        """By how much a counter has grown; one that is less than before began again."""
        values = [value for _, value in self.points]
        return sum(after - before if after >= before else after for before, after in pairwise(values))

    def value_in(self, ahead_s: float) -> float:
        """What a line through all points says of then; what is there now, if there is one point."""
        count, last_s = len(self.points), self.points[-1][0]
        mean_s = sum(time - last_s for time, _ in self.points) / count
        mean = sum(value for _, value in self.points) / count
        spread = sum((time - last_s - mean_s) ** 2 for time, _ in self.points)
        if not spread:
            return mean
        slope = sum((time - last_s - mean_s) * (value - mean) for time, value in self.points) / spread
        return mean + slope * (ahead_s - mean_s)


class RegionTrends:
    """Those of one region."""

    def __init__(self) -> None:
        self._run_id = ""
        self._starts: deque[float] = deque()
        self._denials = Trend(GUESSES_S)
        self._disk = Trend(DISK_KEPT_S, DISK_STEP_S)
        self._fills_since_s: float | None = None

    def record(self, now_s: float, report: RegionReport) -> None:
        if self._run_id and report.run_id != self._run_id:
            self._starts.append(now_s)
        self._run_id = report.run_id
        while self._starts and self._starts[0] < now_s - RESTARTS_S:
            self._starts.popleft()
        self._denials.record(now_s, report.passwords_denied)
        # A region that starts does not know yet.
        if report.disk_free_bytes:
            self._disk.record(now_s, report.disk_free_bytes)
        if not self._disk.points or self._disk.value_in(FULL_IN_S) >= 0:
            self._fills_since_s = None
        elif self._fills_since_s is None:
            self._fills_since_s = now_s

    @property
    def restarts(self) -> bool:
        return len(self._starts) > RESTARTS_MAX

    @property
    def is_guessed_at(self) -> bool:
        return self._denials.growth() > GUESSES_MAX

    def fills_up(self, now_s: float) -> bool:
        return self._fills_since_s is not None and now_s - self._fills_since_s >= FILLS_FOR_S


class Trends:
    """Those of all regions, by number and shard, and the groups that nobody reads."""

    def __init__(self) -> None:
        self._regions: dict[tuple[int, int], RegionTrends] = {}
        self.unread = UnreadGroups()

    def record(self, now_s: float, reports: Iterable[RegionReport], unread: UnreadGroups) -> None:
        for report in reports:
            self._regions.setdefault((report.region, report.shard), RegionTrends()).record(now_s, report)
        self.unread = unread

    def of(self, region: int, shard: int = 0) -> RegionTrends:
        return self._regions.get((region, shard), RegionTrends())
