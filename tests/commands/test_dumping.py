"""DUMP and RESTORE where Redis is no model: damage, ID modes, other regions, limits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.values.entry_id import ID_MAX
from crdtstream.protocols import codec
from crdtstream.protocols.stream_dump import FOOTER_BYTES, GroupDump, PendingDump, StreamDump
from crdtstream.settings.config import Limits
from tests.commands.stream_region import Region
from tests.protocols.payloads import dumped, sealed

BAD = b"-ERR Bad data format\r\n"
GROUPS = (
    "XADD s 1-1 f v",
    "XADD s 2-1 f v g w",
    "XADD s 3-1 f v",
    "XGROUP CREATE s g 0",
    "XREADGROUP GROUP g c COUNT 2 STREAMS s >",
    "XREADGROUP GROUP g d COUNT 1 STREAMS s >",
    "XACK s g 1-1",
)


def payload_of(*texts: str) -> bytes:
    region = Region()
    for text in texts:
        region.say(text)
    reply = region.say("DUMP s")
    assert reply is not None
    return reply.partition(b"\r\n")[2][:-2]


WHOLE = payload_of(*GROUPS)


@given(st.data())
def test_damage_is_an_error_or_leaves_a_sound_region(data: st.DataObject) -> None:
    body = bytearray(WHOLE[:-FOOTER_BYTES])
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    region = Region()
    if region.call("RESTORE", "s", 0, sealed(bytes(body))) == BAD:
        assert not region.replica.prepared
    else:
        for text in ("XINFO STREAM s FULL", "XREADGROUP GROUP g c STREAMS s 0", "XADD s * f v", "DUMP s"):
            region.say(text)
    region.close_turn()


@pytest.mark.parametrize("deliveries", [2**31, 2**63 - 1, 2**64 - 1])
def test_the_largest_numbers(deliveries: int) -> None:
    stream = StreamDump()
    stream.last_id, stream.entries_added = ID_MAX, 2**63 - 1
    stream.max_deleted = ID_MAX
    group = GroupDump(b"g", ID_MAX, 2**62)
    group.consumers = [(b"c", 2**63 - 1, -1)]
    group.pending = [PendingDump((at, 1), b"c", 2**63 - 1, deliveries) for at in (1, 5)]
    stream.groups = [group]
    region = Region()
    assert region.call("RESTORE", "s", 0, dumped(stream, [((1, 1), [b"f", b"v"])])) == b"+OK\r\n"
    for text in ("XINFO STREAM s FULL", "XREADGROUP GROUP g c STREAMS s 0", "XPENDING s g - + 9", "DUMP s"):
        assert (region.say(text) or b"-")[:1] != b"-"
    region.replica.acknowledge_all()
    taken = region.replica.drain()
    assert taken.batch is not None
    codec.decode_facts(codec.encode_facts(taken.facts, taken.through))
    codec.decode_batch(codec.encode_batch(taken.batch))


@pytest.mark.parametrize("body", [b"", b"\x00\x01a", b"\x13", b"\x13\x81" + b"\xff" * 8])
def test_bad_data(body: bytes) -> None:
    assert Region().call("RESTORE", "s", 0, sealed(body)) == BAD


@pytest.mark.parametrize("mode", ["strict", "semi-strict", "liberal"])
def test_ids_are_kept_in_every_mode(mode: str) -> None:
    region = Region(id_mode=mode)
    assert region.call("RESTORE", "s", 0, WHOLE) == b"+OK\r\n"
    assert region.say("XRANGE s 2 2") == b"*1\r\n*2\r\n$3\r\n2-1\r\n*4\r\n$1\r\nf\r\n$1\r\nv\r\n$1\r\ng\r\n$1\r\nw\r\n"
    assert (region.say("XADD s * f v") or b"").startswith(b"$")
    region.close_turn()


def test_another_region_gets_entries_and_the_position_of_groups() -> None:
    east, west = Region(1), Region(2)
    assert east.call("RESTORE", "s", 0, WHOLE) == b"+OK\r\n"
    west.hear(east)
    assert west.say("XRANGE s - +") == east.say("XRANGE s - +")
    assert west.say("XREADGROUP GROUP g c STREAMS s >") == b"*-1\r\n"
    assert (east.say("XPENDING s g") or b"").startswith(b"*4\r\n:2\r\n")
    assert (west.say("XPENDING s g") or b"").startswith(b"*4\r\n:0\r\n")
    east.say("XADD s * f v")
    west.hear(east)
    assert (west.say("XREADGROUP GROUP g c STREAMS s >") or b"").count(b"$1\r\nf\r\n") == 1


def test_what_was_released_and_what_producers_added_comes_back() -> None:
    east, west = Region(1), Region(2)
    for text in (*GROUPS, "XNACK s g FAIL IDS 2 3-1 2-1", "XADD s IDMP p i * f v", "XADD s IDMP p i * f v"):
        east.say(text)
    payload = (east.say("DUMP s") or b"").partition(b"\r\n")[2][:-2]
    assert west.call("RESTORE", "s", 0, payload) == b"+OK\r\n"
    west.close_turn()
    assert west.say("XINFO STREAM s FULL") == east.say("XINFO STREAM s FULL")
    assert west.say("XADD s IDMP p i * f v") == east.say("XADD s IDMP p i * f v")
    claimed = [region.say("XREADGROUP GROUP g e COUNT 1 CLAIM 0 STREAMS s >") for region in (east, west)]
    assert claimed[0] == claimed[1] and b"3-1" in (claimed[0] or b"")


def test_what_was_there_is_replaced_in_every_region() -> None:
    east, west = Region(1), Region(2)
    for text in ("XADD s 7-1 old v", "XGROUP CREATE s old 0"):
        west.say(text)
    east.hear(west)
    assert (east.call("RESTORE", "s", 0, WHOLE) or b"").startswith(b"-BUSYKEY")
    assert east.call("RESTORE", "s", 0, WHOLE, "REPLACE") == b"+OK\r\n"
    west.hear(east)
    for region in (east, west):
        assert region.say("XLEN s") == b":3\r\n"
        assert list(region.stream().groups) == [b"g"]


def test_an_expired_payload_removes_what_was_there() -> None:
    region = Region()
    region.say("XADD s 1-1 f v")
    assert region.call("RESTORE", "s", 1, WHOLE, "REPLACE", "ABSTTL") == b"+OK\r\n"
    assert region.say("EXISTS s") == b":0\r\n"


def test_limits() -> None:
    region = Region(limits=Limits(copy_entries_max=2))
    assert (region.call("RESTORE", "s", 0, WHOLE) or b"").startswith(
        b"-ERR the payload has more than 2 entries; RESTORE accepts"
    )
    region = Region(limits=Limits(entry_bytes_max=3))
    assert region.call("RESTORE", "s", 0, WHOLE) == b"-ERR Elements are too large to be stored\r\n"
    assert not region.replica.prepared
