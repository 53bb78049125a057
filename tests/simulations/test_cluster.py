"""The cluster that tests move by hand: nothing happens by itself, and faults are what they are called."""

from __future__ import annotations

from random import Random

import pytest

from crdtstream.core.values.entry_id import STRICT
from crdtstream.scenarios.reply import Value, read_reply
from simulations.cluster import Cluster


def run(cluster: Cluster, number: int, text: str) -> Value:
    return read_reply(cluster.execute(number, text.encode().split()) or b"")


def test_nothing_travels_by_itself() -> None:
    cluster = Cluster(2, STRICT)
    run(cluster, 1, "XADD x * f v")
    assert run(cluster, 2, "XLEN x") == 0
    cluster.carry(1, 2)
    assert run(cluster, 2, "XLEN x") == 1


def test_carry_goes_one_way() -> None:
    cluster = Cluster(2, STRICT)
    for number in (1, 2):
        run(cluster, number, "XADD x * f v")
    cluster.carry(1, 2)
    assert (run(cluster, 1, "XLEN x"), run(cluster, 2, "XLEN x")) == (1, 2)


def test_a_cut_link_carries_nothing_until_it_heals() -> None:
    cluster = Cluster(2, STRICT)
    cluster.cut(2, 1)
    cluster.cut(1, 2)
    run(cluster, 1, "XADD x * f v")
    assert not cluster.carry_one(1, 2)
    cluster.heal(1, 2)
    cluster.sync()
    assert run(cluster, 2, "XLEN x") == 1


def test_a_turn_is_one_batch() -> None:
    cluster = Cluster(1, STRICT)
    last = cluster.machines[1].log.last_position
    replies = cluster.execute_turn(1, [b"XADD x * f v".split()] * 3)
    assert replies is not None and replies.count(b"$") == 3
    assert cluster.machines[1].log.last_position == last + 1


@pytest.mark.parametrize(("fsync", "kept"), [("always", 1), ("everysec", 0)])
def test_power_loss_takes_what_was_not_synced(fsync: str, kept: int) -> None:
    cluster = Cluster(1, STRICT, fsync)
    run(cluster, 1, "XADD x * f v")
    cluster.lose_power(1, Random(0), odds=0.0)  # whatever is drawn, nothing unsynced survives
    assert run(cluster, 1, "XLEN x") == kept


def test_a_restart_keeps_everything_and_its_links() -> None:
    cluster = Cluster(2, STRICT)
    run(cluster, 1, "XADD x * f v")
    cluster.restart(1)
    run(cluster, 1, "XADD x * f v")
    cluster.sync()
    assert run(cluster, 2, "XLEN x") == 2
    cluster.check()


def test_a_client_that_waits_has_no_reply_yet() -> None:
    cluster = Cluster(1, STRICT)
    assert cluster.execute(1, b"XREAD BLOCK 5 STREAMS x $".split()) is None
    cluster.tick(5)
    assert cluster.machines[1].pop_reply() == b"*-1\r\n"


def test_a_line_has_no_shortcut() -> None:
    cluster = Cluster(3, STRICT, pairs=[(1, 2), (2, 3)])
    run(cluster, 1, "XADD x * f v")
    with pytest.raises(KeyError):
        cluster.carry(1, 3)
    cluster.sync()
    assert run(cluster, 3, "XLEN x") == 1


def test_a_second_machine_of_a_region_is_other_origins() -> None:
    cluster = Cluster(2, STRICT)
    run(cluster, 1, "XADD x * f v")
    cluster.copy(1)
    cluster.twin(3, 1)
    cluster.restart(3)
    cluster.restart(1)
    births = [cluster.node(number).birth for number in (1, 3)]
    assert births[0].lineage == [1] and births[1].lineage[0] == 1
    assert len({*births[0].lineage, *births[1].lineage, births[0].origin, births[1].origin}) == 4
    assert [run(cluster, number, "XLEN x") for number in (1, 3)] == [1, 1]


def test_a_machine_that_stopped_is_gone() -> None:
    cluster = Cluster(3, STRICT)
    cluster.stop(2)
    run(cluster, 1, "XADD x * f v")
    cluster.sync()
    cluster.tick(10)
    assert run(cluster, 3, "XLEN x") == 1 and sorted(cluster.machines) == [1, 3]
