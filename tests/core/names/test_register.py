"""The register of named adds: which add is lost, whatever the order in which they arrive, and what is forgotten."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.names.register import AddName, NameRegister, losses_of
from crdtstream.core.values.causality import Dot, VersionVector
from crdtstream.core.values.entry_id import EntryId

NAME: AddName = (b"p", b"n")

# An add: its ID, its dot, and the counters of all that it had seen.
Add = tuple[EntryId, Dot, dict[int, int]]


@st.composite
def histories(draw: st.DrawFn) -> list[Add]:
    """Adds of three origins under one name, in a causal order; IDs ascend along causality."""
    adds: list[Add] = []
    for _ in range(draw(st.integers(1, 7))):
        origin = draw(st.integers(1, 3))
        seen: dict[int, int] = {}
        for _, dot, before in adds:
            if dot[0] == origin or draw(st.booleans()):
                for one, counter in [*before.items(), dot]:
                    seen[one] = max(counter, seen.get(one, 0))
        counter = seen.get(origin, 0) + 1
        above = max([entry_id[0] for entry_id, dot, _ in adds if seen.get(dot[0], 0) >= dot[1]], default=0)
        adds.append(((above + draw(st.integers(1, 3)), origin), (origin, counter), seen))
    return adds


def register_of(adds: list[Add]) -> NameRegister:
    register = NameRegister()
    for entry_id, dot, seen in adds:
        register.record(NAME, dot, entry_id, 0, VersionVector(seen))
    register.check()
    return register


def lost_of(adds: list[Add]) -> set[Dot]:
    """The rule itself: in the order of IDs, an add is lost to the first survivor that is concurrent with it."""
    survivors: list[Add] = []
    lost: set[Dot] = set()
    for add in sorted(adds, key=lambda one: (one[0], one[1][0])):
        if any(not saw(add, one) and not saw(one, add) for one in survivors):
            lost.add(add[1])
        else:
            survivors.append(add)
    return lost


def saw(add: Add, other: Add) -> bool:
    return add[2].get(other[1][0], 0) >= other[1][1]


def closed(adds: list[Add], chosen: list[bool]) -> list[Add]:
    """Those of the chosen adds, in causal order, of which all that they had seen is chosen too."""
    found: list[Add] = []
    for add, is_chosen in zip(adds, [*chosen, *[True] * len(adds)], strict=False):
        if is_chosen and all(not saw(add, one) or one in found for one in adds):
            found.append(add)
    return found


def reordered(adds: list[Add], chance: Random) -> list[Add]:
    """The adds in another order in which each comes after all that it had seen."""
    left, found = adds[:], list[Add]()
    while left:
        ready = [add for add in left if not any(saw(add, one) for one in left)]
        found.append(chance.choice(ready))
        left.remove(found[-1])
    return found


@given(histories(), st.randoms(use_true_random=False))
def test_what_is_lost_follows_from_dots_alone(adds: list[Add], chance: Random) -> None:
    lost = {loss.dot for loss, _ in register_of(reordered(adds, chance)).losses(NAME)}
    assert lost == lost_of(adds)


@given(histories(), st.lists(st.booleans(), max_size=7))
def test_what_is_lost_among_some_is_lost_among_all(adds: list[Add], chosen: list[bool]) -> None:
    some = closed(adds, chosen)
    if some:
        lost = {loss.dot for loss, _ in register_of(some).losses(NAME)}
        assert lost <= {loss.dot for loss, _ in register_of(adds).losses(NAME)}


@given(histories())
def test_an_add_is_lost_to_a_concurrent_survivor(adds: list[Add]) -> None:
    register = register_of(adds)
    losses = register.losses(NAME)
    lost = {loss.dot for loss, _ in losses}
    for loss, survivor in losses:
        assert survivor.dot not in lost and survivor.is_concurrent(loss) and survivor.order() < loss.order()
    assert register.survivor(NAME).dot not in lost
    assert (NAME in register.met) == bool(lost)


def test_an_add_that_saw_the_first_one_stays_beside_it() -> None:
    register = register_of([((1, 1), (1, 1), {}), ((9, 1), (1, 2), {1: 1})])
    assert not register.losses(NAME) and not register.met
    assert register.survivor(NAME).entry_id == (9, 1)


def test_an_add_that_was_seen_is_a_witness_against_a_third() -> None:
    """A adds, and again after the duration; B adds without having seen either, with an ID between: B's is lost to the
    first one. By the adds that nobody had seen alone, A's second one would be lost to it, and then both were gone.
    """
    adds: list[Add] = [((1, 1), (1, 1), {}), ((9, 1), (1, 2), {1: 1}), ((5, 2), (2, 1), {})]
    assert [(lost.entry_id, survivor.entry_id) for lost, survivor in register_of(adds).losses(NAME)] == [
        ((5, 2), (1, 1))
    ]


def test_names_are_forgotten_once_all_adds_are_stable() -> None:
    register = register_of([((1, 1), (1, 1), {}), ((2, 2), (2, 1), {})])
    register.record((b"p", b"later"), (1, 2), (3, 1), 0, VersionVector({1: 1}))
    register.met.clear()
    assert register.forget(VersionVector({1: 2}), 10, lambda _: False) == 1
    assert len(register) == 2
    assert register.forget(VersionVector({1: 2, 2: 1}), 10, lambda _: True) == 2
    assert [name for name, _ in register.items()] == [NAME]
    register.forget(VersionVector({1: 2, 2: 1}), 10, lambda _: False)
    assert len(register) == 0
    register.check()


def test_what_met_is_not_forgotten_before_it_is_removed() -> None:
    register = register_of([((1, 1), (1, 1), {}), ((2, 2), (2, 1), {})])
    register.forget(VersionVector({1: 1, 2: 1}), 10, lambda _: False)
    assert len(register) == 1


def test_witnesses_that_all_have_seen_leave() -> None:
    register = register_of([((1, 1), (1, 1), {}), ((9, 1), (1, 2), {1: 1}), ((12, 1), (1, 3), {1: 2})])
    register.forget(VersionVector({1: 1}), 10, lambda _: False)
    assert [add.entry_id for add in register.adds_of(NAME)] == [(9, 1), (12, 1)]
    register.check()


def test_survivors_are_found_by_the_id_of_what_is_lost() -> None:
    register = register_of([((1, 1), (1, 1), {}), ((2, 2), (2, 1), {})])
    assert [add.entry_id for add in register.survivors_of((2, 2))] == [(1, 1)]
    assert not register.survivors_of((1, 1)) and not register.survivors_of((7, 7))
    assert [add.dot for add in register.adds_with(2, (2, 2))] == [(2, 1)]
    assert not register.adds_with(1, (2, 2))


def test_lost_adds_of_an_unregistered_list() -> None:
    assert losses_of([]) == []
