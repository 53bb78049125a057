"""The `check` step: each checker is fed, holds on a sound core, and names what does not hold."""

from __future__ import annotations

import pytest

from crdtstream.protocols import codec
from crdtstream.scenarios.text import ScenarioError
from simulations.checkers import all_checkers
from simulations.cluster import Cluster
from simulations.history import Violation
from simulations.scenario import Scenario

SCENARIO = """\
regions 3
id-mode strict

  1> XADD x 100 f a
     100-1
  1> XGROUP CREATE x g 0
     OK
  sync
  2> XREADGROUP GROUP g a STREAMS x >
     [[x, [[100-1, [f, a]]]]]
  2> XACK x g 100-1
     1
  3> DEL x
     1
  kill 2
  1> XADD x 200 f b
     200-1
  power-loss 1
  turn 3
    XADD y 300 f c
    XGROUP CREATE y g 0
    XREADGROUP GROUP g a STREAMS y >
    XACK y g 300-3
  cut 1 2
  disk-loss 2 5
  heal 1 2
  sync
"""
NAMES = [checker.name for checker in all_checkers()]


@pytest.mark.parametrize("name", NAMES)
def test_a_checker_holds_on_a_sound_core(name: str) -> None:
    scenario = Scenario(SCENARIO + f"  check {name}\n")
    scenario.run()
    assert scenario.differences() == []


def checked(*names: str) -> Cluster:
    [cluster] = Scenario(SCENARIO + "".join(f"  check {name}\n" for name in names)).run()
    return cluster


def test_what_clients_were_told_is_known() -> None:
    history = checked(*NAMES).history
    assert [(added.region, added.key, added.entry_id) for added in history.added] == [
        (1, (0, b"x"), (100, 1)),
        (1, (0, b"x"), (200, 1)),
        (3, (0, b"y"), (300, 3)),
    ]
    assert [lost.fault for lost in history.lost] == ["kill", "power", "disk-loss"]
    assert set(history.acknowledged) == {((0, b"x"), b"g"), ((0, b"y"), b"g")}
    assert list(history.deletes) == [(0, b"x")]


def test_an_entry_that_nobody_removed_and_is_gone_is_named() -> None:
    cluster = checked("observed remove")
    cluster.execute(1, [b"XADD", b"x", b"400", b"f", b"v"])
    cluster.sync()
    for machine in cluster.machines.values():
        for tree in machine.node.replica.keyspace.databases[0][b"x"].trees.values():
            for low, high in list(tree.counter_ranges()):
                tree.remove_counters(low, high)
    with pytest.raises(Violation, match="observed remove: region 1"):
        cluster.verify("observed remove")


def test_a_del_of_several_keys_removes_all_of_them() -> None:
    adds = "  1> XADD x 100 f a\n     100-1\n  1> XADD y 100 f a\n     100-1\n"
    scenario = Scenario(f"regions 2\nid-mode strict\n\n{adds}  1> DEL x y\n     2\n  sync\n  check lost write\n")
    scenario.run()
    assert scenario.differences() == []


def test_an_unknown_checker_is_refused() -> None:
    with pytest.raises(ScenarioError, match="line 2: no checker is called 'nothing'"):
        Scenario("regions 2\ncheck nothing\n").run()


def test_a_reply_that_comes_later_is_told_of_its_own_command() -> None:
    text = """\
regions 2
id-mode strict

  sync
  fsync 1
  cut 1 2
  kill 1
  1> XADD x 100 f v
     100-257
  1> XGROUP CREATE x g 0
     (waits)
  1> XADD x 200 f v
     (waits)
  heal 1 2
  sync
  1<
  sync
  check lost write
"""
    scenario = Scenario(text)
    with pytest.raises(AssertionError, match="more than one reply"):
        scenario.run()
    scenario = Scenario(text.replace("  1<\n", ""))
    [cluster] = scenario.run()
    assert cluster.pop_reply(1) is not None
    added = cluster.history.added
    assert [entry.entry_id[0] for entry in added] == [100, 200]


def test_every_turn_is_watched() -> None:
    """A batch that is applied twice is named at once, not only at the end."""
    [cluster] = Scenario("regions 2\n  1> XADD x 100 f v\n     100-1\n  sync\n  check origin order\n").run()
    records = cluster.machines[2].log.read(1, 1 << 20)
    cluster.machines[2].logged += [codec.decode_batch(payload) for _, kind, payload in records if kind == codec.BATCH]
    with pytest.raises(Violation, match="origin order: region 2"):
        cluster.turn(2)


def test_a_region_that_comes_later_is_checked_too() -> None:
    text = "regions 3\nabsent 3\n\n  sync\n  1> XADD x 100 f v\n     100-1\n  new 3 2\n  pass 2000\n  sync\n"
    scenario = Scenario(text + "  3> XLEN x\n     1\n  check convergence\n  check invariants\n")
    [cluster] = scenario.run()
    assert sorted(cluster.machines) == [1, 2, 3] and scenario.differences() == []
