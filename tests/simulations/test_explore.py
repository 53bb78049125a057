"""The exhaustive exploration with small bounds: nothing is violated, nothing is skipped, and a wrong rule is found."""

from __future__ import annotations

import pytest

from crdtstream.core.causality import Dot
from crdtstream.core.entry_id import ID_MAX, ID_MIN
from simulations import explore, oracle
from simulations.explore import ACK_LOW, ADD, CREATE, DEL, LOSE, READ, RESTART, SYNC, Explored, Path
from simulations.history import Violation


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
    stream = world.site(2).replica.keyspace.find(explore.KEY)
    assert stream is not None
    assert stream.range(ID_MIN, ID_MAX, -1, False)[0] == 2
    assert sorted(stream.trees) == [1, 1 + explore.NEXT_ORIGIN]


def test_a_restart_is_a_new_origin_that_has_all_that_was_there() -> None:
    world = after(2, ((ADD, 1, 0), (SYNC, 2, 1), (RESTART, 1, 0), (ADD, 1, 0), (SYNC, 2, 1), (DEL, 2, 0)))
    assert world.site(1).replica.applied.vector.as_dict() == {1: 1, 1 + explore.NEXT_ORIGIN: 1}
    assert "  kill 1" in world.text
    world.check()


def test_acknowledgements_travel() -> None:
    world = after(2, ((ADD, 1, 0), (CREATE, 1, 0), (READ, 1, 0), (ACK_LOW, 1, 0), (SYNC, 2, 1)))
    stream = world.site(2).replica.keyspace.find(explore.KEY)
    assert stream is not None
    assert not stream.groups[explore.GROUP].has_wanted(stream.chains)


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
    stream = world.site(2).replica.keyspace.databases[0][explore.KEY[1]]
    stream.deleted.clear()
    with pytest.raises(Violation, match="rebuilt: region 2"):
        world.check()
