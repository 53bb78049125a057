"""Which region is used, what is called again, and what a session awaits."""

from __future__ import annotations

import pytest
import redis

from crdtstream.client.errors import Behind, NoRegion, OutcomeUnknown
from crdtstream.client.failover import asking
from crdtstream.client.steps import drive
from tests.client.clients import DOWN, LOST, Clock, FakeRegion, failover_of


def test_the_nearest_region_is_used_and_kept() -> None:
    clock, east, west = Clock(), FakeRegion("east"), FakeRegion("west")
    failover = failover_of([east, west], clock)
    east.down = True
    assert drive(failover.call(asking("PING"), repeat=False)) == b"OK"
    assert west.asked == [("PING",)], "nothing was sent to the east, so it needs no permission to repeat"
    east.down, clock.now_s = False, 100.0
    drive(failover.call(asking("PING"), repeat=False))
    assert len(west.asked) == 2 and not east.asked
    assert drive(failover.go_home())
    assert failover.current is failover.regions[0] and not drive(failover.go_home())


def test_a_lost_connection_is_told_unless_it_may_be_repeated() -> None:
    clock, east, west = Clock(), FakeRegion("east", LOST, LOST), FakeRegion("west")
    failover = failover_of([east, west], clock)
    with pytest.raises(OutcomeUnknown, match="connection to east was lost"):
        drive(failover.call(asking("INCR"), repeat=False))
    assert not west.asked
    clock.now_s = 10.0
    assert drive(failover.call(asking("GET"), repeat=True)) == b"OK"
    assert west.asked == [("GET",)] and failover.repeats_elsewhere == 1


def test_a_doubtful_call_stays_in_its_region_for_a_while() -> None:
    clock, east, west = Clock(), FakeRegion("east", LOST, LOST, redis.BusyLoadingError("loads")), FakeRegion("west")
    failover = failover_of([east, west], clock)
    assert drive(failover.call(asking("XADD"), repeat=True, stay_s=5.0)) == b"OK"
    assert len(east.asked) == 4 and not west.asked and failover.repeats_elsewhere == 0
    east.replies, east.down = [LOST], False
    clock.pauses = [lambda: setattr(east, "down", True)]
    assert drive(failover.call(asking("XADD"), repeat=True, stay_s=5.0)) == b"OK"
    assert len(west.asked) == 1 and failover.repeats_elsewhere == 1
    assert 5.0 <= clock.now_s < 12.0


def test_a_region_that_refuses_is_left_without_a_repeat() -> None:
    clock, east, west = Clock(), FakeRegion("east", redis.ResponseError("MISCONF full")), FakeRegion("west")
    assert drive(failover_of([east, west], clock).call(asking("XADD"), repeat=False)) == b"OK"
    assert len(west.asked) == 1


def test_an_error_that_is_an_answer_is_raised_at_once() -> None:
    clock, east, west = Clock(), FakeRegion("east", redis.ResponseError("WRONGTYPE")), FakeRegion("west")
    failover = failover_of([east, west], clock)
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        drive(failover.call(asking("XADD"), repeat=True))
    assert failover.current is failover.regions[0] and not west.asked


def test_without_regions_the_search_ends() -> None:
    clock, east, west = Clock(), FakeRegion("east"), FakeRegion("west")
    east.down = west.down = True
    failover = failover_of([east, west], clock, patience_s=20.0)
    with pytest.raises(NoRegion, match=r"east: refused; west: refused") as caught:
        drive(failover.call(asking("PING"), repeat=True))
    assert caught.value.reasons == {"east": DOWN, "west": DOWN}
    assert 14.0 < clock.now_s <= 20.0


def test_the_search_goes_on_while_a_region_may_come() -> None:
    clock, east = Clock(), FakeRegion("east")
    east.down = True
    clock.pauses = [lambda: setattr(east, "down", clock.now_s < 6.0)]
    assert drive(failover_of([east], clock).call(asking("PING"), repeat=False)) == b"OK"
    assert 6.0 <= clock.now_s < 12.0


def test_a_move_to_a_region_that_is_down_changes_nothing() -> None:
    clock, east, west = Clock(), FakeRegion("east"), FakeRegion("west")
    failover = failover_of([east, west], clock)
    drive(failover.call(asking("PING"), repeat=False))
    west.down = True
    assert not drive(failover.move(failover.regions[1]))
    assert failover.current is failover.regions[0]
    assert not isinstance(failover.regions[0].error, Behind)
