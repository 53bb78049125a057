"""The groups of one stream at its home: membership in memory, starts and commits in registers.

A call of an instance is served in this order: rebalance, commit what its previous call read, reply. An instance goes on
behind what it last read of a partition (its bookmark) as long as it has owned that partition since; otherwise it begins
behind the latest commit. A bookmark from before a reset says nothing.

A commit states that everything up to an offset was processed, no matter which instance owns the partition now, so it
counts even if a rebalance has just moved the partition. Commits never go back, except by a reset.

A *generation* is one number: how often the group was reset, the number of the epoch, and a count of rebalances. So it
rises over resets and over changes of the home, of which neither remembers the instances.
"""

from __future__ import annotations

from typing import Final

from crdtstream.core.replica import Replica
from crdtstream.partitions.epochs import Epoch
from crdtstream.partitions.ownership import Ownership
from crdtstream.partitions.state import NUMBER_BITS, NUMBER_MAX, Start, StreamState
from crdtstream.partitions.values import (
    AT_TIME,
    INVALID,
    LATEST,
    LIMIT,
    NO_EPOCH,
    NO_START,
    STARTS,
    TRIM_HORIZON,
    UNCOMMITTED,
    UNKNOWN_GROUP,
    Ahead,
    Bookmark,
    Polled,
    Refused,
    Reservation,
)

# Names are part of cursors and of registers.
NAME_BYTES_MAX: Final = 256
TIMEOUT_MS_MAX: Final = 300_000


def generation_of(resets: int, number: int) -> int:
    return (resets << NUMBER_BITS | number) << NUMBER_BITS


class GroupMembership:
    """The instances of one group, coordinated in one epoch since one start; `used_ms` is when any of them last
    called.
    """

    __slots__ = ("epoch", "ownership", "start", "used_ms")

    def __init__(self, partitions: int, epoch: Epoch, start: Start, count: int, now_ms: int) -> None:
        self.epoch = epoch
        self.start = start
        self.ownership = Ownership(partitions, generation_of(start.resets, epoch[0]) + count)
        self.used_ms = now_ms

    def bookmark(self, offsets: dict[int, int]) -> Bookmark:
        return Bookmark(self.ownership.generation, self.epoch, self.start.name, offsets)


