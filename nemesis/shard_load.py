"""Clients of regions of several shards, as `redis-py` makes them, and what they were answered.

A producer names each add (`IDMP`) and repeats it under that name until it is answered. A consumer reads its group and
acknowledges until that is answered; after an error, and when nothing is new, it reads what is pending for it, because
`redis-py` repeats a lost XREADGROUP itself. There are two kinds of producers, as `redis-py` has two cluster clients.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import redis
from redis.asyncio.cluster import ClusterNode as AsyncNode
from redis.asyncio.cluster import RedisCluster as AsyncCluster
from redis.cluster import ClusterNode, RedisCluster
from redis.exceptions import RedisClusterException

# Hosts and ports.
Places = Sequence[tuple[str, int]]
# Longer than a shard that moves holds a request.
TIMEOUT_S = 20.0
REST_S = 0.05
BLOCK_MS = 500
COUNT = 50
FAILURES = (redis.RedisError, RedisClusterException, OSError, TimeoutError)


@dataclass(frozen=True, slots=True)
class Operation:
    """An add, from its first attempt to its answer."""

    begun_s: float
    done_s: float


@dataclass
class Produced:
    """What one producer was answered: the ID of each entry by its token, and how long each add took."""

    region: str
    key: str
    producer: str
    ids: dict[bytes, bytes] = field(default_factory=dict)
    operations: list[Operation] = field(default_factory=list)
    repeats: int = 0

    # Since when the next add is tried, 0 if it is not yet.
    begun_s: float = 0.0

    def request(self) -> tuple[str | bytes, ...]:
        """The next add, until it is answered."""
        self.begun_s = self.begun_s or time.monotonic()
        number = str(len(self.ids))
        return ("XADD", self.key, "IDMP", self.producer, number, "*", "t", self._token())

    def _token(self) -> bytes:
        return f"{self.producer}-{len(self.ids)}".encode()

    def record(self, entry_id: bytes) -> None:
        self.operations.append(Operation(self.begun_s, time.monotonic()))
        self.ids[self._token()] = entry_id
        self.begun_s = 0.0

    def pause_ms(self, begun_s: float, done_s: float) -> float:
        """The longest add that was under way between these times."""
        took = [
            each.done_s - each.begun_s for each in self.operations if each.done_s >= begun_s and each.begun_s <= done_s
        ]
        return 1000 * max(took, default=0.0)


def cluster_client(places: Places) -> Any:
    nodes = [ClusterNode(host, port) for host, port in places]  # type: ignore[no-untyped-call]
    return RedisCluster(startup_nodes=nodes, socket_timeout=TIMEOUT_S)


def produce(places: Places, produced: Produced, ends: threading.Event) -> None:
    client = cluster_client(places)
    with client:
        while not ends.is_set():
            try:
                produced.record(client.execute_command(*produced.request()))
            except FAILURES:
                produced.repeats += 1
            time.sleep(REST_S)


def produce_async(places: Places, produced: Produced, ends: threading.Event) -> None:
    asyncio.run(_produce_async(places, produced, ends))


async def _produce_async(places: Places, produced: Produced, ends: threading.Event) -> None:
    nodes = [AsyncNode(host, port) for host, port in places]
    client: Any = AsyncCluster(startup_nodes=nodes, socket_timeout=TIMEOUT_S)
    async with client:
        while not ends.is_set():
            try:
                produced.record(await client.execute_command(*produced.request()))
            except FAILURES:
                produced.repeats += 1
            await asyncio.sleep(REST_S)


@dataclass
class Consumed:
    """What one consumer was delivered as new, by ID, and whose acknowledgement was answered."""

    key: str
    group: str
    delivered: Counter[bytes] = field(default_factory=Counter)
    acknowledged: set[bytes] = field(default_factory=set)
    # Their acknowledgement was sent, perhaps, and not answered: a region that has it delivers them no more.
    unanswered: set[bytes] = field(default_factory=set)
    # Delivered again, although the acknowledgement had been answered.
    again: list[bytes] = field(default_factory=list)
    failure: str = ""


def consume(places: Places, consumed: Consumed, ends: threading.Event) -> None:
    """Read until the end, with another client after each error: of XREADGROUP, redis-py asks its default node for the
    keys, and looks for no other one if that is gone.
    """
    while not ends.is_set():
        try:
            with cluster_client(places) as client:
                consume_all(client, consumed, ends)
        except FAILURES as error:
            consumed.failure = repr(error)
            time.sleep(REST_S)


def consume_all(client: Any, consumed: Consumed, ends: threading.Event) -> None:
    """Read what is pending until there is no more, then what is new until there is no more, and so on."""
    start, other = "0", ">"
    while not ends.is_set():
        if not consume_once(client, consumed, start):
            start, other = other, start


def consume_once(client: Any, consumed: Consumed, start: str) -> bool:
    """Read and acknowledge; return whether there was anything."""
    reply = client.xreadgroup(consumed.group, "c", {consumed.key: start}, count=COUNT, block=BLOCK_MS)
    entries = [entry_id for _, rows in reply for entry_id, _ in rows]
    consumed.again += [entry_id for entry_id in entries if entry_id in consumed.acknowledged]
    if start == ">":
        consumed.delivered.update(entries)
    consumed.unanswered.update(entries)
    if consumed.unanswered:
        client.xack(consumed.key, consumed.group, *sorted(consumed.unanswered))
        consumed.acknowledged |= consumed.unanswered
        consumed.unanswered.clear()
    return bool(entries)


class Clients:
    """Threads that run until `stop`."""

    def __init__(self) -> None:
        self.produced: list[Produced] = []
        self.consumed: list[Consumed] = []
        self._ends_producing = threading.Event()
        self._ends = threading.Event()
        self._producers: list[threading.Thread] = []
        self._consumers: list[threading.Thread] = []

    def add_producers(self, places: Places, key: str, region: str) -> None:
        for work, kind in ((produce, "sync"), (produce_async, "async")):
            made = Produced(region, key, f"{region}-{kind}-{key}")
            self.produced.append(made)
            self._producers.append(self._begin(work, places, made, self._ends_producing))

    def add_consumer(self, places: Places, key: str, group: str) -> None:
        made = Consumed(key, group)
        self.consumed.append(made)
        self._consumers.append(self._begin(consume, places, made, self._ends))

    def _begin(self, work: Callable[..., None], *given: object) -> threading.Thread:
        thread = threading.Thread(target=work, args=given, daemon=True)
        thread.start()
        return thread

    def end_producing(self) -> None:
        self._ends_producing.set()
        for thread in self._producers:
            thread.join()

    def stop(self) -> None:
        self.end_producing()
        self._ends.set()
        for thread in self._consumers:
            thread.join()

    def abandon(self) -> None:
        """Have the threads end, also one whose request is never answered."""
        self._ends_producing.set()
        self._ends.set()

    def progress(self) -> list[int]:
        return [len(each.ids) for each in self.produced]
