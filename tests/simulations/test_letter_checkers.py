"""Clients of groups with dead letters, the checker of letters, and a world of them."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from crdtstream.core.replica import Replica
from simulations.adversary import draw_world
from simulations.checkers import run_checked
from simulations.letter_checkers import OneLetter
from simulations.letter_clients import LETTERS, OTHER_GROUP, with_letters
from simulations.letter_oracle import LetterRow, acknowledged_by_store, letters_of, redriven
from simulations.settings import draw_settings
from simulations.world import World

READ = b"XREADGROUP GROUP g a COUNT 1 STREAMS x >".split()


def test_groups_get_a_limit_and_another_one_beside_them() -> None:
    create = b"XGROUP CREATE x g 0 MKSTREAM".split()
    for seed in range(20):
        one, other = with_letters(Random(seed), create, Replica(1))
        assert one[:6] == create and one[6:8] == [b"CRDT", b"MAXDELIVERIES"] and one[-1] == LETTERS
        assert other == [*one[:3], OTHER_GROUP, *one[4:]]
    owned = [*create, b"CRDT", b"ACKNOWLEDGE", b"EXACT"]
    assert with_letters(Random(1), owned, Replica(1))[0][:9] == owned


def test_readers_claim_and_redrive() -> None:
    rng = Random(1)
    sent = [one for _ in range(500) for one in with_letters(rng, READ, Replica(1))]
    assert {one[0] for one in sent} == {b"XREADGROUP", b"XAUTOCLAIM", b"CRDT.REDRIVE"}
    assert with_letters(rng, [b"XLEN", b"x"], Replica(1)) == [[b"XLEN", b"x"]]


def world_of(seed: int) -> World:
    settings = replace(draw_settings(Random(seed)), letters=True, named=False, retention=False, delivering=False)
    return draw_world(seed, settings, properties=True)


@pytest.mark.parametrize("seed", [6, 8])
def test_letters_are_once_each_and_none_is_lost(seed: int) -> None:
    world = world_of(seed)
    run_checked(world)
    rows = world.oracle.effects(world.oracle.vector())
    letters = letters_of(rows, LETTERS)
    assert letters and set(redriven(rows, LETTERS)) <= {one.dot for one in letters}
    assert all(one.lays for one in letters)
    found = {(one.group, one.source[1]) for one in letters}
    assert all(entry_id in acknowledged_by_store(world, group[0][1], group[1]) for group, entry_id in found)


def test_a_letter_that_is_gone_is_noticed() -> None:
    checker, world = OneLetter(), world_of(1)
    letter = LetterRow((1, 1), ((0, b"x"), b"g"), (1, (1, 1)), (((1, 1), (0, 0)),))
    checker._look_for_lost(world, [letter], {(1, 1)}, {})
    checker._look_for_lost(world, [letter], set(), {(1, 1)})
    with pytest.raises(Exception, match="is gone"):
        checker._look_for_lost(world, [letter], set(), {})
    again = LetterRow((2, 1), letter.group, letter.source, letter.lays)
    with pytest.raises(Exception, match="there twice"):
        checker._count(world, [letter, again])
