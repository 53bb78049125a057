"""CRDT.TOKEN and CRDT.AWAIT."""

from __future__ import annotations

import pytest

from crdtstream.core.tokens import TOKEN, decode, encode
from crdtstream.core.values.causality import VersionVector
from tests.commands.stream_region import Region

LOST = b"-LOST no member has the write 2.1=2 of region 2 that the token names"
SUCCESSOR = 2 + 512
ENDED = 2 + 256


@pytest.fixture
def region() -> Region:
    return Region()


def token_of(region: Region) -> bytes:
    reply = region.say("CRDT.TOKEN")
    assert reply is not None and reply.startswith(b"$")
    return reply.split(b"\r\n")[1]


def serve_waiting(region: Region) -> list[bytes]:
    """The replies to those that waited."""
    for waiter in region.context.parking.keyless():
        region.serve(waiter)
    return region.late_replies(region.client)


def test_a_token_covers_what_is_applied(region: Region) -> None:
    region.say("XADD s * f v")
    assert decode(TOKEN, token_of(region), "") == VersionVector({1: 1})


def test_a_token_covers_an_acknowledgement_of_its_turn(region: Region) -> None:
    region.say("XADD s 1-1 f v")
    region.say("XGROUP CREATE s g 0")
    region.say("XREADGROUP GROUP g c STREAMS s >")
    region.close_turn()
    before = region.replica.applied.counter()
    region.say("XACK s g 1-1")
    assert decode(TOKEN, token_of(region), "") == VersionVector({1: before + 1})


def test_await_replies_at_once_where_everything_is(region: Region) -> None:
    region.say("XADD s * f v")
    assert region.call("CRDT.AWAIT", token_of(region), 0) == b"+OK\r\n"
    assert Region(2).call("CRDT.AWAIT", token_of(Region(3)), 0) == b"+OK\r\n"


def test_await_waits_until_everything_is_applied(region: Region) -> None:
    writer = Region(2)
    writer.say("XADD s * f v")
    assert region.call("CRDT.AWAIT", token_of(writer), 1000) is None
    assert serve_waiting(region) == []
    region.hear(writer)
    assert serve_waiting(region) == [b"+OK\r\n"]
    region.check()


@pytest.mark.parametrize(("protocol", "nothing"), [(2, b"$-1\r\n"), (3, b"_\r\n")])
def test_await_ends_at_its_timeout(region: Region, protocol: int, nothing: bytes) -> None:
    region.client.protocol = protocol
    assert region.call("CRDT.AWAIT", encode(TOKEN, "", [(2, 1)]), 50) is None
    region.pass_time(49)
    assert region.client.parked
    region.pass_time(1)
    assert region.late_replies(region.client) == [nothing]


def test_await_with_timeout_0_waits_for_ever(region: Region) -> None:
    assert region.call("CRDT.AWAIT", encode(TOKEN, "", [(2, 1)]), 0) is None
    region.pass_time(10**12)
    assert region.client.parked


def test_await_does_not_wait_in_a_transaction(region: Region) -> None:
    region.say("MULTI")
    assert region.call("CRDT.AWAIT", encode(TOKEN, "", [(2, 1)]), 0) == b"+QUEUED\r\n"
    region.say("CRDT.TOKEN")
    empty = encode(TOKEN, "", [])
    assert region.say("EXEC") == b"*2\r\n$-1\r\n$%d\r\n%b\r\n" % (len(empty), empty)
    assert not region.client.parked


