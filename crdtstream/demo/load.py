"""A steady workload for regions that run: clients that add to two streams in each region, and readers of groups.

One seed gives each region one sequence of entries, whenever they are sent; each names its region and its number there.
Regions may be unreachable, restart or refuse writes: a change of that is reported once, and the workload goes on.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count

from crdtstream.observing.access import Access
from crdtstream.observing.asking import RedisPort, RegionAnswer, Words
from crdtstream.settings.config import is_address

ORDERS, PAYMENTS = "orders", "payments"
# By group: its stream, and whether every region reads it. What only one region reads lags where its links are down.
GROUPS = {"shipping": (ORDERS, True), "audit": (PAYMENTS, False)}
ITEMS = ("book", "lamp", "chair", "cup")
LENGTH_MAX = 100_000
READ_MAX = 100
TIMEOUT_S = 2.0
WELL = ""
USAGE_ERROR, INTERRUPTED = 2, 130
Report = Callable[[str], None]


def entries(seed: int, region: int) -> Iterator[Words]:
    """The adds of one region, one after the other, for ever; every third one is a payment."""
    drawn = random.Random(f"{seed} {region}")
    for number in count(1):
        key = PAYMENTS if number % 3 == 0 else ORDERS
        fields = (
            "region",
            region,
            "number",
            number,
            "item",
            drawn.choice(ITEMS),
            "cents",
            drawn.randrange(100, 100_000),
        )
        yield ("XADD", key, "MAXLEN", "~", LENGTH_MAX, "*", *fields)


def groups_of(region: int) -> list[tuple[str, str]]:
    """Stream and name of the groups that a region reads; the first region reads all."""
    return [(key, group) for group, (key, is_everywhere) in GROUPS.items() if is_everywhere or region == 0]


class Worker:
    """The clients of one region, `region` counting from 0."""

    def __init__(self, address: str, region: int, seed: int, access: Access, report: Report) -> None:
        self._port = RedisPort(address, access)
        self._entries = entries(seed, region)
        self._groups = groups_of(region)
        self._region = region
        self._report = report
        self._trouble: str | None = None

    async def run(self, entries_per_s: float) -> None:
        """Until it is cancelled."""
        try:
            while True:
                self._notice(await self._beat())
                await asyncio.sleep(1 / entries_per_s)
        finally:
            await self._port.close()

    def _notice(self, trouble: str) -> None:
        if trouble != self._trouble:
            self._trouble = trouble
            self._report(f"{self._port.address}: {trouble or 'takes adds, and its groups are read'}")

    async def _beat(self) -> str:
        """Add one entry and read the groups once; returns what went wrong, or WELL."""
        added = await self._port.ask(next(self._entries), TIMEOUT_S)
        return added.error or await self._read_groups()

    async def _read_groups(self) -> str:
        for key, group in self._groups:
            answer = await self._read(key, group)
            if answer.error.startswith("NOGROUP"):
                answer = await self._port.ask(("XGROUP", "CREATE", key, group, 0, "MKSTREAM"), TIMEOUT_S)
            if answer.error:
                return answer.error
        return WELL

    async def _read(self, key: str, group: str) -> RegionAnswer:
        consumer = f"worker-{self._region}"
        words: Sequence[str | int] = ("XREADGROUP", "GROUP", group, consumer, "COUNT", READ_MAX, "STREAMS", key, ">")
        answer = await self._port.ask(words, TIMEOUT_S)
        ids = [entry[0] for _, found in answer.value or () for entry in found] if not answer.error else []
        return await self._port.ask(("XACK", key, group, *ids), TIMEOUT_S) if ids else answer


def run_load(nodes: Sequence[str], seed: int, entries_per_s: float) -> int:
    """Load regions that run, until SIGTERM or Ctrl-C; returns the exit code. A password comes from the environment."""
    for address in nodes:
        if not is_address(address):
            print(f"crdtstream: {address!r} must be HOST:PORT, the Redis address of a region", file=sys.stderr)
            return USAGE_ERROR
    access = Access(password=os.environ.get("CRDTSTREAM_PASSWORD"))
    try:
        asyncio.run(load(nodes, seed, entries_per_s, access, partial(print, flush=True)))
    except asyncio.CancelledError:
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    raise AssertionError("the workload ended by itself")


async def load(nodes: Sequence[str], seed: int, entries_per_s: float, access: Access, report: Report) -> None:
    """Load all these regions until SIGTERM, or until it is cancelled."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with asyncio.TaskGroup() as tasks:
        for region, address in enumerate(nodes):
            tasks.create_task(Worker(address, region, seed, access, report).run(entries_per_s))
