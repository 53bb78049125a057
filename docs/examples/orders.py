"""Orders: a producer and a consumer that keep working when their region fails.

    python orders.py produce --regions 127.0.0.1:7001,127.0.0.1:7002 --count 100
    python orders.py consume --regions 127.0.0.1:7001,127.0.0.1:7002 --ledger orders.sqlite

The first region named is the preferred one. Needs redis-py alone.
"""

from __future__ import annotations

import argparse
import sqlite3
import time
import uuid
from collections.abc import Callable
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.exceptions import OutOfMemoryError, TryAgainError
from redis.retry import Retry

STREAM = "orders"
GROUP = "billing"
BATCH = 100
BLOCK_MS = 1_000
IDLE_MS = 60_000
Entry = tuple[str, dict[str, str]]


# --8<-- [start:failover]
class Regions:
    """One client for each region; `call` uses the current one and moves to the next when that fails."""

    def __init__(self, addresses: list[str], deadline_s: float = 60.0) -> None:
        self.clients = [connect(address) for address in addresses]
        self.current = 0
        self.moves = 0
        self.deadline_s = deadline_s

    def call(self, command: Callable[[redis.Redis], Any]) -> Any:
        end = time.monotonic() + self.deadline_s
        while True:
            try:
                return command(self.clients[self.current])
            except redis.RedisError as error:
                if not unavailable(error) or time.monotonic() > end:
                    raise
                self.move()

    def move(self) -> None:
        self.current = (self.current + 1) % len(self.clients)
        self.moves += 1
        if self.current == 0:
            time.sleep(0.2)  # no region could answer: do not spin


def unavailable(error: redis.RedisError) -> bool:
    """Whether another region may answer: this one is not there, loads, is full, or was not admitted yet."""
    # redis-py has classes for these, without the code in their text; LOADING is a ConnectionError.
    if isinstance(error, redis.ConnectionError | redis.TimeoutError | OutOfMemoryError | TryAgainError):
        return True
    return str(error).startswith(("MISCONF", "UNBLOCKED"))


def connect(address: str) -> redis.Redis:
    host, _, port = address.rpartition(":")
    return redis.Redis(
        host=host,
        port=int(port),
        decode_responses=True,
        protocol=2,
        retry=Retry(NoBackoff(), 0),  # failing over is this program's decision
        socket_connect_timeout=2,
        socket_timeout=5,  # above BLOCK_MS; a region that falls silent is given up after it
    )


# --8<-- [end:failover]


# --8<-- [start:produce]
def produce(regions: Regions, order: str, item: str) -> str:
    """Add an order. After a lost connection nobody knows whether the entry was added, so it may be added twice: the
    field `order` tells the consumer.
    """
    fields: Any = {"order": order, "item": item}
    entry_id: str = regions.call(lambda client: client.xadd(STREAM, fields))
    return entry_id


# --8<-- [end:produce]


# --8<-- [start:consume]
class Consumer:
    """Reads the group in one region at a time, and takes up pending entries first wherever it arrives."""

    def __init__(self, regions: Regions, name: str, ledger: Ledger) -> None:
        self.regions = regions
        self.name = name
        self.ledger = ledger
        self.arrived = -1  # `regions.moves` when pending entries were taken up last

    def step(self) -> int:
        """Handle the entries of one read; how many there were."""
        entries = self.regions.call(self._read)
        for _, fields in entries:
            self.ledger.bill(fields["order"], fields["item"])
        if entries:
            # After a move this acknowledges nothing: the entries are pending in the region that was left, and are
            # delivered again here.
            self.regions.call(lambda client: client.xack(STREAM, GROUP, *[entry_id for entry_id, _ in entries]))
        return len(entries)

    def _read(self, client: redis.Redis) -> list[Entry]:
        try:
            if self.arrived != self.regions.moves:
                return self._take_up(client)
            return entries_of(client.xreadgroup(GROUP, self.name, {STREAM: ">"}, count=BATCH, block=BLOCK_MS))
        except redis.ResponseError as error:
            if not str(error).startswith("NOGROUP"):
                raise
            self.arrived = -1  # a DEL or XGROUP DESTROY in any region ends the group: create it again
            return []

    def _take_up(self, client: redis.Redis) -> list[Entry]:
        """What this consumer left pending in this region, and what dead consumers did."""
        create_group(client)
        own = entries_of(client.xreadgroup(GROUP, self.name, {STREAM: "0"}))
        claimed: Any = client.xautoclaim(STREAM, GROUP, self.name, IDLE_MS)
        self.arrived = self.regions.moves
        return [entry for entry in own + claimed[1] if entry[1]]  # a pending entry that was deleted has no fields


def create_group(client: redis.Redis) -> None:
    try:
        client.xgroup_create(STREAM, GROUP, id="0", mkstream=True)
    except redis.ResponseError as error:
        if not str(error).startswith("BUSYGROUP"):
            raise


def entries_of(reply: Any) -> list[Entry]:
    return [entry for _, entries in reply or [] for entry in entries]


# --8<-- [end:consume]


# --8<-- [start:ledger]
class Ledger:
    """What was billed. Its key makes the handler idempotent: an order that is delivered again changes nothing."""

    def __init__(self, path: str) -> None:
        self.database = sqlite3.connect(path)
        self.database.execute("CREATE TABLE IF NOT EXISTS bills (order_id TEXT PRIMARY KEY, item TEXT)")
        self.repeated = 0

    def bill(self, order: str, item: str) -> None:
        with self.database:
            added = self.database.execute("INSERT OR IGNORE INTO bills VALUES (?, ?)", (order, item)).rowcount
        self.repeated += not added

    def orders(self) -> list[str]:
        return [order for (order,) in self.database.execute("SELECT order_id FROM bills")]


# --8<-- [end:ledger]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["produce", "consume"])
    parser.add_argument("--regions", required=True, help="HOST:PORT,... of the Redis ports; the first is preferred")
    parser.add_argument("--count", type=int, default=100, help="produce: how many orders")
    parser.add_argument("--name", default="alice", help="consume: name of the consumer")
    parser.add_argument("--ledger", default="orders.sqlite", help="consume: where bills are kept")
    parser.add_argument("--idle-exit", type=int, default=0, help="consume: end after so many empty reads")
    options = parser.parse_args()
    regions = Regions(options.regions.split(","))
    if options.what == "produce":
        for number in range(options.count):
            produce(regions, str(uuid.uuid4()), f"item {number}")
        print(f"{options.count} orders produced")
        return
    consumer = Consumer(regions, options.name, Ledger(options.ledger))
    empty = 0
    while not options.idle_exit or empty < options.idle_exit:
        empty = 0 if consumer.step() else empty + 1
    print(f"{len(consumer.ledger.orders())} orders billed, {consumer.ledger.repeated} delivered again")


if __name__ == "__main__":
    main()
