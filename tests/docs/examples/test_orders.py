"""The application of the documentation on two regions, one of which fails under it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from crdtstream.processes.region import RegionProcess, regions_in
from crdtstream.processes.waiting import until
from docs.examples.orders import GROUP, STREAM, Consumer, Ledger, Regions, produce

FIRST, SECOND, THIRD = (range(start, start + 20) for start in (0, 20, 40))


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[list[RegionProcess]]:
    with regions_in(tmp_path) as regions:
        east, west = regions.make(1, 2)
        east.start(west)
        west.start(east)
        yield [east.await_serving(), west.await_serving()]


def clients(pair: list[RegionProcess]) -> Regions:
    return Regions([f"127.0.0.1:{region.port}" for region in pair])


def names(numbers: range) -> list[str]:
    return [f"order-{number:02}" for number in numbers]


def add(regions: Regions, numbers: range) -> None:
    for name in names(numbers):
        produce(regions, name, "book")


def handle(consumer: Consumer, total: int) -> None:
    until(lambda: consumer.step() >= 0 and len(consumer.ledger.orders()) >= total, f"{total} orders are billed")


def test_each_order_is_billed_once_through_a_failover(pair: list[RegionProcess], tmp_path: Path) -> None:
    east, west = pair
    producer = clients(pair)
    consumer = Consumer(clients(pair), "alice", Ledger(str(tmp_path / "ledger")))
    add(producer, FIRST)
    handle(consumer, 20)
    until(lambda: lag(west) == 0, "the west knows that all was acknowledged")
    # Replicated, not yet handled, and then the region is gone.
    add(producer, SECOND)
    until(lambda: west.ask("XLEN", STREAM) == 40, "the orders are in the west")
    east.kill()
    handle(consumer, 40)
    assert consumer.regions.current == 1
    add(producer, THIRD)
    assert producer.current == 1
    handle(consumer, 60)
    assert sorted(consumer.ledger.orders()) == names(range(60))
    # What was acknowledged before the failover is not delivered again.
    assert consumer.ledger.repeated == 0


def test_what_one_region_alone_had_is_billed_once_it_is_back(pair: list[RegionProcess], tmp_path: Path) -> None:
    east, west = pair
    consumer = Consumer(clients(pair), "alice", Ledger(str(tmp_path / "ledger")))
    add(clients(pair), FIRST)
    handle(consumer, 20)
    west.kill()
    add(clients(pair), SECOND)
    east.kill()
    west.start(east)
    west.await_serving()
    add(clients([west]), THIRD)
    handle(consumer, 40)
    assert sorted(consumer.ledger.orders()) == names(FIRST) + names(THIRD)
    east.start(west)
    handle(consumer, 60)
    assert sorted(consumer.ledger.orders()) == names(range(60))


def test_a_batch_that_is_delivered_again_changes_nothing(pair: list[RegionProcess], tmp_path: Path) -> None:
    """Read and handled in one region, which falls silent before the acknowledgement arrives."""
    east, west = pair
    consumer = Consumer(clients(pair), "alice", Ledger(str(tmp_path / "ledger")))
    consumer.step()
    add(clients(pair), FIRST)
    until(lambda: west.ask("XLEN", STREAM) == 20, "the orders are in the west")
    bill = consumer.ledger.bill

    def bill_and_lose_east(order: str, item: str) -> None:
        east.kill()
        bill(order, item)

    consumer.ledger.bill = bill_and_lose_east  # type: ignore[method-assign]
    handle(consumer, 20)
    handled_twice = lambda: consumer.step() >= 0 and consumer.ledger.repeated == 20  # noqa: E731
    until(handled_twice, "the batch is delivered again in the west")
    assert sorted(consumer.ledger.orders()) == names(FIRST)


def test_a_group_that_a_delete_ended_is_created_again(pair: list[RegionProcess], tmp_path: Path) -> None:
    east, _ = pair
    consumer = Consumer(clients(pair), "alice", Ledger(str(tmp_path / "ledger")))
    add(clients(pair), FIRST)
    handle(consumer, 20)
    east.ask("DEL", STREAM)
    add(clients(pair), SECOND)
    handle(consumer, 40)
    assert sorted(consumer.ledger.orders()) == names(range(40))


def test_two_consumers_share_the_orders(pair: list[RegionProcess], tmp_path: Path) -> None:
    path = str(tmp_path / "ledger")
    add(clients(pair), FIRST)

    def consume(name: str) -> None:
        consumer = Consumer(clients(pair), name, Ledger(path))
        handle(consumer, 20)

    threads = [threading.Thread(target=consume, args=(name,)) for name in ("alice", "bob")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(Ledger(path).orders()) == names(FIRST)


def lag(region: RegionProcess) -> int:
    (group,) = region.ask("XINFO", "GROUPS", STREAM)
    assert group[1] == GROUP.encode()
    return int(group[-1])
