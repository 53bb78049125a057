"""Consumers and producers of two groups, all in one thread, with the client library: `crdtstream.client`.

A third of the consumers of each group belongs to each region. One half of them may use any region, the nearest one
first, and so follows the region that delivers; the other half reaches its own region alone, as it is in a data centre
that is cut off, so every region always has readers. Producers name what they add.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress

import redis

from crdtstream.client import AsyncConsumer, AsyncProducer, AsyncRegions, Entry
from nemesis.cluster import Region
from nemesis.letters import PoisonError, is_poison, poison_token
from nemesis.repeats import AddedEntry, HandledEntry

KEY = "work"
OWNED, SHARED = "owned", "shared"
TAKEOVER_MS = 2_000
BLOCK_MS = 500
RETRY_MS = 3_000
COUNT = 5
# A reply of a region that hangs is not awaited for longer.
SOCKET_S = 3.0
PATIENCE_S = 10.0
WORK_S = 0.2
ADD_EVERY_S = 0.06
# Of the adds of a producer, every so manieth is poison.
POISON_EVERY = 40
AGAIN_S = 0.2


class Crowd(threading.Thread):
    """`added` and `handled` grow while it runs; other threads read them. `error` ends it."""

    def __init__(self, regions: Sequence[Region], consumers: int, seed: int) -> None:
        super().__init__(name="crowd", daemon=True)
        self._regions = list(regions)
        self._numbers = {f"127.0.0.1:{region.port}": region.number for region in regions}
        self._consumers = consumers
        self._random = random.Random(seed)
        self._ends = threading.Event()
        self.writing = threading.Event()
        self.added: list[AddedEntry] = []
        self.handled: list[HandledEntry] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            asyncio.run(self._run())
        except BaseException as error:
            self.error = error

    def end(self) -> None:
        self._ends.set()
        self.join()

    def is_idle(self) -> bool:
        """Return whether no handler was called for so long as a consumer needs for all that it reads at once."""
        return not self.handled or time.monotonic() - self.handled[-1].begun_s > 2 * COUNT * WORK_S

    async def _run(self) -> None:
        jobs: list[Coroutine[None, None, None]] = [self._produce(region) for region in self._regions]
        for group in (OWNED, SHARED):
            jobs += [self._consume(group, f"{group}-{number}", number) for number in range(self._consumers // 2)]
        tasks = [asyncio.create_task(job) for job in jobs]
        while not self._ends.is_set() and not any(task.done() for task in tasks):
            await asyncio.sleep(AGAIN_S)
        failed = [task for task in tasks if task.done() and task.exception() is not None]
        # A cancellation that comes while a connection is made or closed may get lost below, so it is repeated.
        left = {task for task in tasks if not task.done()}
        while left:
            for task in left:
                task.cancel()
            _, left = await asyncio.wait(left, timeout=AGAIN_S)
        for task in failed:
            await task

    def _addresses(self, nearest: Region) -> list[str]:
        others = [region for region in self._regions if region is not nearest]
        return [f"127.0.0.1:{region.port}" for region in (nearest, *others)]

    async def _consume(self, group: str, name: str, number: int) -> None:
        addresses = self._addresses(self._regions[number % len(self._regions)])
        if number // len(self._regions) % 2:
            addresses = addresses[:1]
        async with AsyncRegions(addresses, patience_s=PATIENCE_S, socket_timeout_s=SOCKET_S) as regions:

            async def handle(entry: Entry) -> None:
                if is_poison(entry.fields[b"token"]):
                    raise PoisonError
                region = self._numbers[regions.address]
                call = HandledEntry(
                    group, entry.id, entry.fields[b"token"], region, name, entry.deliveries > 1, time.monotonic()
                )
                self.handled.append(call)
                await asyncio.sleep(WORK_S * self._random.random())
                call.done_s = time.monotonic()

            consumer = AsyncConsumer(
                regions,
                KEY,
                group,
                handle,
                name=name,
                on_failure=lambda _entry, error, _deliveries: not_expected(error),
                count=COUNT,
                block_ms=BLOCK_MS,
                retry_after_ms=RETRY_MS,
            )
            await self._again_and_again(consumer.run)

    async def _produce(self, region: Region) -> None:
        async with AsyncRegions(self._addresses(region), patience_s=PATIENCE_S, socket_timeout_s=SOCKET_S) as regions:
            count = itertools.count()
            producer = AsyncProducer(regions, KEY, name=f"producer-{region.number}")

            async def add() -> None:
                number = next(count)
                token = f"{region.number}-{number}"
                token = poison_token(token) if number % POISON_EVERY == POISON_EVERY // 2 else token
                entry_id = await producer.add({"token": token}, name=token)
                self.added.append(AddedEntry(entry_id, token.encode(), time.monotonic()))
                await regions.go_home()

            while True:
                await asyncio.sleep(ADD_EVERY_S)
                if self.writing.is_set():
                    await self._again_and_again(add)

    async def _again_and_again(self, job: Callable[[], Coroutine[None, None, None]]) -> None:
        """Until it returns: no region can be used for a while when all are killed."""
        while True:
            with suppress(redis.ConnectionError, redis.TimeoutError):
                await job()
                return
            await asyncio.sleep(AGAIN_S)


def not_expected(error: Exception) -> bool:
    """Let poison entries come again; raise what else a handler raised."""
    if not isinstance(error, PoisonError):
        raise error
    return False
