"""Notifications of what no command of this region's clients did: expiry, other regions' effects, and the open turn."""

from __future__ import annotations

from crdtstream.connections.client import Client
from crdtstream.connections.notifications import flags_of, letters_of
from crdtstream.core.expiring import expire_due
from tests.commands.stream_region import Region


def events(region: Region, listener: Client) -> list[bytes]:
    """`event key` of each message on the channels of events."""
    parts = [message.split(b"\r\n") for one, message in region.context.pubsub.drain() if one is listener]
    return [part[6].partition(b":")[2] + b" " + part[8] for part in parts]


def listening(region: Region, letters: str = "AEn") -> Client:
    region.call("CONFIG", "SET", "notify-keyspace-events", letters)
    listener = region.connect()
    region.call("PSUBSCRIBE", "__keyevent@*", client=listener)
    return listener


def hear(west: Region, east: Region) -> None:
    """As `Turn.apply` does it."""
    west.context.notifications.publish_prepared()
    west.close_turn()
    east.close_turn()
    for batch in east.batches:
        if batch.first > west.replica.applied.vector.get(batch.origin):
            west.replica.apply_batch(batch)
            west.context.notifications.publish_applied(batch)


def test_effects_of_other_regions() -> None:
    east, west = Region(1), Region(2)
    listener = listening(west)
    for text in ("XADD s 1-1 f v", "XADD s 2-1 f v", "XGROUP CREATE s g 0", "XGROUP CREATECONSUMER s g c"):
        east.say(text)
    hear(west, east)
    assert events(west, listener) == [b"new s", b"xadd s", b"xadd s", b"xgroup-create s"]
    for text in ("EXPIRE s 100", "XTRIM s MAXLEN 1", "XGROUP DESTROY s g", "RENAME s t", "DEL t"):
        east.say(text)
    hear(west, east)
    told = [b"expire s", b"xtrim s", b"xgroup-destroy s", b"new t", b"xadd t", b"xsetid t", b"expire t"]
    assert events(west, listener) == [*told, b"del s", b"del t"]


def test_an_expired_key() -> None:
    east, west = Region(1), Region(2)
    listeners = [listening(region) for region in (east, west)]
    for text in ("XADD s 1-1 f v", "PEXPIRE s 10"):
        east.say(text)
    hear(west, east)
    for region, listener in zip((east, west), listeners, strict=True):
        assert events(region, listener)[-1] == b"expire s"
        region.replica.keyspace.now_ms += 1_000
    expire_due(east.replica, 0, 10)
    east.context.notifications.publish_prepared()
    hear(west, east)
    assert events(east, listeners[0]) == events(west, listeners[1]) == [b"expired s"]
    west.say("XADD s 1-1 f v")
    assert events(west, listeners[1]) == [b"new s", b"xadd s"]


def test_a_write_to_a_hidden_key_tells_that_it_expired() -> None:
    region = Region()
    listener = listening(region)
    for text in ("XADD s 1-1 f v", "PEXPIRE s 10"):
        region.say(text)
    region.replica.keyspace.now_ms += 1_000
    region.say("XADD s 5-1 f v")
    assert events(region, listener)[-3:] == [b"expired s", b"new s", b"xadd s"]
    region.say("PEXPIRE s 10")
    region.replica.keyspace.now_ms += 1_000
    region.say("FLUSHALL")
    assert events(region, listener) == [b"expire s", b"expired s"]


def test_what_was_done_before_is_not_told() -> None:
    region = Region()
    region.say("XADD s 1-1 f v")
    listener = listening(region)
    region.say("XADD s 2-1 f v")
    region.close_turn()
    region.say("XADD s 3-1 f v")
    assert events(region, listener) == [b"xadd s", b"xadd s"]
    region.call("CONFIG", "SET", "notify-keyspace-events", "")
    region.say("XADD s 4-1 f v")
    assert not region.replica.keyspace.observers and events(region, listener) == []


def test_letters() -> None:
    for text, shown in (("KEA", "AKE"), ("nA", "A"), ("mEtKgn", "gtnKEm"), ("", ""), ("g$lshzxetd", "A")):
        assert letters_of(flags_of(text) or 0) == shown
    assert flags_of("Aq") is None
