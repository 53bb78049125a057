"""Scenario texts: what is a command, a reply, a step; and that a wrong reply is seen."""

from __future__ import annotations

import re

import pytest

from crdtstream.scenarios.text import ScenarioError
from simulations.history import Violation
from simulations.scenario import Scenario

TEXT = """\
# A note.
id-mode liberal
regions 2

t1
  1> XADD x 5-1 f v
     5-1
  2> XLEN x
     0
t2
  sync
  2> XRANGE x - +
"""


def test_a_scenario_runs_and_tells_differences() -> None:
    scenario = Scenario(TEXT)
    scenario.run()
    [difference] = scenario.differences()
    assert difference.startswith("line 12: 2> XRANGE x - +: expected [], got ")
    assert "5-1" in difference


def test_rewriting_gives_a_text_that_holds() -> None:
    scenario = Scenario(TEXT)
    scenario.run()
    rewritten = scenario.rewritten()
    assert rewritten.startswith(TEXT.rstrip("\n"))
    again = Scenario(rewritten)
    again.run()
    assert again.differences() == []
    assert again.rewritten() == rewritten


def test_settings_are_read() -> None:
    scenario = Scenario("regions 3\ntopology line\nfsync always\nid-mode semi-strict\n")
    [cluster] = scenario.clusters()
    assert sorted(cluster.machines) == [1, 2, 3]
    assert sorted(cluster.links) == [(1, 2), (2, 3)]
    config = cluster.machines[1].config
    assert (config.fsync, config.id_mode) == ("always", "semi-strict")


def test_commands_of_a_turn_are_one_turn() -> None:
    scenario = Scenario("turn 1\n  XADD x * f v\n  XADD x * f v\n1> XLEN x\n   2\n")
    scenario.run()
    assert scenario.differences() == []
    assert scenario.rewritten().splitlines()[:3] == ["turn 1", "  XADD x * f v", "  XADD x * f v"]


def test_a_region_syncs_its_log_where_the_text_says_so() -> None:
    text = "1> XADD x 100 f v\n   100-1\n{}power-loss 1\n1> XLEN x\n   {}\n"
    for step, length in (("", 0), ("fsync 1\n", 1)):
        scenario = Scenario("regions 1\n" + text.format(step, length))
        scenario.run()
        assert scenario.differences() == []


def test_a_message_can_be_on_its_way_while_other_things_happen() -> None:
    text = """\
1> XADD x 100 f v
   100-1
send 1 2
1> XADD x 200 f v
   200-1
2> XLEN x
   0
arrive 1 2
2> XLEN x
   1
send 1 2
cut 1 2
arrive 1 2
2> XLEN x
   1
heal 1 2
1 -> 2
2> XLEN x
   2
"""
    scenario = Scenario(text)
    scenario.run()
    assert scenario.differences() == []


def test_a_region_without_room_refuses_writes() -> None:
    scenario = Scenario("disk-full 1\n1> XLEN x\n   0\n1> XADD x * f v\ndisk-room 1\n1> XADD x 5 f v\n   5-1\n")
    scenario.run()
    [difference] = scenario.differences()
    assert "! MISCONF" in difference


def test_a_client_that_waits_is_shown() -> None:
    scenario = Scenario("1> XREAD BLOCK 0 STREAMS x $\n   (waits)\n")
    scenario.run()
    assert scenario.differences() == []


@pytest.mark.parametrize(
    ("text", "reason"), [("dance 1\n", "line 1: no step is called 'dance'"), ('1> XADD "x\n', "line 1: No closing")]
)
def test_a_text_that_cannot_be_read_is_named(text: str, reason: str) -> None:
    with pytest.raises(ScenarioError, match=reason):
        Scenario(text).run()


def test_steps_change_the_world() -> None:
    text = """\
cut 1 2
1> XADD x * f v
heal 1 2
1 -> 2
2> XLEN x
   1
power-loss 1
1> XLEN x
   0
sync 1 2
1> XLEN x
   1
clock 500
1> TIME
   ["0", "500000"]
"""
    scenario = Scenario(text)
    scenario.run()
    expected = [line for line in scenario.differences() if "XADD" not in line and "TIME" not in line]
    assert expected == []


