"""Each checker of shards complains about what it is there for."""

from __future__ import annotations

import pytest

from crdtstream.core.values.entry_id import STRICT
from crdtstream.scenarios.reply import ReplyError
from simulations.adversary import draw_world
from simulations.history import Violation
from simulations.settings import Settings
from simulations.shard_checkers import HoldsOwnKeys, LinksEqualShards, RefusesWithoutEffect, Routes
from simulations.shard_refusals import Refused, WrongLink
from simulations.sharded import Sharded, draw_run

CALM = Settings(2, "mesh", STRICT, 400, (), 100, 1_000_000)
ADD = [b"XADD", b"a", b"*", b"f", b"v"]
MOVED = ReplyError("MOVED 15495 region1-shard1:7000")


@pytest.fixture
def run() -> Sharded:
    run = draw_run(1, CALM, sharded=True)
    assert isinstance(run, Sharded)
    run.run()
    return run


def test_a_key_in_the_wrong_shard(run: Sharded) -> None:
    first, second = run.worlds
    for world in run.worlds:
        HoldsOwnKeys().look(world, 1)
        world.machines[1].node.context.shards = None
        world.machines[1].execute(ADD, world.now_ms)
    HoldsOwnKeys().look(second, 1)
    with pytest.raises(Violation, match=r"own keys: region 1 holds \[\(0, b'a'\)\]"):
        HoldsOwnKeys().look(first, 1)


def test_a_region_of_one_shard_holds_every_key() -> None:
    world = draw_world(1, CALM)
    world.machines[1].execute(ADD, world.now_ms)
    HoldsOwnKeys().at_end(world)


def test_a_wrong_route(run: Sharded) -> None:
    routes, world = Routes(), run.worlds[0]
    routes.commanded(world, 1, ADD, "1-1")
    routes.commanded(world, 1, ADD, ReplyError("ERR no"))
    with pytest.raises(Violation, match=r"routing: region 1 refuses .* of its own"):
        routes.commanded(world, 1, ADD, MOVED)
    routes.refused(world, 1, Refused(ADD, ["MOVED 15495 region1-shard1:7000"], [MOVED], changed=False))
    with pytest.raises(Violation, match=r"routing: region 1 answers"):
        routes.refused(world, 1, Refused(ADD, ["MOVED 15495 region1-shard1:7001"], [MOVED], changed=False))


def test_an_effect_of_what_was_refused(run: Sharded) -> None:
    checker, world = RefusesWithoutEffect(), run.worlds[0]
    checker.refused(world, 1, Refused(ADD, [], [], changed=False))
    with pytest.raises(Violation, match=r"refused requests: .* has logged something"):
        checker.refused(world, 1, Refused(ADD, [], [], changed=True))


def test_a_link_that_must_not_be(run: Sharded) -> None:
    checker, world = LinksEqualShards(), run.worlds[0]
    checker.linked_wrongly(world, WrongLink("", ["hello", "refused"], ["no", "no"]))
    with pytest.raises(Violation, match=r"equal shards: .* is not refused"):
        checker.linked_wrongly(world, WrongLink("", ["hello"], [None, None]))
