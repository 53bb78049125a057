"""Ownership: which instance of a group owns which partitions; pure, and in memory only.

    every partition has one owner, or none before the first call
    of n partitions and m instances, the first min(n, m) instances own n/m each, rounded down or up; the rest own none
    an instance that did not call within its timeout is removed at the next call of any other

A rebalance moves as few partitions as these rules allow. It happens within a call, so no two instances ever own a
partition at once. Each change of owner has a *generation*; `since` says which one a partition was assigned in. An
instance whose position is from before that has lost the partition in between.

Reference: "Using Consumer Groups" of Oracle Cloud Infrastructure Streaming.
"""

from __future__ import annotations

from typing import Final

NOBODY: Final = ""


class Instance:
    """A live member; `until_ms` is when it is removed unless it calls before, `timeout_ms` after its last call."""

    __slots__ = ("owned", "timeout_ms", "until_ms")

    def __init__(self) -> None:
        self.owned: list[int] = []
        self.until_ms = 0
        self.timeout_ms = 0


class Ownership:
    """The instances of one group in the order in which they joined, and the owner of each partition."""

    __slots__ = ("generation", "instances", "owners", "since")

    def __init__(self, partitions: int, generation: int) -> None:
        self.generation = generation
        self.instances: dict[str, Instance] = {}
        self.owners = [NOBODY] * partitions
        self.since = [generation] * partitions

    def call(self, name: str, timeout_ms: int, now_ms: int) -> None:
        """Note that this instance called: it is alive for `timeout_ms`. Rebalances if anybody came or went."""
        moved = self._drop_silent(name, now_ms)
        instance = self.instances.get(name)
        if instance is None:
            instance = self.instances[name] = Instance()
            moved = True
        instance.timeout_ms = timeout_ms
        instance.until_ms = now_ms + timeout_ms
        if moved:
            self._rebalance()

    def owned(self, name: str) -> list[int]:
        return self.instances[name].owned

    def until_ms(self, partition: int) -> int:
        """When the owner's reservation ends; 0 without an owner."""
        owner = self.owners[partition]
        return 0 if owner == NOBODY else self.instances[owner].until_ms

    def restart(self, generation: int) -> None:
        """Invalidate every position: each partition counts as assigned again, to the same owner."""
        self.generation = generation
        self.since = [generation] * len(self.owners)

    def _drop_silent(self, caller: str, now_ms: int) -> bool:
        """Remove the instances whose time has passed; the caller itself is back in time if nobody called before."""
        for one in self.instances.values():
            # The clock may have been set back: nobody is silent for longer than its timeout from now on.
            one.until_ms = min(one.until_ms, now_ms + one.timeout_ms)
        silent = [name for name, one in self.instances.items() if one.until_ms <= now_ms and name != caller]
        for name in silent:
            del self.instances[name]
        return bool(silent)

    def _rebalance(self) -> None:
        self.generation += 1
        active = self._active()
        free = self._cut_to_quota(active)
        for name, quota in active.items():
            owned = self.instances[name].owned
            while len(owned) < quota:
                partition = free.pop(0)
                owned.append(partition)
                self.owners[partition] = name
                self.since[partition] = self.generation
            owned.sort()

    def _active(self) -> dict[str, int]:
        """The instances that are to own partitions, and how many: those that own most come first, then the oldest."""
        ranked = sorted(self.instances, key=lambda name: -len(self.instances[name].owned))
        chosen = ranked[: len(self.owners)]
        if not chosen:
            return {}
        least, more = divmod(len(self.owners), len(chosen))
        return {name: least + (rank < more) for rank, name in enumerate(chosen)}

    def _cut_to_quota(self, active: dict[str, int]) -> list[int]:
        """Take what instances own beyond their quota, or owned when they left; returns all partitions that are free."""
        kept: set[int] = set()
        for name, instance in self.instances.items():
            instance.owned = instance.owned[: active.get(name, 0)]
            kept.update(instance.owned)
        return [partition for partition in range(len(self.owners)) if partition not in kept]

    def check(self) -> None:
        if not self.instances:
            return
        for partition, owner in enumerate(self.owners):
            assert partition in self.instances[owner].owned, f"partition {partition} is not owned by its owner"
        counts = [len(one.owned) for one in self.instances.values()]
        assert sum(counts) == len(self.owners), "a partition is owned twice"
        busy = [count for count in counts if count]
        assert max(busy) - min(busy) <= 1, f"unbalanced: {counts}"
        assert len(busy) == min(len(counts), len(self.owners)), f"somebody is idle without need: {counts}"
