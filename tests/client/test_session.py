"""What a session awaits when it moves, and what it does where something has not arrived or is gone."""

from __future__ import annotations

import pytest
import redis

from crdtstream.client.errors import Behind, WritesLost
from crdtstream.client.failover import asking
from crdtstream.client.session import SessionTokens
from crdtstream.client.steps import drive
from tests.client.clients import LOST, Clock, FakeRegion, failover_of

XLEN = asking("XLEN")
# As redis-py raises it: an error reply whose code it does not know.
GONE = redis.ResponseError("LOST no member has the write 1.1=2 of region 1 that the token names")


def test_each_call_takes_a_token_and_a_move_awaits_it() -> None:
    clock, east, west, session = Clock(), FakeRegion("east"), FakeRegion("west"), SessionTokens([b"before"])
    failover = failover_of([east, west], clock, session)
    drive(failover.call(XLEN, repeat=True))
    assert east.asked == [("CRDT.AWAIT", b"before", 5000), ("CRDT.TOKEN",), ("XLEN",), ("CRDT.TOKEN",)]
    assert session.tokens == [b"east2"]
    east.down = True
    drive(failover.call(XLEN, repeat=True))
    assert west.asked[:2] == [("CRDT.AWAIT", b"east2", 5000), ("CRDT.TOKEN",)]
    assert session.tokens == [b"west2"]


def test_a_region_that_is_back_after_a_failure_is_awaited_again() -> None:
    clock, east, session = Clock(), FakeRegion("east", b"OK", LOST), SessionTokens()
    failover = failover_of([east], clock, session)
    drive(failover.call(XLEN, repeat=True))
    drive(failover.call(XLEN, repeat=True))
    assert ("CRDT.AWAIT", b"east2", 5000) in east.asked, "it may have lost what was not on disk"


def test_a_region_that_is_behind_is_passed_over() -> None:
    clock, east, west, north = Clock(), FakeRegion("east"), FakeRegion("west", None), FakeRegion("north")
    failover = failover_of([east, west, north], clock, SessionTokens())
    drive(failover.call(XLEN, repeat=True))
    east.down = True
    drive(failover.call(XLEN, repeat=True))
    assert failover.current is failover.regions[2] and ("XLEN",) not in west.asked


def test_where_all_are_behind_it_is_an_error_and_the_tokens_stay() -> None:
    clock, west, session = Clock(), FakeRegion("west", None), SessionTokens([b"east1"])
    failover = failover_of([west], clock, session, patience_s=0.05)
    with pytest.raises(Behind, match="west has not received in 5000 ms"):
        drive(failover.call(XLEN, repeat=True))
    assert session.tokens == [b"east1"]
    clock.now_s = 10.0
    drive(failover.call(XLEN, repeat=True))
    assert session.tokens == [b"west2"]


def test_a_session_may_go_on_behind_and_keeps_what_it_misses() -> None:
    clock, west, session = Clock(), FakeRegion("west", None), SessionTokens([b"east1"])
    failover = failover_of([west], clock, session, go_on_behind=True)
    drive(failover.call(XLEN, repeat=True))
    drive(failover.call(XLEN, repeat=True))
    assert session.tokens == [b"east1", b"west3"]


def test_lost_writes_are_told_once() -> None:
    clock, west, session = Clock(), FakeRegion("west", GONE), SessionTokens([b"east1"])
    failover = failover_of([west], clock, session)
    with pytest.raises(WritesLost, match="LOST no member has the write"):
        drive(failover.call(XLEN, repeat=True))
    drive(failover.call(XLEN, repeat=True))
    assert west.asked[-2:] == [("XLEN",), ("CRDT.TOKEN",)]


@pytest.mark.parametrize("go_on_behind", [False, True])
def test_a_region_may_be_lost_between_a_reply_and_its_token(go_on_behind: bool) -> None:
    clock, east, session = Clock(), FakeRegion("east"), SessionTokens()
    failover = failover_of([east], clock, session, go_on_behind=go_on_behind)

    def lost(client: FakeRegion) -> int:
        client.breaks = True
        return 7

    if go_on_behind:
        assert drive(failover.call(lost, repeat=True)) == 7
    else:
        with pytest.raises(Behind, match="before it gave a token") as caught:
            drive(failover.call(lost, repeat=True))
        assert caught.value.reply == 7
