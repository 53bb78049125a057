"""What each member has reported about itself, directly or by relay: a durable vector (fsynced), an applied vector, and
its signs of life.

The vectors of one member form a chain, so the merge of two is the newer one, in whatever order they arrive. It is
therefore enough to send what grew.

A durable vector is used in two ways. That a member **holds** something is a fact as soon as it is received; WAIT relies
on that. But a vector **counts** for stability only once the local vector descends it (the second gate of progress).
Otherwise a tombstone that all members cover could be forgotten here while a group create that it must remove, covered
by the same vector, has not arrived yet. Each member has one vector that waits at this gate. A later vector queues
behind it and does not replace it; otherwise members that write all the time would keep it out of reach for ever.

A **sign of life** is a number that a member raises with each heartbeat; it travels with the member's row, over whatever
regions lie between. So every region can tell, by its own clock, when a member was last active. It says nothing about
what the member holds, and safety never depends on it: it only affects when an origin is admitted, and which origin WAIT
counts for a region.

Invariant: counted <= awaited <= heard, for each member. All vectors are inclusive.

Reference: Baquero, Almeida and Shoker, "Making operation-based CRDTs operation-based" (2014), causal stability; Das,
Gupta and Motivala, "SWIM" (2002), for incarnation-like numbers that only their owner raises.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from crdtstream.core.values.causality import VersionVector, region_of

# Origin, durable vector, applied vector, sign of life.
ProgressRow = tuple[int, VersionVector, VersionVector, int]
# The same as a peer sends it, with what it has not told yet; None for a vector that has not grown.
GrownRow = tuple[int, VersionVector | None, VersionVector | None, int]

ROWS_MAX: Final = 1 << 62


class _Member:
    """One member's vectors. `awaited` is the durable one at the gate, None when everything received counts. `sign_ms`
    is when its last sign of life was received, 0 for never.
    """

    __slots__ = ("applied", "awaited", "counted", "heard", "life", "sign_ms")

    def __init__(self) -> None:
        self.heard = VersionVector()
        self.applied = VersionVector()
        self.counted = VersionVector()
        self.awaited: VersionVector | None = None
        self.life = 0
        self.sign_ms = 0

    def receive(self, durable: VersionVector | None, applied: VersionVector | None) -> None:
        if applied is not None:
            self.applied.merge(applied)
        if durable is not None and not self.heard.descends(durable):
            self.heard.merge(durable)
            if self.awaited is None:
                self.awaited = self.heard.copy()

    def row_count(self) -> int:
        return self.heard.origin_count() + self.applied.origin_count()

    def new_rows(self, durable: VersionVector | None, applied: VersionVector | None) -> int:
        count = 0 if durable is None else durable.origins_beyond(self.heard)
        return count if applied is None else count + applied.origins_beyond(self.applied)

    def recheck(self, own: VersionVector) -> bool:
        """Let vectors that the local vector descends pass the gate; True if one did."""
        settled = False
        # A vector received while the last one waited takes its place at the gate, and may pass at once.
        while self.awaited is not None and own.descends(self.awaited):
            self.counted = self.awaited
            self.awaited = None if self.counted == self.heard else self.heard.copy()
            settled = True
        return settled


NOBODY: Final = _Member()


# Beyond so many members whose progress was dropped on a link, nothing is heard over it.
UNHEARD_MAX: Final = 1_024


class Unheard:
    """The members whose progress was dropped on a link, with the rows that it would have taken; all members, once they
    are many.
    """

    __slots__ = ("_seen_ms", "rows")

    def __init__(self) -> None:
        self.rows: dict[int, int] = {}
        self._seen_ms = 0

    def holds(self, origin: int) -> bool:
        return origin in self.rows or len(self.rows) >= UNHEARD_MAX

    def add(self, origin: int, row_count: int, now_ms: int) -> bool:
        """Hear nothing more of this member; true for the first one."""
        self.rows[origin] = row_count
        if len(self.rows) == 1:
            self._seen_ms = now_ms
        return len(self.rows) == 1

    def row_count(self) -> int:
        return sum(self.rows.values())

    def is_due(self, now_ms: int, interval_ms: int) -> bool:
        """True once in so long while a member is unheard."""
        # The clock may have been set back.
        self._seen_ms = min(self._seen_ms, now_ms)
        if not self.rows or now_ms - self._seen_ms < interval_ms:
            return False
        self._seen_ms = now_ms
        return True


class ProgressTable:
    """The members' progress, by origin."""

    __slots__ = ("_ended", "_members", "awaiting", "listened_ms", "row_count", "stalled_ms")

    def __init__(self) -> None:
        self._members: dict[int, _Member] = {}
        self._ended: dict[int, None] = {}
        # The members with a durable vector that waits at the gate.
        self.awaiting: dict[int, _Member] = {}
        # The rows of all received vectors together: a measure of the memory they take.
        self.row_count = 0
        # When this region last listened, and for how long in total it did not.
        self.listened_ms = 0
        self.stalled_ms = 0

    def merge_rows(self, rows: list[GrownRow], unheard: Unheard, rows_max: int, now_ms: int) -> bool:
        """Merge what a peer sent of members, without those of which it is not heard; True where the first of them takes
        more than `rows_max`.
        """
        is_first = False
        for row in rows:
            is_unheard = unheard.rows and unheard.holds(row[0])
            if not is_unheard and not self.merge_row(row, rows_max, now_ms):
                is_first = unheard.add(row[0], self.new_rows(row), now_ms) or is_first
        return is_first

    def merge_row(self, row: GrownRow, rows_max: int, now_ms: int) -> bool:
        """Merge what a peer sent of a member; False, and no change, if that takes more than `rows_max`."""
        origin, durable, applied, life = row
        if not self.receive(origin, durable, applied, rows_max):
            return False
        self.record_life(origin, life, now_ms)
        return True

    def receive(
        self, origin: int, durable: VersionVector | None, applied: VersionVector | None, rows_max: int = ROWS_MAX
    ) -> bool:
        """Merge a member's vectors; the caller keeps its own objects. False, and no change, if the total would exceed
        `rows_max`.
        """
        if origin in self._ended:
            return True
        member = self._members.get(origin)
        if member is None:
            member = _Member()
        row_count = self.row_count + member.new_rows(durable, applied)
        if row_count > rows_max:
            return False
        self._members[origin] = member
        member.receive(durable, applied)
        if member.awaited is not None:
            self.awaiting[origin] = member
        self.row_count = row_count
        return True

    def new_rows(self, row: GrownRow) -> int:
        """How many rows more it takes to keep this."""
        return self._members.get(row[0], NOBODY).new_rows(row[1], row[2])

    def record_life(self, origin: int, life: int, now_ms: int) -> None:
        """Record a sign of life; call it after `receive`."""
        member = self._members.get(origin)
        if member is not None and life > member.life:
            member.life = life
            member.sign_ms = max(1, now_ms)

    def sign_ms(self, origin: int) -> int:
        """Return when this origin's last sign of life was received; 0 for never."""
        member = self._members.get(origin)
        return 0 if member is None else member.sign_ms

    def heard_since(self, region: int, since_ms: int, but: int) -> int:
        """Return the origin of a region with the latest sign of life after `since_ms`, and after the last one of `but`,
        or of two that are silent each would take the place of the other; 0 for none.
        """
        signs = [(member.sign_ms, origin) for origin, member in self._members.items() if region_of(origin) == region]
        after_ms = max(since_ms, self.sign_ms(but))
        return max([(at, origin) for at, origin in signs if at > after_ms and origin != but], default=(0, 0))[1]

    def heard_after(self, since_ms: int) -> list[int]:
        """Return the origins with a sign of life after `since_ms`, ascending."""
        return sorted([origin for origin, member in self._members.items() if member.sign_ms > since_ms])

    def listen(self, now_ms: int, heartbeat_ms: int) -> int:
        """Note that this region listens now; returns for how long it did not, beyond one heartbeat. Signs of life count
        as received that much later. The one heartbeat counts as silence of the others, so that a region that never
        listens often enough still notices that one is gone.
        """
        stalled_ms = max(0, now_ms - self.listened_ms - heartbeat_ms) if self.listened_ms else 0
        self.listened_ms = now_ms
        if stalled_ms:
            self.stalled_ms += stalled_ms
            for member in self._members.values():
                if member.sign_ms:
                    member.sign_ms = min(member.sign_ms + stalled_ms, now_ms)
        return stalled_ms

    def set_back(self, now_ms: int) -> None:
        """Adjust to a clock that was set back: no sign of life was received later than now."""
        for member in self._members.values():
            member.sign_ms = min(member.sign_ms, now_ms)

    def end(self, origin: int) -> None:
        """Drop an origin whose membership has ended: nothing depends on what it holds any more."""
        member = self._members.pop(origin, None)
        self.awaiting.pop(origin, None)
        if member is not None:
            self.row_count -= member.row_count()
        self._ended[origin] = None

    def recheck(self, own_vector: VersionVector) -> bool:
        """Re-check the gates after the local vector grew or progress was received; True if another durable vector
        counts now.
        """
        settled = False
        for origin, member in list(self.awaiting.items()):
            settled = member.recheck(own_vector) or settled
            if member.awaited is None:
                del self.awaiting[origin]
        return settled

    def durable_of(self, origin: int) -> VersionVector:
        """The durable vector that counts; empty for an unknown member."""
        member = self._members.get(origin)
        return VersionVector() if member is None else member.counted.copy()

    def holds_all(self, origin: int, vector: VersionVector) -> bool:
        """Return whether that origin has reported that all of this is on its disk."""
        member = self._members.get(origin)
        return member is not None and member.heard.descends(vector)

    def told_of(self, origin: int) -> VersionVector:
        """The newest durable vector received, at the gate or beyond it: that this much is on disk there is a fact."""
        member = self._members.get(origin)
        return VersionVector() if member is None else member.heard.copy()

    def applied_of(self, origin: int) -> VersionVector:
        """The newest applied vector received. It is for display and lag only, so it passes no gate."""
        member = self._members.get(origin)
        return VersionVector() if member is None else member.applied.copy()

    def highest_of(self, origin: int, since_ms: int) -> int:
        """The highest counter of this origin that another member with a sign of life since then has reported as
        applied.
        """
        alive = [member for one, member in self._members.items() if one != origin and member.sign_ms >= since_ms]
        return max([member.applied.get(origin) for member in alive], default=0)

    def stable(self, members: Iterable[int]) -> VersionVector:
        """Return what every member holds durably; an unknown member holds nothing."""
        stable: VersionVector | None = None
        for origin in members:
            durable = self.durable_of(origin)
            stable = durable if stable is None else stable.meet(durable)
        return VersionVector() if stable is None else stable

    def holders(self, origin: int, counter: int) -> set[int]:
        """The regions that hold this origin's effects up to the counter on disk.

        The origin with the latest sign of life speaks for its region: what an earlier origin of it held may be lost.
        """
        holders: set[int] = set()
        for member in self._latest().values():
            if self._members[member].heard.contains(origin, counter):
                holders.add(region_of(member))
        return holders

    def _latest(self) -> dict[int, int]:
        """The most recently active origin of each region."""
        latest: dict[int, int] = {}
        for origin, member in self._members.items():
            other = latest.get(region_of(origin))
            if other is None or member.sign_ms >= self._members[other].sign_ms:
                latest[region_of(origin)] = origin
        return latest

    def applied_count(self, origin: int, of: int) -> int:
        """How many effects of an origin that member has reported as applied."""
        member = self._members.get(origin)
        return 0 if member is None else member.applied.get(of)

    def rows(self) -> list[ProgressRow]:
        """The rows as received, origins ascending; each receiver has its own gate. A caller that keeps a vector must
        copy it, because it goes on growing here.
        """
        return [(origin, member.heard, member.applied, member.life) for origin, member in sorted(self._members.items())]

    def check(self) -> None:
        assert self.row_count == sum(member.row_count() for member in self._members.values()), "rows are miscounted"
        awaiting = {origin for origin, member in self._members.items() if member.awaited is not None}
        assert awaiting == self.awaiting.keys(), "the members at the gate are not those that wait there"
        for origin, member in self._members.items():
            for vector in (member.heard, member.applied, member.counted):
                vector.check()
            assert member.heard.descends(member.counted), f"more counts of origin {origin} than was heard"
            if member.awaited is None:
                assert member.counted == member.heard, f"origin {origin}: a received vector is missing at the gate"
            else:
                assert member.heard.descends(member.awaited), f"origin {origin} awaits more than was heard"
                assert member.awaited.descends(member.counted), f"origin {origin} awaits less than counts"
                assert member.awaited != member.counted, f"origin {origin} awaits what counts already"
