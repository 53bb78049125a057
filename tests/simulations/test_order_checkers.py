"""The checker of the order that producers are promised: calm worlds keep it, and what breaks it is named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from crdtstream.core.values.entry_id import STRICT
from simulations.adversary import draw_world
from simulations.broken_partitions import DIVIDED, STREAMS
from simulations.checkers import run_checked
from simulations.history import Violation
from simulations.mutations import complaint
from simulations.order_checkers import OrderByKey, first_offsets
from simulations.partition_checkers import known_at_end
from simulations.partitioned import Partitioned
from simulations.settings import Settings
from simulations.stream_clients import Put
from simulations.world import World

CALM = Settings(2, "mesh", STRICT, 900, (), 100, 1_000_000, partitioned=True)


@pytest.fixture
def checked() -> tuple[World, OrderByKey, list[tuple[bytes, Put]]]:
    """A calm world at its end, its checker, and what was put through region 1 into one partition, by offset."""
    world = draw_world(3, CALM)
    checker = OrderByKey()
    run_checked(world, [checker])
    clients = clients_of(world)
    first = first_offsets(known_at_end(world, clients))
    puts = [(value, put) for value, put in clients.told.puts.items() if put.answered and value in first]
    line = [one for one in puts if (one[1].number, one[1].partition) == (1, puts[0][1].partition)]
    line.sort(key=lambda one: first[one[0]])
    assert len(line) > 4 and line[0][1].answered_at < line[-1][1].sent_at
    return world, checker, line


def clients_of(world: World) -> Partitioned:
    assert isinstance(world.partitioned, Partitioned)
    return world.partitioned


def swap(one: Put, other: Put) -> None:
    """Let the one have been sent and answered when the other was."""
    for name in ("sent_at", "answered_at", "sent_ms", "answered_ms"):
        mine, its = getattr(one, name), getattr(other, name)
        setattr(one, name, its)
        setattr(other, name, mine)


def said(look: Callable[[], None]) -> str:
    with pytest.raises(Violation) as caught:
        look()
    assert caught.value.checker == "order by key"
    return str(caught.value)


def test_a_message_that_was_sent_later_and_lies_before_the_other(
    checked: tuple[World, OrderByKey, list[tuple[bytes, Put]]],
) -> None:
    world, checker, line = checked
    checker.at_end(world)
    first, (late, last) = line[0][1], line[-1]
    swap(first, last)
    text = said(lambda: checker.at_end(world))
    assert f"{late!r} has offset" in text and "sent later" in text


def test_what_was_not_answered_before_the_other_was_sent_promises_nothing(
    checked: tuple[World, OrderByKey, list[tuple[bytes, Put]]],
) -> None:
    world, checker, line = checked
    swap(line[0][1], line[-1][1])
    for _, put in line:
        put.answered_at += 1_000_000
    checker.at_end(world)


def test_a_reply_that_waited_for_as_long_as_for_the_home_promises_nothing(
    checked: tuple[World, OrderByKey, list[tuple[bytes, Put]]],
) -> None:
    world, checker, line = checked
    swap(line[0][1], line[-1][1])
    for _, put in line:
        put.sent_ms = put.answered_ms - 5_000
    checker.at_end(world)


@pytest.mark.parametrize(
    ("fault", "policy", "forgets"),
    [("kill", "no", False), ("power", "always", False), ("power", "no", True), ("disk-loss", "always", True)],
)
def test_a_region_that_lost_what_it_acknowledged_promises_nothing(fault: str, policy: str, forgets: bool) -> None:
    world = draw_world(3, CALM)
    checker = OrderByKey()
    checker.stopping(world, 1, fault)
    checker._policies[1] = policy
    checker.putting(world, b"before", Put(0, 0, number=1))
    checker.started(world, 1, fault)
    checker.putting(world, b"after", Put(0, 0, number=1))
    assert (checker._eras[b"before"] != checker._eras[b"after"]) == forgets


@pytest.mark.parametrize(
    ("seed", "focus"),
    [
        # The answer of the old home came after this region had taken over, and the message after that.
        (27, DIVIDED),
        # A home that had not heard of a higher epoch took messages out of the line of that epoch.
        (33, DIVIDED),
        # A home that had never seen the messages of an epoch forgot it.
        (171, DIVIDED),
        # A process that had just begun numbered again what others held for valid.
        (83, STREAMS),
    ],
)
def test_worlds_that_refuted_simpler_rules(seed: int, focus: Mapping[str, Any]) -> None:
    assert complaint(seed, focus=focus) is None
