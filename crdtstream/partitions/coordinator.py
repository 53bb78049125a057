"""The groups of one stream at its home: membership in memory, starts and commits in registers.

A call of an instance is served in this order: rebalance, commit what its previous call read, reply. An instance goes on
behind what it last read of a partition (its bookmark) as long as it has owned that partition since; otherwise it begins
behind the latest commit. A bookmark from before a reset says nothing.

A commit states that everything up to an offset was processed, whoever owns the partition now, so it counts even if a
rebalance has just moved the partition. Commits never go back, except by a reset.

A *generation* is one number: how often the group was reset, the number of the epoch, and a count of rebalances. So it
rises over resets and over changes of the home, of which neither remembers the instances.
"""

from __future__ import annotations

from typing import Final

from crdtstream.core.epochs import Epoch
from crdtstream.core.ownership import Ownership
from crdtstream.core.replica import Replica
from crdtstream.partitions.state import Start, StreamState
from crdtstream.partitions.values import (
    AT_TIME,
    INVALID,
    LATEST,
    LIMIT,
    NO_EPOCH,
    STARTS,
    UNCOMMITTED,
    UNKNOWN_GROUP,
    Ahead,
    Bookmark,
    Polled,
    Refused,
    Reservation,
)

NUMBER_BITS: Final = 48
# Names are part of cursors and of registers.
NAME_BYTES_MAX: Final = 256
TIMEOUT_MS_MAX: Final = 300_000


def generation_of(resets: int, number: int) -> int:
    return (resets << NUMBER_BITS | number) << NUMBER_BITS


class Membership:
    """The instances of one group, coordinated in one epoch since one reset; `used_ms` is when any of them last
    called.
    """

    __slots__ = ("epoch", "ownership", "resets", "used_ms")

    def __init__(self, partitions: int, epoch: Epoch, resets: int, now_ms: int) -> None:
        self.epoch = epoch
        self.resets = resets
        self.ownership = Ownership(partitions, generation_of(resets, epoch[0]))
        self.used_ms = now_ms