@pytest.mark.parametrize(
    ("token", "timeout", "error"),
    [
        (b"x", b"0", b"-ERR invalid token: it was changed, or CRDT.TOKEN did not reply it; get a new one from"),
        (encode(b"c", "", []), b"0", b"-ERR invalid token: it was changed"),
        (
            encode(TOKEN, "", [], b"subject"),
            b"0",
            b"-ERR the token was changed, or is of a cluster with another number of",
        ),
        (b"t9-x", b"0", b"-ERR the token is of a newer release: update this region"),
        (encode(TOKEN, "bank", []), b"0", b"-ERR the token is of another cluster: get one from CRDT.TOKEN in a region"),
        (encode(TOKEN, "", []), b"x", b"-ERR timeout is not an integer or out of range\r\n"),
        (encode(TOKEN, "", []), b"-1", b"-ERR timeout is negative\r\n"),
    ],
)
def test_errors_say_what_to_do(region: Region, token: bytes, timeout: bytes, error: bytes) -> None:
    reply = region.call(b"CRDT.AWAIT", token, timeout)
    assert reply is not None and reply.startswith(error)
    assert not region.client.parked


# Lost


def ended_at(region: Region, through: int) -> None:
    """Region 2 came back as another origin; its earlier one has ended at this counter. Region 3 is a member, too."""
    region.replica.join_member(1)
    region.replica.join_member(SUCCESSOR)
    region.replica.join_member(3)
    region.replica.applied.vector.advance(ENDED, through)
    region.replica.evict_member(ENDED, SUCCESSOR)
    region.close_turn()


def tell(region: Region, member: int, **vector: int) -> None:
    """A member says what it has applied: `own` of this region, `ended` of the origin that ended."""
    rows = {1: vector.get("own", 0), ENDED: vector.get("ended", 0)}
    region.progress.applied[member] = VersionVector(rows)


def test_what_no_member_has_is_lost(region: Region) -> None:
    ended_at(region, 1)
    own = region.replica.applied.counter()
    for member in (SUCCESSOR, 3):
        tell(region, member, own=own, ended=1)
    reply = region.call("CRDT.AWAIT", encode(TOKEN, "", [(ENDED, 2)]), 1000)
    assert reply is not None and reply.startswith(LOST)
    assert region.call("CRDT.AWAIT", encode(TOKEN, "", [(ENDED, 1)]), 1000) == b"+OK\r\n"


def test_nothing_is_lost_before_a_founder_was_heard(region: Region) -> None:
    """It counts before its Join is here."""
    ended_at(region, 1)
    region.neighbours.founders = [4]
    own = region.replica.applied.counter()
    for member in (SUCCESSOR, 3):
        tell(region, member, own=own, ended=1)
    assert region.call("CRDT.AWAIT", encode(TOKEN, "", [(ENDED, 2)]), 1000) is None


def test_what_a_member_has_is_not_lost(region: Region) -> None:
    ended_at(region, 1)
    own = region.replica.applied.counter()
    tell(region, SUCCESSOR, own=own, ended=1)
    tell(region, 3, ended=2)
    assert region.call("CRDT.AWAIT", encode(TOKEN, "", [(ENDED, 2)]), 1000) is None


def test_what_is_on_a_members_disk_is_not_lost(region: Region) -> None:
    ended_at(region, 1)
    own = region.replica.applied.counter()
    for member in (SUCCESSOR, 3):
        tell(region, member, own=own)
    region.progress.durable[3] = VersionVector({ENDED: 2})
    assert region.call("CRDT.AWAIT", encode(TOKEN, "", [(ENDED, 2)]), 1000) is None


def test_nothing_is_lost_before_every_member_was_heard(region: Region) -> None:
    ended_at(region, 1)
    own = region.replica.applied.counter()
    tell(region, SUCCESSOR, own=own)
    tell(region, 3, own=own - 1)
    assert region.call("CRDT.AWAIT", encode(TOKEN, "", [(ENDED, 2)]), 1000) is None
    tell(region, 3, own=own)
    (reply,) = serve_waiting(region)
    assert reply.startswith(LOST)


def test_what_may_still_come_from_a_living_origin_is_not_lost(region: Region) -> None:
    assert region.call("CRDT.AWAIT", encode(TOKEN, "", [(ENDED, 2)]), 1000) is None