def test_a_reply_that_comes_later_has_a_line_of_its_own() -> None:
    text = "1> XREAD BLOCK 50 STREAMS x $\n   (waits)\n1<\n   (waits)\nclock 100\n1<\n   nil\n1<\n   (waits)\n"
    scenario = Scenario(text)
    scenario.run()
    assert scenario.differences() == [] and scenario.rewritten() == text


def test_so_long_everything_goes_on() -> None:
    scenario = Scenario("1> XADD x 5 f v\n   5-1\npass 150\n2> XLEN x\n   1\npower-loss 2\n2> XLEN x\n   1\n")
    [cluster] = scenario.run()
    assert scenario.differences() == [] and cluster.now_ms == 151


def test_a_copy_runs_again_and_beside_its_original() -> None:
    text = """\
1> XADD x 100 f v
   100-1
copy 1
1> XADD x 200 f v
   200-1
twin 4 1
4> XLEN x
   1
4> XADD x 300 f v
   300-257
heal 2 4
sync
2> XLEN x
   3
stop 4
put-back 1
1> XLEN x
   1
heal 1 2
sync
1> XLEN x
   3
"""
    scenario = Scenario(text)
    [cluster] = scenario.run()
    assert scenario.differences() == []
    assert sorted(cluster.machines) == [1, 2] and cluster.machines[1].copied


def test_a_region_comes_later_under_its_own_number_or_another() -> None:
    scenario = Scenario("regions 3\nabsent 3\nnew 3 2\nnew 5 2 4\nsync\n")
    [cluster] = scenario.run()
    assert [cluster.node(number).settings.config.region for number in sorted(cluster.machines)] == [1, 2, 3, 4]
    assert cluster.node(5).membership.serving()


def test_what_a_command_made_for_others_is_counted() -> None:
    text = "1> XADD x 5 f v\n   5-1\neffects 1 1\n1> XLEN x\n   1\neffects 1 {}\n"
    Scenario(text.format(0)).run()
    with pytest.raises(ScenarioError, match="line 6: the last command of region 1 made 0 effects, not 1"):
        Scenario(text.format(1)).run()


def test_digests_must_differ_where_the_text_says_so() -> None:
    text = "1> XADD x 5 f v\n   5-1\ndiffer 1 2\n{}differ 1 2\n"
    Scenario(text.format("")).run()
    with pytest.raises(ScenarioError, match="the digests of regions 1 and 2 are equal"):
        Scenario(text.format("sync\n")).run()


# b and c are in shard 0, a and d in shard 1.
SHARDED = "regions 2\nshards 2\n"


def test_clients_of_several_shards_follow_moved() -> None:
    text = """\
1.0> XADD a 100 f v
   ! MOVED 15495 region1-shard1:7000
1> XADD a 100 f v
   100-1
1> DBSIZE
   1
1> XADD b 100 f v
   100-1
1> DEL a b
   ! CROSSSLOT Keys in request don't hash to the same slot
sync
2> XLEN a
   1
2.0> XLEN b
   1
"""
    scenario = Scenario(SHARDED + text)
    first, second = scenario.run()
    assert scenario.differences() == [] and scenario.rewritten() == SHARDED + text
    assert [cluster.execute(2, [b"DBSIZE"]) for cluster in (first, second)] == [b":1\r\n", b":1\r\n"]


def test_a_step_concerns_all_shards_or_the_one_that_it_names() -> None:
    text = """\
1> XADD a 100 f v
   100-1
1> XADD b 100 f v
   100-1
fsync 1.1
power-loss 1
kill 1.1
1> XLEN a
   1
1> XLEN b
   0
1> XADD a 200 f v
1> XADD b 200 f v
   200-257
1.0 -> 2.0
differ 1 2
2> XLEN a
   0
2> XLEN b
   1
pass 100
2> XLEN a
   2
"""
    scenario = Scenario(SHARDED + text)
    clusters = scenario.run()
    assert [line for line in scenario.differences() if "XADD" not in line] == []
    assert {cluster.now_ms for cluster in clusters} == {101}