class Coordinator:
    """Serves the calls of all groups of one stream."""

    __slots__ = ("_ahead", "_memberships", "_replica", "_state")

    def __init__(self, replica: Replica, state: StreamState, ahead: Ahead) -> None:
        self._replica = replica
        self._ahead = ahead
        self._state = state
        self._memberships: dict[str, Membership] = {}

    @property
    def _now_ms(self) -> int:
        return self._replica.keyspace.now_ms + self._ahead.ms

    # Calls

    def join(self, group: str, start: str, time_ms: int, groups_max: int) -> Bookmark:
        """Create the group, unless it exists: then `start` is ignored."""
        require_name("group", group)
        if self._state.start_of(group) is None:
            groups = len(self._state.groups())
            if 0 < groups_max <= groups:
                text = f"the stream has {groups} groups, and {groups_max} are allowed: use one of them"
                raise Refused(LIMIT, text)
            self._write_start(group, start, time_ms, 0)
        membership = self._member_of(group)
        return Bookmark(membership.ownership.generation, membership.epoch, {})

    def poll(self, group: str, instance: str, timeout_ms: int, bookmark: Bookmark, commits: bool) -> Polled:
        membership = self._called(group, instance, timeout_ms)
        if commits:
            self._commit(group, membership, bookmark)
        ownership = membership.ownership
        kept = self._kept(membership, instance, bookmark)
        positions = {at: self._next(group, membership, at, kept) for at in ownership.owned(instance)}
        return Polled(ownership.generation, membership.epoch, positions)

    def commit(self, group: str, instance: str, timeout_ms: int, bookmark: Bookmark) -> Bookmark:
        membership = self._called(group, instance, timeout_ms)
        self._commit(group, membership, bookmark)
        return Bookmark(membership.ownership.generation, membership.epoch, {})

    def heartbeat(self, group: str, instance: str, timeout_ms: int, bookmark: Bookmark) -> Bookmark:
        membership = self._called(group, instance, timeout_ms)
        kept = self._kept(membership, instance, bookmark)
        return Bookmark(membership.ownership.generation, membership.epoch, kept)

    def reservations(self, group: str) -> list[Reservation]:
        membership = self._member_of(group)
        ownership, resets = membership.ownership, membership.resets
        return [
            Reservation(at, self._state.committed(group, at, resets), ownership.owners[at], ownership.until_ms(at))
            for at in range(self._state.spec.partitions)
        ]

    def reset(self, group: str, start: str, time_ms: int) -> None:
        """Move the whole group; what was read or committed before does not count any more."""
        membership = self._member_of(group)
        self._write_start(group, start, time_ms, membership.resets + 1)
        membership.resets += 1
        membership.ownership.restart(generation_of(membership.resets, membership.epoch[0]))

    # Parts

    def _called(self, group: str, instance: str, timeout_ms: int) -> Membership:
        require_name("instance", instance)
        if not 0 < timeout_ms <= TIMEOUT_MS_MAX:
            raise Refused(INVALID, f"timeoutInMs {timeout_ms} is out of range: use 1 to {TIMEOUT_MS_MAX}")
        membership = self._member_of(group)
        membership.used_ms = self._now_ms
        membership.ownership.call(instance, timeout_ms, membership.used_ms)
        return membership

    def _member_of(self, group: str) -> Membership:
        start = self._state.start_of(group)
        if start is None:
            self._memberships.pop(group, None)
            raise Refused(UNKNOWN_GROUP, f"the stream has no group {group!r}: create a group cursor first")
        epoch = self._state.epochs.current()
        known = self._memberships.get(group)
        # Another home, or a reset by one, has moved the group since: nothing that is remembered here holds any more.
        if known is None or known.epoch != epoch or known.resets != start.resets:
            known = Membership(self._state.spec.partitions, epoch, start.resets, self._now_ms)
            self._memberships[group] = known
        return known

    def _write_start(self, group: str, kind: str, time_ms: int, resets: int) -> None:
        if kind not in STARTS:
            raise Refused(INVALID, f"a group cannot start at {kind!r}: use {', '.join(STARTS)}")
        offsets = [one.next_offset() for one in self._state.partitions()] if kind == LATEST else []
        start = Start(kind, time_ms if kind == AT_TIME else 0, offsets, self._state.epochs.current(), resets)
        self._state.write_start(group, start)

    def _kept(self, membership: Membership, instance: str, bookmark: Bookmark) -> dict[int, int]:
        """What the bookmark says of partitions that the instance has owned ever since."""
        ownership = membership.ownership
        owned = [at for at in ownership.owned(instance) if ownership.since[at] <= bookmark.generation]
        return {at: self._settled(at, bookmark) for at in owned if at in bookmark.offsets}

    def _settled(self, partition: int, bookmark: Bookmark) -> int:
        """The last offset read that later epochs have left valid."""
        return self._state.epochs.settle(partition, bookmark.offsets[partition] + 1, bookmark.epoch) - 1

    def _commit(self, group: str, membership: Membership, bookmark: Bookmark) -> None:
        if bookmark.generation < generation_of(membership.resets, 0):
            return
        for partition in sorted(bookmark.offsets):
            if partition < self._state.spec.partitions:
                offset = self._settled(partition, bookmark)
                if offset > self._state.committed(group, partition, membership.resets):
                    self._state.write_commit(group, partition, offset, membership.resets)

    def _next(self, group: str, membership: Membership, partition: int, kept: dict[int, int]) -> int:
        if partition in kept:
            return kept[partition] + 1
        committed = self._state.committed(group, partition, membership.resets)
        if committed != UNCOMMITTED:
            return committed + 1
        return self._first(group, partition)

    def _first(self, group: str, partition: int) -> int:
        """Where the group begins in a partition of which it has committed nothing."""
        start, found = self._state.start_of(group), self._state.partitions()[partition]
        assert start is not None, "a group without a start was called"
        if start.kind == LATEST:
            return self._state.epochs.settle(partition, start.offsets[partition], start.epoch)
        return found.offset_at(start.time_ms) if start.kind == AT_TIME else found.oldest_offset()

    # Upkeep

    def drop_unused(self, retention_ms: int) -> int:
        """Drop the groups that nobody has used for the retention; returns how many."""
        dropped = 0
        for group in self._state.groups():
            membership = self._member_of(group)
            if self._now_ms - membership.used_ms > retention_ms:
                self._state.drop_group(group)
                del self._memberships[group]
                dropped += 1
        return dropped

    def check(self) -> None:
        for membership in self._memberships.values():
            membership.ownership.check()


def no_bookmark() -> Bookmark:
    """Of an instance that has read nothing."""
    return Bookmark(0, NO_EPOCH, {})


def require_name(what: str, name: str) -> None:
    if not 0 < len(name.encode()) <= NAME_BYTES_MAX:
        raise Refused(INVALID, f"the name of the {what} must have 1 to {NAME_BYTES_MAX} bytes")
