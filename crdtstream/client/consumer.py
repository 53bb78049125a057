"""Consumers: a loop that reads a group, calls a handler, acknowledges, tries again later, and stops in good order.

Every entry is delivered at least once. It is acknowledged after its handler has returned, in whichever region the
client is by then. When it has moved meanwhile, what it holds and has not begun is left: the new region
delivers it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import redis

from crdtstream.client.errors import CLIENT_ERRORS, AfterError, after_error
from crdtstream.client.failover import Failover, Region, asking
from crdtstream.client.regions import AsyncRegions, RegionList, Regions, Text
from crdtstream.client.sharding import shards_of
from crdtstream.client.steps import Steps, drive, drive_async

LOG = logging.getLogger("crdtstream.client")


@dataclass(frozen=True, slots=True)
class Entry:
    """`deliveries` counts how often this region has delivered it, this time included: 1 at first."""

    key: bytes
    id: bytes
    fields: dict[bytes, bytes]
    deliveries: int


@dataclass(frozen=True, slots=True)
class GroupReading:
    """What a consumer reads, and how: see `Consumer`."""

    key: Text
    group: Text
    name: Text
    start: Text = "0"
    properties: Sequence[str | int] = ()
    count: int = 10
    block_ms: int = 1_000
    retry_after_ms: int = 60_000


def entries_of(reply: Any) -> Iterator[Entry]:
    """Parse a reply of XREADGROUP with CLAIM, in RESP2: for each key its entries, each with its earlier deliveries."""
    for key, rows in reply or ():
        for entry_id, words, _idle_ms, before in rows:
            yield Entry(key, entry_id, dict(zip(words[::2], words[1::2], strict=True)), before + 1)


class _Loop:
    """The loop of a consumer as steps, and its counters."""

    def __init__(
        self,
        regions: RegionList,
        reading: GroupReading,
        handler: Callable[[Entry], Any],
        on_failure: Callable[[Entry, Exception, int], Any] | None,
    ) -> None:
        regions.check_wait("block_ms", reading.block_ms)
        self.failover: Failover = regions.failover
        self.reading = reading
        self.handler = handler
        self.on_failure = on_failure
        self.stopping = False
        self.handled = self.failed = self.redelivered = 0

    def run(self, idle_exit_ms: int | None) -> Steps[None]:
        yield from self._create()
        read_at_s = self.failover.clock()
        while not self.stopping:
            deliverer, entries = yield from self._read()
            if entries:
                yield from self._handle_all(deliverer, entries)
                read_at_s = self.failover.clock()
            elif idle_exit_ms is not None and self.failover.clock() - read_at_s >= idle_exit_ms / 1_000:
                return

    def move(self, region: str | int, wait_ms: int, force: bool) -> Steps[None]:
        words = ["CRDT.GROUP", "MOVE", self.reading.key, self.reading.group, region, "WAIT", wait_ms]
        yield from self._ask(*words, *(["FORCE"] if force else []), repeat=False)

    def redrive(self, count: int) -> Steps[int]:
        words = ("CRDT.REDRIVE", self.reading.key, self.reading.group, "COUNT", count)
        return int((yield from self._ask(*words, repeat=False)))

    def _ask(self, *words: Any, repeat: bool = True) -> Steps[Any]:
        return (yield from self.failover.call(asking(*words), repeat))

    def _create(self) -> Steps[None]:
        reading = self.reading
        properties = ["CRDT", *reading.properties] if reading.properties else []
        try:
            yield from self._ask("XGROUP", "CREATE", reading.key, reading.group, reading.start, "MKSTREAM", *properties)
        except redis.ResponseError as error:
            if not str(error).startswith("BUSYGROUP"):
                raise

    def _read(self) -> Steps[tuple[Region | None, list[Entry]]]:
        """Return the region that delivered, and what; no entries and perhaps no region if nothing came."""
        reading = self.reading
        options = ("COUNT", reading.count, "BLOCK", reading.block_ms, "CLAIM", reading.retry_after_ms)
        try:
            # Under this name redis-py knows no callback: some releases of it drop how often an entry was delivered.
            region, reply = yield from self.failover.answer(
                asking("XREADGROUP GROUP", reading.group, reading.name, *options, "STREAMS", reading.key, ">"), True
            )
        except redis.ResponseError as error:
            if not str(error).startswith("NOGROUP"):
                raise
            yield from self._create()
            return None, []
        if not reply:
            yield from self._follow()
        return region, [*entries_of(reply)]

    def _handle_all(self, deliverer: Region | None, entries: Sequence[Entry]) -> Steps[None]:
        for entry in entries:
            if self.failover.current is not deliverer:
                return
            yield from self._handle(entry)

    def _handle(self, entry: Entry) -> Steps[None]:
        self.redelivered += entry.deliveries > 1
        try:
            yield partial(self.handler, entry)
        except Exception as error:
            self.failed += 1
            if not (yield from self._is_given_up(entry, error)):
                return
        else:
            self.handled += 1
        yield from self._ask("XACK", entry.key, self.reading.group, entry.id)

    def _is_given_up(self, entry: Entry, error: Exception) -> Steps[bool]:
        if self.on_failure is not None:
            return bool((yield partial(self.on_failure, entry, error, entry.deliveries)))
        LOG.error(
            "the handler of entry %s failed at delivery %d, and the entry comes again in %d ms",
            entry.id.decode(),
            entry.deliveries,
            self.reading.retry_after_ms,
            exc_info=error,
        )
        return False

    def _follow(self) -> Steps[None]:
        """Where one region delivers the group, and it is not this one, move there if it can be reached."""
        try:
            reply = yield from self._ask("CRDT.GROUP", "GET", self.reading.key, self.reading.group)
        except redis.ResponseError as error:
            if not str(error).startswith("NOGROUP"):
                raise
            return
        deliverer = deliverer_of(reply)
        current = self.failover.current
        if not deliverer or current is None or (yield from self._number(current)) == deliverer:
            return
        now_s = self.failover.clock()
        for region in self.failover.regions:
            if region.usable_at_s <= now_s and (yield from self._number(region)) == deliverer:
                yield from self.failover.move(region)
                return

    def _number(self, region: Region) -> Steps[int]:
        """Return the number of a region; 0 if it cannot be reached, or refuses to tell now."""
        if not region.number:
            try:
                rows = yield partial(region.client.execute_command, "CRDT.REGIONS", **shards_of(region.client)[0])
            except CLIENT_ERRORS as error:
                if after_error(error) is AfterError.FAILED:
                    raise
                return 0
            region.number = dict(zip(rows[0][::2], rows[0][1::2], strict=True))[b"region"]
        return region.number


def deliverer_of(properties: list[Any]) -> int:
    """Return the number of the one region that delivers a group, from a reply of CRDT.GROUP GET; 0 if several do."""
    found = dict(zip(properties[::2], properties[1::2], strict=True))
    if found[b"deliver"] != b"owner":
        return 0
    numbers = {*found[b"delivers"][1::2]}
    return int(numbers.pop()) if len(numbers) == 1 else 0


class _ConsumerState:
    """What both kinds of consumers tell."""

    def __init__(self, loop: _Loop) -> None:
        self._loop = loop

    @property
    def handled(self) -> int:
        """How many times the handler has returned."""
        return self._loop.handled

    @property
    def failed(self) -> int:
        """How many times the handler has raised."""
        return self._loop.failed

    @property
    def redelivered(self) -> int:
        """How many entries came that their region had delivered before."""
        return self._loop.redelivered

    def stop(self) -> None:
        """Let `run` return once everything that it holds is handled, after `block_ms` at most if it holds nothing.

        Any thread may call it, and so may a handler or a signal handler.
        """
        self._loop.stopping = True


class Consumer(_ConsumerState):
    """One consumer of a group, called `name`, which no other consumer of the group has at the same time.

    `handler(entry)` is called for each entry. Where it raises an Exception, `on_failure(entry, error, deliveries)`
    decides: true acknowledges the entry, false lets it come again in `retry_after_ms` milliseconds, to any consumer of
    the group. Without it, failures are logged and come again. What a dead consumer held comes again after the same
    time, so it must be longer than `count` entries take. With the properties MAXDELIVERIES and DEADLETTER an entry that
    failed so often comes no more, and becomes a dead letter.

    The group is created from `start` if there is none, with these `properties` ("DELIVER", "OWNER", "east", ...); those
    of a group that exists are not changed. At most `count` entries are read at once, after at most `block_ms`.
    """

    def __init__(
        self,
        regions: Regions,
        key: Text,
        group: Text,
        handler: Callable[[Entry], object],
        *,
        name: Text,
        on_failure: Callable[[Entry, Exception, int], bool] | None = None,
        start: Text = "0",
        properties: Sequence[str | int] = (),
        count: int = 10,
        block_ms: int = 1_000,
        retry_after_ms: int = 60_000,
    ) -> None:
        reading = GroupReading(key, group, name, start, properties, count, block_ms, retry_after_ms)
        super().__init__(_Loop(regions, reading, handler, on_failure))

    def run(self, *, idle_exit_ms: int | None = None) -> None:
        """Read and handle until `stop` is called, or nothing has come for `idle_exit_ms` milliseconds, if given.

        In a group with DELIVER OWNER it follows the group to the region that delivers. Raises NoRegion if no region can
        be used for `patience_s`, what `on_failure` raises, and redis.ResponseError for what a region refuses.
        """
        drive(self._loop.run(idle_exit_ms))

    def move(self, region: str | int, *, wait_ms: int = 0, force: bool = False) -> None:
        """Let another region, by name or number, deliver the group from now on: CRDT.GROUP MOVE.

        Any region may be in use: it asks the one that delivers. Waits up to `wait_ms` until nothing is pending. Raises
        redis.ResponseError if entries are pending then, or the region that delivers does not answer, unless `force`,
        which lets what is pending come again.
        """
        drive(self._loop.move(region, wait_ms, force))

    def redrive(self, *, count: int = 100) -> int:
        """Bring at most `count` dead letters of the group back to its stream, and return how many: CRDT.REDRIVE.

        Raises redis.ResponseError if the group has no dead-letter key.
        """
        return drive(self._loop.redrive(count))


class AsyncConsumer(_ConsumerState):
    """As `Consumer`, on `AsyncRegions`.

    `handler` and `on_failure` may be coroutines. One entry is handled at a time.
    """

    def __init__(
        self,
        regions: AsyncRegions,
        key: Text,
        group: Text,
        handler: Callable[[Entry], Awaitable[object] | object],
        *,
        name: Text,
        on_failure: Callable[[Entry, Exception, int], Awaitable[bool] | bool] | None = None,
        start: Text = "0",
        properties: Sequence[str | int] = (),
        count: int = 10,
        block_ms: int = 1_000,
        retry_after_ms: int = 60_000,
    ) -> None:
        reading = GroupReading(key, group, name, start, properties, count, block_ms, retry_after_ms)
        super().__init__(_Loop(regions, reading, handler, on_failure))

    async def run(self, *, idle_exit_ms: int | None = None) -> None:
        """As `Consumer.run`. A task that is cancelled leaves what it holds pending."""
        await drive_async(self._loop.run(idle_exit_ms))

    async def move(self, region: str | int, *, wait_ms: int = 0, force: bool = False) -> None:
        """As `Consumer.move`."""
        await drive_async(self._loop.move(region, wait_ms, force))

    async def redrive(self, *, count: int = 100) -> int:
        """As `Consumer.redrive`."""
        return await drive_async(self._loop.redrive(count))
