"""The exhaustive exploration with small bounds: nothing is violated, nothing is skipped, and a wrong rule is found."""

from __future__ import annotations

import pytest

from crdtstream.core.digest import digest_replica
from crdtstream.core.values.causality import Dot
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN
from simulations import explore, oracle
from simulations.explore import (
    ACK_LOW,
    ACK_UNREAD,
    ADD,
    CREATE,
    DEL,
    FSYNC,
    LOSE,
    READ,
    RESTART,
    SET_CONTIGUOUS,
    SET_EXACT,
    SYNC,
    Explored,
    Path,
)
from simulations.history import Violation
from simulations.scenario import Scenario


def after(regions: int, path: Path) -> Explored:
    world = Explored(regions)
    world.run(path)
    return world


@pytest.mark.parametrize(("regions", "operations"), [(1, 4), (2, 3), (3, 2)])
def test_every_short_history_holds(regions: int, operations: int) -> None:
    result = explore.explore(regions, operations)
    assert not result.violation, result.scenario()
    assert len(result.levels) == operations + 1


def test_two_workers_visit_the_same_states() -> None:
    alone, together = explore.explore(2, 2), explore.explore(2, 2, workers=2)
    assert [(level.histories, level.states) for level in alone.levels] == [
        (level.histories, level.states) for level in together.levels
    ]


def test_counts_of_a_small_alphabet() -> None:
    """Two regions that only add: of one add 2 histories but 1 state, of two adds 4 histories and 2 states."""
    result = explore.explore(2, 2, names=("add",))
    assert [(level.histories, level.states) for level in result.levels] == [(1, 1), (2, 1), (4, 2)]


def test_independent_moves_commute_and_names_do_not_matter() -> None:
    one = after(2, ((ADD, 1, 0), (CREATE, 2, 0), (SYNC, 2, 1)))
    other = after(2, ((CREATE, 2, 0), (ADD, 1, 0), (SYNC, 2, 1)))
    renamed = after(2, ((ADD, 2, 0), (CREATE, 1, 0), (SYNC, 1, 2)))
    opposite = after(2, ((ADD, 1, 0), (CREATE, 2, 0), (SYNC, 1, 2)))
    assert one.key() == other.key() == renamed.key() != opposite.key()


def test_a_lost_add_lives_where_it_was_heard() -> None:
    """The region comes back as a new origin: the dot that it lost names one entry, its next add another."""
    world = after(2, ((ADD, 1, 0), (SYNC, 2, 1), (LOSE, 1, 0), (ADD, 1, 0)))
    world.check()
    stream = world.replica(2).keyspace.find(explore.KEY)
    assert stream is not None
    assert stream.range(ID_MIN, ID_MAX, -1, False)[0] == 2
    assert sorted(stream.trees) == [1, 1 + explore.NEXT_ORIGIN]


def test_a_restart_is_a_new_origin_that_has_all_that_was_there() -> None:
    world = after(2, ((ADD, 1, 0), (SYNC, 2, 1), (RESTART, 1, 0), (ADD, 1, 0), (SYNC, 2, 1), (DEL, 2, 0)))
    assert world.replica(1).applied.vector.get(1 + explore.NEXT_ORIGIN) == 1
    assert "  kill 1" in world.text
    world.check()


def test_a_power_loss_takes_what_was_not_synced() -> None:
    world = after(2, ((ADD, 1, 0), (FSYNC, 1, 0), (ADD, 1, 0)))
    assert (LOSE, 1, 0) in world.moves(frozenset([LOSE]))
    world.make((LOSE, 1, 0))
    stream = world.replica(1).keyspace.find(explore.KEY)
    assert stream is not None and stream.length == 1
    assert world.moves(frozenset([LOSE, FSYNC, RESTART])) == [], "a start is synced, and another one changes nothing"


def test_an_origin_creates_groups_once_it_is_admitted() -> None:
    world = after(2, ((ADD, 1, 0), (RESTART, 1, 0), (ADD, 1, 0)))
    assert world.moves(frozenset([CREATE])) == [(CREATE, 2, 0)]
    world.cluster.sync()
    assert world.moves(frozenset([CREATE])) == [(CREATE, 1, 0), (CREATE, 2, 0)]


def test_a_history_is_a_scenario_that_ends_alike() -> None:
    path = ((ADD, 1, 0), (FSYNC, 1, 0), (ADD, 1, 0), (SYNC, 2, 1), (LOSE, 1, 0), (DEL, 2, 0), (RESTART, 2, 0))
    world = after(2, path)
    world.cluster.sync()
    [played] = Scenario(explore.scenario_of(2, path, "a title")).run()
    for number, machine in played.machines.items():
        assert digest_replica(machine.node.replica) == digest_replica(world.replica(number))


def test_acknowledgements_travel() -> None:
    world = after(2, ((ADD, 1, 0), (CREATE, 1, 0), (READ, 1, 0), (ACK_LOW, 1, 0), (SYNC, 2, 1)))
    stream = world.replica(2).keyspace.find(explore.KEY)
    assert stream is not None
    assert not stream.groups[explore.GROUP].has_wanted(stream.chains)


def test_a_consumer_acknowledges_elsewhere_once_the_group_does_so_exactly() -> None:
    world = after(2, ((ADD, 1, 0), (CREATE, 1, 0), (SYNC, 2, 1), (READ, 1, 0)))
    moves = frozenset([ACK_UNREAD, SET_EXACT, SET_CONTIGUOUS])
    assert world.moves(moves) == [(SET_EXACT, 1, 0), (SET_EXACT, 2, 0)]
    world.make((SET_EXACT, 2, 0))
    assert world.moves(moves) == [(SET_EXACT, 1, 0), (SET_CONTIGUOUS, 2, 0), (ACK_UNREAD, 2, 0)]
    world.make((ACK_UNREAD, 2, 0))
    world.check()
    stream = world.replica(1).keyspace.find(explore.KEY)
    assert stream is not None and stream.groups[explore.GROUP].pending.count == 0


def test_the_shortest_history_of_a_violation_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_groups(rows: object, deletes: list[Dot], expected: oracle.Expected) -> None:
        del rows, deletes, expected

    monkeypatch.setattr(oracle, "_evaluate_groups", no_groups)
    result = explore.explore(2, 3)
    assert result.violation.startswith("specification: region 1: groups")
    assert "  1> XGROUP CREATE x g 0 MKSTREAM\n" in result.scenario()
    assert len(result.path) == 1


def test_a_replica_that_forgets_is_found() -> None:
    world = after(2, ((ADD, 1, 0), (SYNC, 2, 1), (DEL, 2, 0)))
    stream = world.replica(2).keyspace.databases[0][explore.KEY[1]]
    stream.deleted = {}
    with pytest.raises(Violation, match="rebuilt: region 2"):
        world.check()
