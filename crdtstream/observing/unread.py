"""Which groups have much to deliver and have delivered nothing for long. Pure.

A walk over the streams of a region comes to each group again and again: one that has not moved between two visits was
not read between them. So nobody has to look all the time, and a group is told of once a walk has come to it twice.
Times are seconds of a steady clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import nsmallest

from crdtstream.observing.lagging import GroupName, LaggingGroup, each_where_it_lags_most

# As in the rule of deploy/prometheus/alerts.yml: no delivery for ten minutes, for a quarter of an hour.
UNREAD_S, UNREAD_LAG = 1500.0, 1000
# Of one region; each takes about half a kilobyte, and more with long names.
MARKED_MAX = 10_000
SHOWN_MAX = 10


@dataclass(frozen=True)
class UnreadGroups:
    """Those of all regions, each once: the ones that lag most, and how many there are. `crowded` are regions in which
    more groups lag than are marked.
    """

    shown: Sequence[LaggingGroup] = ()
    number: int = 0
    crowded: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class UnreadMark:
    """Where a group stood at the last visit, in walk number `walk`, and since when it has stood there."""

    group: LaggingGroup
    since_s: float
    walk: int


class UnreadMarks:
    """Those of one region, `marked_max` at most: groups that lag little need none."""

    def __init__(self, region: str, marked_max: int = MARKED_MAX) -> None:
        self.region = region
        self._marked_max = marked_max
        self._marks: dict[GroupName, UnreadMark] = {}
        self._unread: set[GroupName] = set()
        self._walk = 0
        self._left_out = False
        self.is_crowded = False

    def wants(self, group: GroupName, lag: int | None) -> bool:
        """Whether the group has to be looked at, which may lag so much; None if that is unknown."""
        if not self._marked_max or (lag is not None and lag <= UNREAD_LAG):
            return False
        if group in self._marks or len(self._marks) < self._marked_max:
            return True
        self._left_out = True
        return False

    def record(self, now_s: float, group: LaggingGroup) -> None:
        """A group as it stands now."""
        before = self._marks.get(group.name)
        if group.lag <= UNREAD_LAG:
            self.forget(group.name)
        elif before is not None or len(self._marks) < self._marked_max:
            stands = before is not None and before.group.delivered == group.delivered
            since_s = before.since_s if before is not None and stands else now_s
            self._marks[group.name] = UnreadMark(group, since_s, self._walk)
            if now_s - since_s >= UNREAD_S:
                self._unread.add(group.name)
            else:
                self._unread.discard(group.name)

    def forget(self, group: GroupName) -> None:
        self._marks.pop(group, None)
        self._unread.discard(group)

    def end_walk(self, is_whole: bool) -> None:
        """Forget what a whole walk has not come to again: it has gone, or has caught up."""
        if is_whole:
            for group in [group for group, mark in self._marks.items() if mark.walk < self._walk]:
                self.forget(group)
        self._walk += 1
        self.is_crowded, self._left_out = self._left_out, False

    def names(self) -> set[GroupName]:
        """The groups that nobody reads."""
        return self._unread

    def worst(self) -> list[LaggingGroup]:
        """Those of them that lag most, `SHOWN_MAX` at most."""
        unread = [self._marks[group].group for group in self._unread]
        return nsmallest(SHOWN_MAX, unread, key=lambda group: (-group.lag, group.place))


def unread_in(regions: Iterable[UnreadMarks]) -> UnreadGroups:
    """What several regions have in common stands once."""
    marks = list(regions)
    names: set[GroupName] = set().union(*[each.names() for each in marks])
    shown = each_where_it_lags_most([group for each in marks for group in each.worst()])[:SHOWN_MAX]
    return UnreadGroups(shown, len(names), [each.region for each in marks if each.is_crowded])
