"""Clients that name their adds, and a world of them."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from simulations.adversary import draw_world
from simulations.checkers import run_checked
from simulations.name_oracle import acknowledged_by_name, ids_by_name, survivors, survivors_by_dot
from simulations.named_adds import NAMES, PRODUCERS, with_names
from simulations.settings import draw_settings


@pytest.mark.parametrize("line", ["XADD x * f v", "XADD x MAXLEN 5 * f v"])
def test_adds_get_names(line: str) -> None:
    argv, rng = line.encode().split(), Random(1)
    sent = [with_names(rng, argv)[0] for _ in range(2_000)]
    named = [one for one in sent if one != argv]
    assert 0 < len(named) < len(sent)
    assert {tuple(one[:2] + one[5:]) for one in named} == {tuple(argv)}
    assert {(one[2], one[3], int(one[4])) for one in named} == {
        (b"IDMP", producer, name) for producer in PRODUCERS for name in range(NAMES)
    }


@pytest.mark.parametrize("line", ["XADD x 5-1 f v", "XADD x 5 f *", "XDEL x 1-1"])
def test_nothing_else_is_changed(line: str) -> None:
    argv = line.encode().split()
    assert all(with_names(Random(seed), argv) == [argv] for seed in range(20))


@pytest.mark.parametrize("seed", [0, 3])
def test_one_entry_stays_for_one_name(seed: int) -> None:
    settings = replace(draw_settings(Random(seed)), named=True, retention=False, delivering=False)
    world = draw_world(seed, settings, properties=True)
    run_checked(world)
    losses = survivors(world)
    assert sum(map(len, losses.values())) == len(survivors_by_dot(world)) > 0
    for key, mine in losses.items():
        ids = {lost.entry_id for lost in mine}
        assert acknowledged_by_name(world, key, ids) >= {survivor.entry_id for survivor in mine.values()}
        assert ids_by_name(world, key, ids) >= ids | acknowledged_by_name(world, key, ids)
