"""Stale messages are numbered again at the home, once no other region can count them as valid.

A home that has not heard of a higher epoch may hold messages for stale that have their place in the line of that epoch.
If it numbered them again it would take them out of there, and they would move although nobody had to move them. So it
waits until every process that lives has its epoch, and until it has what these processes had before: had one of them
known a higher epoch, then it is no home any more. Two processes of one region are both asked: either may have become
the home. A process that is silent for `ALIVE_MS` is not waited for. For the same reason only then an epoch is forgotten
of which nothing is left here: elsewhere there may be something.

As many messages are numbered again in one turn as its batch and its clients can bear.
"""

from __future__ import annotations

from typing import Final, Protocol

from crdtstream.core.replica import Replica
from crdtstream.core.values.causality import Dot, VersionVector, region_of
from crdtstream.partitions.partition import Partition
from crdtstream.replication.values.progress import ProgressTable

# How long another process counts as alive after its last sign of life.
ALIVE_MS: Final = 5_000
MESSAGES_MAX: Final = 2_000
BYTES_MAX: Final = 2 << 20


class AskedMembers(Protocol):
    """What is asked of the exchange."""

    progress: ProgressTable

    def counted(self) -> list[int]: ...


class Agreement:
    """Whether the processes that live know of one epoch. `heard`: what each of them had applied when it did."""

    __slots__ = ("_dot", "_heard")

    def __init__(self) -> None:
        self._dot: Dot = (0, 0)
        self._heard: dict[int, VersionVector] = {}

    def reached(self, dot: Dot, began_ms: int, replica: Replica, members: AskedMembers) -> bool:
        """True if all have this dot, the effect that raised the epoch, and all that they had before that is here.
        This process began at `began_ms`, 0 before its first tick: of a region that it has not heard since, it does not
        know whether it lives.
        """
        if dot != self._dot:
            self._dot, self._heard = dot, {}
        # It is asked between two ticks: a clock that was set forward since it listened has made nobody silent.
        now_ms, own, progress = members.progress.listened_ms, replica.applied.origin, members.progress
        alive = [origin for origin in progress.heard_after(now_ms - ALIVE_MS) if origin != own]
        # A clock that was set forward is no time in which others could have been heard.
        is_new = not began_ms or now_ms - began_ms - progress.stalled_ms < ALIVE_MS
        if is_new and not known_regions(replica, members.counted()) <= {region_of(origin) for origin in alive}:
            return False
        return all(self._has_agreed(origin, replica, progress) for origin in alive)

    def _has_agreed(self, origin: int, replica: Replica, progress: ProgressTable) -> bool:
        if origin not in self._heard and progress.applied_count(origin, self._dot[0]) >= self._dot[1]:
            self._heard[origin] = progress.applied_of(origin)
        return origin in self._heard and replica.applied.vector.descends(self._heard[origin])


def known_regions(replica: Replica, counted: list[int]) -> set[int]:
    """The other regions that are members, or of which anything is here: each may have what is not."""
    members, vector = replica.applied.members, replica.applied.vector
    seen = [origin for origin, _ in vector.items() if not members.is_evicted(origin)]
    return {region_of(origin) for origin in [*counted, *seen]} - {region_of(replica.applied.origin)}


class Share:
    """How much may be numbered again in this turn."""

    __slots__ = ("bytes_left", "messages_left")

    def __init__(self) -> None:
        self.messages_left = MESSAGES_MAX
        self.bytes_left = BYTES_MAX

    def is_spent(self) -> bool:
        return self.messages_left <= 0 or self.bytes_left <= 0

    def renumber(self, partition: Partition) -> bool:
        """Number stale messages of this partition again; false if some are left for later turns."""
        if self.is_spent():
            return False
        count, size, finished = partition.renumber(self.messages_left, self.bytes_left)
        self.messages_left -= count
        self.bytes_left -= size
        return finished
