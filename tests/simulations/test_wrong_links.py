"""Links that must not be are told from links that may be."""

from __future__ import annotations

import pytest

from crdtstream.core.values.entry_id import STRICT
from simulations.network import Network, Watcher
from simulations.settings import Settings
from simulations.shard_refusals import WrongLink
from simulations.sharded import Sharded, draw_run
from simulations.wrong_links import FIRST_LINK, Dial

CALM = Settings(2, "mesh", STRICT, 400, (), 100, 1_000_000)


class Listens(Watcher):
    def __init__(self) -> None:
        self.links: list[WrongLink] = []

    def linked_wrongly(self, world: Network, link: WrongLink) -> None:
        self.links.append(link)


def dialled(other: int, count: int | None) -> WrongLink:
    """What came of a link from region 1 of shard 0 to region 2 of that shard."""
    run = draw_run(1, CALM, sharded=True)
    assert isinstance(run, Sharded)
    run.run()
    listens = Listens()
    run.worlds[0].watch(listens)
    Dial(run.worlds[0], 1, run.worlds[other], 2, FIRST_LINK).refused(count)
    return listens.links[-1]


def test_equal_shards_do_not_refuse_each_other() -> None:
    assert not dialled(0, None).is_refused()


@pytest.mark.parametrize(("other", "count", "why"), [(1, None, "connect equal shards"), (0, 3, "the same --shards")])
def test_unequal_shards_and_counts_refuse_each_other(other: int, count: int | None, why: str) -> None:
    link = dialled(other, count)
    assert link.is_refused()
    assert all(why in str(reason) for reason in link.reasons)


def test_what_a_refused_link_may_not_do() -> None:
    assert WrongLink("", ["hello", "refused"], ["no", "no"]).is_refused()
    assert not WrongLink("", ["hello", "batches"], ["no", "no"]).is_refused()
    assert not WrongLink("", ["hello", "refused"], ["no", "no"], changed=True).is_refused()
    assert not WrongLink("", ["hello", "refused"], ["no", None]).is_refused()