class Coordinator:
    """Serves the calls of all groups of one stream."""

    __slots__ = ("_ahead", "_count", "_replica", "_resets", "_state", "memberships")

    def __init__(self, replica: Replica, state: StreamState, ahead: Ahead) -> None:
        self._replica = replica
        self._ahead = ahead
        self._state = state
        self._count = 0
        self._resets = 0
        self.memberships: dict[str, GroupMembership] = {}

    @property
    def _now_ms(self) -> int:
        return self._replica.keyspace.now_ms + self._ahead.ms

    # Calls

    def join(self, group: str, start: str, time_ms: int, groups_max: int) -> Bookmark:
        """Create the group, unless it exists: then `start` is ignored."""
        require_name("group", group)
        if not self._state.starts_of(group):
            groups = len(self._state.groups())
            if 0 < groups_max <= groups:
                text = f"the stream has {groups} groups, and {groups_max} are allowed: use one of them"
                raise Refused(LIMIT, text)
            self._forget(group)
            self._write_start(group, start, time_ms, self._resets)
        membership = self._member_of(group)
        return membership.bookmark({})

    def poll(self, group: str, instance: str, timeout_ms: int, bookmark: Bookmark, commits: bool) -> Polled:
        membership = self._called(group, instance, timeout_ms)
        if commits:
            self._commit(group, membership, bookmark)
        ownership = membership.ownership
        kept = self._kept(membership, instance, bookmark)
        positions = {at: self._next(group, membership, at, kept) for at in ownership.owned(instance)}
        return Polled(ownership.generation, membership.epoch, membership.start.name, positions)

    def commit(self, group: str, instance: str, timeout_ms: int, bookmark: Bookmark) -> Bookmark:
        membership = self._called(group, instance, timeout_ms)
        self._commit(group, membership, bookmark)
        return membership.bookmark({})

    def heartbeat(self, group: str, instance: str, timeout_ms: int, bookmark: Bookmark) -> Bookmark:
        membership = self._called(group, instance, timeout_ms)
        kept = self._kept(membership, instance, bookmark)
        return membership.bookmark(kept)

    def reservations(self, group: str) -> list[Reservation]:
        membership = self._member_of(group)
        ownership, start = membership.ownership, membership.start
        return [
            Reservation(at, self._state.committed(group, at, start), ownership.owners[at], ownership.until_ms(at))
            for at in range(self._state.spec.partitions)
        ]

    def reset(self, group: str, start: str, time_ms: int) -> None:
        """Move the whole group; what was read or committed before does not count any more."""
        membership = self._member_of(group)
        membership.start = self._write_start(group, start, time_ms, membership.start.resets + 1)
        self._count_on(membership)
        membership.ownership.restart(generation_of(membership.start.resets, membership.epoch[0]) + self._count)

    # Parts

    def _called(self, group: str, instance: str, timeout_ms: int) -> GroupMembership:
        require_name("instance", instance)
        if not 0 < timeout_ms <= TIMEOUT_MS_MAX:
            raise Refused(INVALID, f"timeoutInMs {timeout_ms} is out of range: use 1 to {TIMEOUT_MS_MAX}")
        membership = self._member_of(group)
        membership.used_ms = self._now_ms
        membership.ownership.call(instance, timeout_ms, membership.used_ms)
        return membership

    def _member_of(self, group: str) -> GroupMembership:
        starts = self._state.starts_of(group)
        if not starts:
            self._forget(group)
            raise Refused(UNKNOWN_GROUP, f"the stream has no group {group!r}: create a group cursor first")
        start = starts[0] if len(starts) == 1 else self._meet(group, starts)
        epoch = self._state.epochs.current()
        if start.epoch != epoch:
            start = self._renew(group, start)
        known = self.memberships.get(group)
        # Another home, or a reset by one, has moved the group since: nothing that is remembered here holds any more.
        if known is None or known.epoch != epoch or known.start.name != start.name:
            if known is not None:
                self._count_on(known)
            known = GroupMembership(self._state.spec.partitions, epoch, start, self._count, self._now_ms)
            self.memberships[group] = known
        return known

    def _write_start(self, group: str, kind: str, time_ms: int, resets: int) -> Start:
        if kind not in STARTS:
            raise Refused(INVALID, f"a group cannot start at {kind!r}: use {', '.join(STARTS)}")
        offsets = [one.next_offset() for one in self._state.partitions()] if kind == LATEST else []
        return self._write_new(
            group, Start(kind, time_ms if kind == AT_TIME else 0, offsets, NO_EPOCH, resets, NO_START)
        )

    def _write_new(self, group: str, start: Start) -> Start:
        start.epoch, start.name = self._state.epochs.current(), self._state.new_name()
        self._state.write_start(group, start)
        return start

    def _meet(self, group: str, starts: list[Start]) -> Start:
        """Two homes made or moved the group without knowing of each other: move it to the earlier position of each
        partition, because what one of them has committed does not reach back to where the other one began.
        """
        resets = starts[0].resets + 1
        if any(one.kind == TRIM_HORIZON for one in starts):
            return self._write_start(group, TRIM_HORIZON, 0, resets)
        if all(one.kind == AT_TIME for one in starts):
            return self._write_start(group, AT_TIME, min([one.time_ms for one in starts]), resets)
        partitions = range(self._state.spec.partitions)
        offsets = [min([self._first(one, at) for one in starts]) for at in partitions]
        return self._write_new(group, Start(LATEST, 0, offsets, NO_EPOCH, resets, NO_START))

    def _renew(self, group: str, start: Start) -> Start:
        """Write the group again in this epoch. A former home that does not know of the epoch may replace what it has
        seen, or drop the group because nobody uses it there.
        """
        offsets = [self._state.epochs.clamp_offset(at, offset, start.epoch) for at, offset in enumerate(start.offsets)]
        epoch = self._state.epochs.current()
        renewed = Start(start.kind, start.time_ms, offsets, epoch, start.resets, start.name)
        self._state.write_start(group, renewed)
        for partition in range(self._state.spec.partitions):
            offset = self._state.committed(group, partition, start)
            if offset != UNCOMMITTED:
                self._state.write_commit(group, partition, offset, start)
        return renewed

    def _kept(self, membership: GroupMembership, instance: str, bookmark: Bookmark) -> dict[int, int]:
        """What the bookmark says of partitions that the instance has owned ever since."""
        ownership = membership.ownership
        owned = [at for at in ownership.owned(instance) if ownership.since[at] <= bookmark.generation]
        if not self._is_since(membership.start, bookmark):
            return {}
        return {at: self._settled(at, bookmark) for at in owned if at in bookmark.offsets}

    def _is_since(self, start: Start, bookmark: Bookmark) -> bool:
        """True if the bookmark was given since this start: another home may have made or moved the group as often, and
        elsewhere. What was read under an epoch that does not count is read again.
        """
        return self._state.epochs.counts(bookmark.epoch) and bookmark.start == start.name

    def _settled(self, partition: int, bookmark: Bookmark) -> int:
        """The last offset read that later epochs have left valid."""
        return self._state.epochs.clamp_offset(partition, bookmark.offsets[partition] + 1, bookmark.epoch) - 1

    def _commit(self, group: str, membership: GroupMembership, bookmark: Bookmark) -> None:
        start = membership.start
        if not self._is_since(start, bookmark):
            return
        for partition in sorted(bookmark.offsets):
            if partition < self._state.spec.partitions:
                offset = self._settled(partition, bookmark)
                if offset > self._state.committed(group, partition, start):
                    self._state.write_commit(group, partition, offset, start)

    def _next(self, group: str, membership: GroupMembership, partition: int, kept: dict[int, int]) -> int:
        """Where the instance reads on: at a message that is here, because it must not pass one that is missing."""
        return self._state.partitions()[partition].present_from(self._behind(group, membership, partition, kept))

    def _behind(self, group: str, membership: GroupMembership, partition: int, kept: dict[int, int]) -> int:
        if partition in kept:
            return kept[partition] + 1
        committed = self._state.committed(group, partition, membership.start)
        if committed != UNCOMMITTED:
            return committed + 1
        return self._first(membership.start, partition)

    def _first(self, start: Start, partition: int) -> int:
        """Where a group begins in a partition of which it has committed nothing."""
        found = self._state.partitions()[partition]
        if start.kind == LATEST:
            return self._state.epochs.clamp_offset(partition, start.offsets[partition], start.epoch)
        return found.offset_at(start.time_ms) if start.kind == AT_TIME else found.oldest_offset()

    # Upkeep

    def drop_unused(self, retention_ms: int) -> int:
        """Drop the groups that nobody has used for the retention; returns how many."""
        dropped = 0
        for group in self._state.groups():
            membership = self._member_of(group)
            # The clock may have been set back.
            membership.used_ms = min(membership.used_ms, self._now_ms)
            if self._now_ms - membership.used_ms > retention_ms:
                self._state.drop_group(group)
                self._forget(group)
                dropped += 1
        return dropped

    def _forget(self, group: str) -> None:
        """The group is gone. A later one of its name counts on, so that no generation comes twice."""
        known = self.memberships.pop(group, None)
        if known is not None:
            self._resets = max(self._resets, known.start.resets + 1)
            self._count_on(known)

    def _count_on(self, membership: GroupMembership) -> None:
        """What is begun later counts from here: a group may also come back as another home has written it."""
        self._count = max(self._count, membership.ownership.generation & NUMBER_MAX)

    def check(self) -> None:
        for membership in self.memberships.values():
            membership.ownership.check()


def no_bookmark() -> Bookmark:
    """Of an instance that has read nothing."""
    return Bookmark(0, NO_EPOCH, NO_START, {})


def require_name(what: str, name: str) -> None:
    if not 0 < len(name.encode()) <= NAME_BYTES_MAX:
        raise Refused(INVALID, f"the name of the {what} must have 1 to {NAME_BYTES_MAX} bytes")
