"""Clients that wait: who waits for which key, in the order in which they came.

A waiter knows how to serve itself: `serve` gives the reply, or None when there is still nothing for it. First come
first served for each key. A deadline of 0 never passes. Nothing here reads a clock.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from crdtstream.core.effects import Key

if TYPE_CHECKING:
    from crdtstream.commands.context import Client, Context

NO_DEADLINE = 0


@mypyc_attr(allow_interpreted_subclasses=True)
class Waiter(ABC):
    """One parked client."""

    def __init__(self, client: Client, keys: list[Key], deadline_ms: int) -> None:
        self.client = client
        self.keys = keys
        self.deadline_ms = deadline_ms

    @abstractmethod
    def serve(self, context: Context) -> bytes | None:
        """The reply, or None to go on waiting; may raise CommandError, which ends the wait too."""

    @abstractmethod
    def expired(self, context: Context) -> bytes:
        """The reply when the deadline passes."""


class Parking:
    """The waiters of one region; one for each client."""

    def __init__(self) -> None:
        self._by_client: dict[int, Waiter] = {}
        self._by_key: dict[Key, dict[int, Waiter]] = {}
        self._keyless: dict[int, Waiter] = {}
        self._deadlines: list[tuple[int, int]] = []

    def park(self, waiter: Waiter) -> None:
        client_id = waiter.client.id
        assert client_id not in self._by_client, f"client {client_id} waits already"
        waiter.client.parked = True
        self._by_client[client_id] = waiter
        if waiter.deadline_ms > NO_DEADLINE:
            heappush(self._deadlines, (waiter.deadline_ms, client_id))
        if not waiter.keys:
            self._keyless[client_id] = waiter
        for key in waiter.keys:
            self._by_key.setdefault(key, {})[client_id] = waiter

    def leave(self, client_id: int) -> Waiter | None:
        waiter = self._by_client.pop(client_id, None)
        if waiter is None:
            return None
        waiter.client.parked = False
        self._keyless.pop(client_id, None)
        for key in waiter.keys:
            waiting = self._by_key.get(key)
            if waiting is not None:
                waiting.pop(client_id, None)
                if not waiting:
                    del self._by_key[key]
        return waiter

    def waiting_for(self, keys: list[Key]) -> list[Waiter]:
        """Who waits for these keys: key by key, and for each key in the order of arrival."""
        found: dict[int, Waiter] = {}
        for key in keys:
            found.update(self._by_key.get(key, {}))
        return list(found.values())

    def keyless(self) -> list[Waiter]:
        """Those that wait for something else than a key."""
        return list(self._keyless.values())

    def overdue(self, now_ms: int) -> list[Waiter]:
        """Those whose deadline is at or below `now_ms`, in the order in which they came."""
        deadline_ms = self.next_deadline_ms()
        if deadline_ms is None or deadline_ms > now_ms:
            return []
        return [waiter for waiter in self._by_client.values() if NO_DEADLINE < waiter.deadline_ms <= now_ms]

    def next_deadline_ms(self) -> int | None:
        """Deadlines of those that left stay in the heap until they come up."""
        deadlines = self._deadlines
        while deadlines:
            deadline_ms, client_id = deadlines[0]
            waiter = self._by_client.get(client_id)
            if waiter is not None and waiter.deadline_ms == deadline_ms:
                return deadline_ms
            heappop(deadlines)
        return None

    def shift(self, difference_ms: int) -> None:
        """The clock was set: move all deadlines with it, but never to where they would mean none."""
        for waiter in self._by_client.values():
            if waiter.deadline_ms > NO_DEADLINE:
                waiter.deadline_ms = max(NO_DEADLINE + 1, waiter.deadline_ms + difference_ms)
        waiters = self._by_client.items()
        self._deadlines = [(waiter.deadline_ms, one) for one, waiter in waiters if waiter.deadline_ms > NO_DEADLINE]
        heapify(self._deadlines)

    def keys(self) -> list[Key]:
        return list(self._by_key)

    def __len__(self) -> int:
        return len(self._by_client)

    def check(self) -> None:
        for waiter in self._by_client.values():
            assert waiter.client.parked, f"client {waiter.client.id} waits but is not marked"
        timed = {(waiter.deadline_ms, one) for one, waiter in self._by_client.items() if waiter.deadline_ms}
        assert timed <= set(self._deadlines), "a deadline that nothing watches"
        assert self._keyless == {one: waiter for one, waiter in self._by_client.items() if not waiter.keys}
        for key, waiting in self._by_key.items():
            assert waiting, f"an empty queue for {key!r}"
            for client_id, waiter in waiting.items():
                assert self._by_client.get(client_id) is waiter, f"client {client_id} waits for {key!r} only"
