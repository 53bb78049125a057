"""Parking: the clients that wait, by key, in the order of their arrival.

Each key serves its waiting clients first come, first served. A deadline of 0 never passes. Nothing here reads a clock.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from mypy_extensions import mypyc_attr
from sortedcontainers import SortedList

from crdtstream.connections.client import Client
from crdtstream.core.effects import Key

NO_DEADLINE = 0


@mypyc_attr(allow_interpreted_subclasses=True)
class Parked:
    """A client that waits for these keys until `end_ms`; at `deadline_ms`, which may come before, it is looked at again
    although no key changed. `arrival` is its place in the order of arrival; `names` are the keys of its request, in a
    region of several shards.
    """

    def __init__(self, client: Client, keys: list[Key], deadline_ms: int) -> None:
        self.client = client
        self.keys = keys
        self.deadline_ms = deadline_ms
        self.end_ms = deadline_ms
        self.arrival = 0
        self.names: list[bytes] = []

    def has_ended(self, now_ms: int) -> bool:
        return NO_DEADLINE < self.end_ms <= now_ms


P = TypeVar("P", bound=Parked)


class Parking(Generic[P]):
    """All waiting clients of one region, at most one wait for each client."""

    def __init__(self) -> None:
        # By client.
        self.waiters: dict[int, P] = {}
        self._by_key: dict[Key, dict[int, P]] = {}
        self._keyless: dict[int, P] = {}
        # (deadline, number, client) for each wait that has a deadline.
        self._deadlines: SortedList = SortedList()
        self._parked = 0

    def park(self, waiter: P) -> None:
        client_id = waiter.client.id
        assert client_id not in self.waiters, f"client {client_id} already waits"
        waiter.client.parked = True
        self._parked += 1
        waiter.arrival = self._parked
        self.waiters[client_id] = waiter
        if waiter.deadline_ms > NO_DEADLINE:
            self._deadlines.add(_row(waiter))
        if not waiter.keys:
            self._keyless[client_id] = waiter
        for key in waiter.keys:
            self._by_key.setdefault(key, {})[client_id] = waiter

    def leave(self, client_id: int) -> P | None:
        waiter = self.waiters.pop(client_id, None)
        if waiter is None:
            return None
        waiter.client.parked = False
        if waiter.deadline_ms > NO_DEADLINE:
            self._deadlines.remove(_row(waiter))
        self._keyless.pop(client_id, None)
        for key in waiter.keys:
            waiting = self._by_key.get(key)
            if waiting is not None:
                waiting.pop(client_id, None)
                if not waiting:
                    del self._by_key[key]
        return waiter

    def holds(self, waiter: P) -> bool:
        return self.waiters.get(waiter.client.id) is waiter

    def postpone(self, waiter: P, deadline_ms: int) -> None:
        """Set when this waiting client is looked at again."""
        if waiter.deadline_ms > NO_DEADLINE:
            self._deadlines.remove(_row(waiter))
        waiter.deadline_ms = deadline_ms
        if deadline_ms > NO_DEADLINE:
            self._deadlines.add(_row(waiter))

    def waiting_for(self, keys: list[Key]) -> list[P]:
        """The clients waiting for these keys: key by key, and for each key in order of arrival."""
        found: dict[int, P] = {}
        for key in keys:
            found.update(self._by_key.get(key, {}))
        return list(found.values())

    def awaits(self, key: Key) -> bool:
        """True if a client waits for this key."""
        return key in self._by_key

    def all(self) -> list[P]:
        return list(self.waiters.values())

    def keyless(self) -> list[P]:
        """The clients waiting for something other than a key."""
        return list(self._keyless.values())

    def overdue(self, now_ms: int) -> list[P]:
        """The clients whose deadline is at or before `now_ms`, in order of arrival."""
        due = sorted([(number, client_id) for _, number, client_id in self._deadlines.irange(None, (now_ms + 1,))])
        return [self.waiters[client_id] for _, client_id in due]

    def next_deadline_ms(self) -> int | None:
        if not self._deadlines:
            return None
        deadline_ms: int = self._deadlines[0][0]
        return deadline_ms

    def shift(self, difference_ms: int) -> None:
        """Move all deadlines with a clock that was set, but never to 0 or below, which would mean no deadline."""
        for waiter in self.waiters.values():
            if waiter.deadline_ms > NO_DEADLINE:
                waiter.deadline_ms = max(NO_DEADLINE + 1, waiter.deadline_ms + difference_ms)
            if waiter.end_ms > NO_DEADLINE:
                waiter.end_ms = max(NO_DEADLINE + 1, waiter.end_ms + difference_ms)
        waiters = self.waiters.values()
        self._deadlines = SortedList([_row(waiter) for waiter in waiters if waiter.deadline_ms > NO_DEADLINE])

    def keys(self) -> list[Key]:
        return list(self._by_key)

    def __len__(self) -> int:
        return len(self.waiters)

    def check(self) -> None:
        for waiter in self.waiters.values():
            assert waiter.client.parked, f"client {waiter.client.id} waits and is not marked as parked"
        timed = sorted([_row(waiter) for waiter in self.waiters.values() if waiter.deadline_ms])
        assert timed == list(self._deadlines), "the deadlines are not those of the waiting clients"
        assert self._keyless == {one: waiter for one, waiter in self.waiters.items() if not waiter.keys}
        for key, waiting in self._by_key.items():
            assert waiting, f"the queue of {key!r} is empty"
            for client_id, waiter in waiting.items():
                assert self.waiters.get(client_id) is waiter, f"client {client_id} is only in the queue of {key!r}"


def _row(waiter: Parked) -> tuple[int, int, int]:
    return (waiter.deadline_ms, waiter.arrival, waiter.client.id)
