"""A client of one region that writes, reads, acknowledges and removes, and records every reply.

It reconnects after any failure. It uses two keys: `orders` has a group and loses only single entries, `churn` is
deleted now and then. Values carry a token that distinguishes every write.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import redis

from crdtstream.processes.region import RegionProcess
from crdtstream.processes.waiting import until
from nemesis.history import (
    ACKNOWLEDGE,
    ADD,
    DELETE,
    DONE,
    NEVER_S,
    RANGE,
    READ,
    REFUSED,
    REMOVE,
    UNKNOWN,
    Entry,
    EntryID,
    Operation,
    entry_id,
    text_of,
)

GROUP = "workers"
DEPTH_MAX = 16
READ_COUNT = 64
RECENT = 256
PACE_S = 0.005
REPLY_TIMEOUT_S = 2.0
DRAIN_TIMEOUT_S = 30.0
ACKNOWLEDGED_AT_ONCE = 0.8
PADDING = "." * 100

LOST_CONNECTION = (redis.ConnectionError, redis.TimeoutError, OSError)


class Load(threading.Thread):
    """Works between `resume` and `rest`; `written` counts acknowledged writes."""

    def __init__(self, region: RegionProcess, seed: int) -> None:
        super().__init__(name=f"load {region.name}", daemon=True)
        self.region = region
        self.operations: list[Operation] = []
        self.written = 0
        self.orders = ""
        self.churn = ""
        self.last_failure = ""
        self.error: BaseException | None = None
        self._random = random.Random(seed)
        self._tokens = 0
        self._recent: deque[EntryID] = deque(maxlen=RECENT)
        self._works: list[tuple[Callable[[Any], object], float]] = [
            (self._add_orders, 40),
            (self._add_churn, 15),
            (self._remove, 8),
            (self._read_new, 20),
            (self._read_again, 3),
            (self._range, 6),
            (self._delete_key, 0.5),
        ]
        self._turned = threading.Condition()
        self._running = False
        self._resting = True
        self._ended = False

    # Called by the run

    def resume(self, orders: str, churn: str) -> None:
        """Resume with new keys and an empty record."""
        with self._turned:
            self.orders, self.churn = orders, churn
            self.operations = []
            self._recent.clear()
            self._running, self._resting = True, False
            self._turned.notify_all()

    def rest(self) -> None:
        """Pause; return once no operation is running."""
        with self._turned:
            self._running = False
            self._turned.notify_all()
            if not self._turned.wait_for(lambda: self._resting or self.error is not None, DRAIN_TIMEOUT_S):
                raise AssertionError(f"the client of {self.region.name} does not come to rest: {self.last_failure}")

    def await_written(self, count: int, deadline_s: float) -> None:
        """Wait until this many more writes are acknowledged."""
        goal = self.written + count
        until(
            lambda: self.written >= goal or self.error is not None,
            lambda: f"{self.region.name} acknowledges writes: {self.last_failure}",
            deadline_s,
        )

    def end(self) -> None:
        with self._turned:
            self._ended, self._running = True, False
            self._turned.notify_all()
        self.join()

    def drain(self) -> None:
        """Read everything that the group still has in this region. The client must be at rest."""
        end_s = time.monotonic() + DRAIN_TIMEOUT_S
        with self.region.client(DRAIN_TIMEOUT_S) as client:
            while any([self._read(client, "0", 1.0), self._read(client, ">", 1.0)]):
                if time.monotonic() > end_s:
                    raise AssertionError(f"the group of {self.region.name} does not run empty")

    # On the client's thread

    def run(self) -> None:
        try:
            while self._may_go():
                try:
                    with self.region.client(REPLY_TIMEOUT_S) as client:
                        while self._running:
                            self._turn(client)
                            self._pause()
                except (redis.RedisError, OSError) as error:
                    self.last_failure = described(error)
                    self._pause()
        except BaseException as error:
            self.error = error
            raise

    def _may_go(self) -> bool:
        with self._turned:
            while not self._running and not self._ended:
                self._resting = True
                self._turned.notify_all()
                self._turned.wait()
            return not self._ended

    def _pause(self) -> None:
        with self._turned:
            if self._running:
                self._turned.wait(PACE_S)

    def _turn(self, client: Any) -> None:
        works, weights = zip(*self._works, strict=True)
        [work] = self._random.choices(works, weights)
        work(client)

    def _add_orders(self, client: Any) -> None:
        self._add(client, self.orders, self._random.randint(1, DEPTH_MAX))

    def _add_churn(self, client: Any) -> None:
        self._add(client, self.churn, self._random.randint(1, DEPTH_MAX))

    def _add(self, client: Any, key: str, count: int) -> None:
        tokens = [self._token() for _ in range(count)]
        begun_s = time.monotonic()
        pipeline = client.pipeline(transaction=False)
        for token in tokens:
            pipeline.execute_command("XADD", key, "*", "token", token, "padding", PADDING)
        try:
            replies = pipeline.execute(raise_on_error=False)
        except LOST_CONNECTION as error:
            for token in tokens:
                self._record(ADD, key, begun_s, UNKNOWN, token=token, error=described(error))
            raise
        ended_s = time.monotonic()
        for token, reply in zip(tokens, replies, strict=True):
            if isinstance(reply, bytes):
                self.written += 1
                at = entry_id(reply)
                self._record(ADD, key, begun_s, DONE, ended_s, token=token, ids=(at,))
                if key == self.orders:
                    self._recent.append(at)
            else:
                self._record(ADD, key, begun_s, REFUSED, ended_s, token=token, error=str(reply))

    def _token(self) -> str:
        self._tokens += 1
        return f"{self.region.name}-{self._tokens}"

    def _remove(self, client: Any) -> None:
        if self._recent:
            at = self._random.choice(self._recent)
            self._do(client, REMOVE, self.orders, (text_of(at),), ids=(at,))

    def _delete_key(self, client: Any) -> None:
        self._do(client, DELETE, self.churn, ())

    def _read_new(self, client: Any) -> None:
        self._read(client, ">", ACKNOWLEDGED_AT_ONCE)

    def _read_again(self, client: Any) -> None:
        self._read(client, "0", ACKNOWLEDGED_AT_ONCE)

    def _read(self, client: Any, start: str, acknowledged: float) -> int:
        """Read from the group and acknowledge a share of the entries; return the number of rows."""
        begun_s = time.monotonic()
        reply = client.execute_command(
            "XREADGROUP", "GROUP", GROUP, "anna", "COUNT", READ_COUNT, "STREAMS", self.orders, start
        )
        rows = reply[0][1] if reply else []
        entries = tuple(entries_of(rows))
        self._record(READ, self.orders, begun_s, DONE, time.monotonic(), entries=entries, fresh=start == ">")
        self._recent.extend(at for at, _ in entries)
        ids = tuple(entry_id(row[0]) for row in rows if self._random.random() < acknowledged)
        if ids:
            self._do(client, ACKNOWLEDGE, self.orders, (GROUP, *map(text_of, ids)), ids=ids)
        return len(rows)

    def _range(self, client: Any) -> None:
        key = self._random.choice((self.orders, self.churn))
        low = self._recent[0] if self._recent else (0, 0)
        begun_s = time.monotonic()
        reply = client.execute_command("XRANGE", key, text_of(low), "+")
        entries = tuple(entries_of(reply))
        self._record(RANGE, key, begun_s, DONE, time.monotonic(), entries=entries, low=low)

    def _do(self, client: Any, kind: str, key: str, arguments: tuple[str, ...], **rest: Any) -> None:
        """Run a command whose reply is a number."""
        begun_s = time.monotonic()
        try:
            count = client.execute_command(kind, key, *arguments)
        except redis.ResponseError as error:
            self._record(kind, key, begun_s, REFUSED, time.monotonic(), error=str(error), **rest)
            raise
        except LOST_CONNECTION as error:
            self._record(kind, key, begun_s, UNKNOWN, error=described(error), **rest)
            raise
        self._record(kind, key, begun_s, DONE, time.monotonic(), count=count, **rest)

    def _record(self, kind: str, key: str, begun_s: float, outcome: str, ended_s: float = NEVER_S, **rest: Any) -> None:
        self.operations.append(Operation(self.region.number, kind, key, begun_s, ended_s, outcome, **rest))


def entries_of(rows: list[Any]) -> Iterator[Entry]:
    """Yield existing entries: a group also lists entries that were removed after their delivery."""
    for at, fields in rows:
        if fields is not None:
            yield entry_id(at), fields[1].decode()


def held_by(region: RegionProcess, key: str) -> list[Entry]:
    return list(entries_of(region.ask("XRANGE", key, "-", "+")))


def range_of(region: RegionProcess, key: str) -> Operation:
    """Read everything that the region shows now, as an operation of a client."""
    begun_s = time.monotonic()
    entries = tuple(held_by(region, key))
    return Operation(region.number, RANGE, key, begun_s, time.monotonic(), entries=entries)


def described(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