def test_effects_and_tombstones_are_counted_over_shards() -> None:
    lines = [
        f"1> {command} {key}{words}\neffects 1 1\n"
        for key in "ab"
        for command, words in (("XGROUP CREATE", " g 0 MKSTREAM"), ("XGROUP DESTROY", " g"))
    ]
    text = "".join(lines) + "sync\nremembers 1 {}\n"
    Scenario(SHARDED + text.format(2)).run()
    with pytest.raises(ScenarioError, match="region 1 remembers 2 tombstones, not 1"):
        Scenario(SHARDED + text.format(1)).run()


def test_a_reply_that_comes_later_comes_from_the_shard_that_was_asked() -> None:
    text = "1> XREAD BLOCK 0 STREAMS a $\n   (waits)\n1> XADD b 5 f v\n   5-1\n1.0<\n   (waits)\n2> XADD a 5 f v\n"
    scenario = Scenario(SHARDED + text + "   5-2\nsync\n1<\n   [[a, [[5-2, [f, v]]]]]\n")
    scenario.run()
    assert scenario.differences() == []


def test_machines_that_are_copied_or_come_later_have_all_shards() -> None:
    text = "1> XADD a 100 f v\ncopy 1\ntwin 4 1\n4> XLEN a\n   1\nnew 5 2 3\nsync\n5.0> XLEN a\n"
    scenario = Scenario(SHARDED + text + "   ! MOVED 15495 region3-shard1:7000\n5> XLEN a\n   1\n")
    scenario.run()
    assert [line for line in scenario.differences() if "XADD" not in line] == []


def test_a_violation_names_its_shard() -> None:
    with pytest.raises(Violation, match="convergence: shard 1, "):
        Scenario(SHARDED + "cut 1.1 2.1\n1> XADD a 5 f v\n1> XADD b 5 f v\nsync\ncheck convergence\n").run()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1.2> XLEN a\n", "line 3: there is no shard 2: this scenario has `shards 2`"),
        ("1.2<\n", "line 3: there is no shard 2"),
        ("kill 1.2\n", "line 3: there is no shard 2"),
        ("cut 1.0 2.1\n", "line 3: 'cut' is about one shard, or about all: 1.0 and 2.1 are different ones"),
        ("cut 1 2.1\n", "line 3: 'cut' is about one shard"),
        ("clock 1.1\n", "line 3: '1.1' of 'clock' is not a number"),
        ("skew 1 1.1\n", "line 3: '1.1' of 'skew' is not a number"),
        ("kill one\n", "line 3: 'one' of 'kill' is not a region, as 1, or a shard of it, as 1.0"),
        ("turn 1\n  XADD a * f v\n", "line 3: a turn is one of one shard: name it, as in `turn 1.0`"),
        (
            "turn 1.0\n  XADD a * f v\n",
            "line 3: a key of this turn is in shard 1, not in 0: use keys with one hash tag",
        ),
        ("turn 1.0\n  PUBLISH c m\n", "line 3: no process carries PUBLISH to the other shards here: use SPUBLISH"),
        ("1> publish c m\n", "line 3: no process carries PUBLISH"),
        ("1> stream create 2\n", "line 3: a partitioned stream is in regions of one shard: leave out `shards`"),
        ("check routing\n", "line 3: 'routing' is checked in worlds only: show what a shard refuses as a reply"),
        ("shards 0\n", "shards 0: give a number from 1 to 64"),
        ("shards two\n", "shards two: give a number from 1 to 64"),
    ],
)
def test_what_does_not_go_with_several_shards_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ScenarioError, match=re.escape(reason)):
        Scenario(SHARDED + text).run()


def test_a_turn_of_one_shard_is_one_turn() -> None:
    scenario = Scenario(SHARDED + "turn 1.1\n  XADD a 5 f v\n  XADD d 5 f v\n1> XLEN d\n   1\n")
    scenario.run()
    assert scenario.differences() == []
