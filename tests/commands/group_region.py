"""What tests of group commands share: regions that exchange what they prepare, and replies spelled out."""

from __future__ import annotations

from crdtstream.core.effects import Batch
from crdtstream.core.groups.group import Group
from tests.commands.harness import Region

NIL2, NILA = b"$-1\r\n", b"*-1\r\n"
OK, ZERO, ONE = b"+OK\r\n", b":0\r\n", b":1\r\n"
EMPTY = b"*0\r\n"


def error(text: str) -> bytes:
    return b"-" + text.encode() + b"\r\n"


def bulk(text: str) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(text), text.encode())


def integer(number: int) -> bytes:
    return b":%d\r\n" % number


def array(*items: bytes) -> bytes:
    return b"*%d\r\n" % len(items) + b"".join(items)


def bulks(*texts: str) -> bytes:
    return array(*[bulk(text) for text in texts])


def entry(entry_id: str) -> bytes:
    """`1-0` as `XADD s 1-0 f v` makes it."""
    return array(bulk(entry_id), bulks("f", "v"))


def entries(*ids: str) -> bytes:
    return array(*[entry(entry_id) for entry_id in ids])


def read(name: str, *ids: str) -> bytes:
    """What XREADGROUP of one stream answers."""
    return array(array(bulk(name), entries(*ids)))


def row(entry_id: str, consumer: str, idle_ms: int, deliveries: int) -> bytes:
    """A row of XPENDING."""
    return array(bulk(entry_id), bulk(consumer), integer(idle_ms), integer(deliveries))


def filled(*ids: str, origin: int = 1) -> Region:
    region = Region(origin)
    for entry_id in ids:
        assert region.line(f"XADD s {entry_id} f v") == bulk(entry_id)
    return region


def grouped(*ids: str) -> Region:
    """A stream `s` with these entries and a group `g` that starts before them."""
    region = filled(*ids)
    assert region.line("XGROUP CREATE s g 0 MKSTREAM") == OK
    return region


def group_of(region: Region, name: bytes = b"g", key: bytes = b"s") -> Group:
    stream = region.replica.keyspace.find((0, key))
    assert stream is not None
    return stream.groups[name]


def sync(*regions: Region) -> None:
    """Let every region apply what the others prepared, until nobody has anything to say."""
    while batches := [batch for region in regions if (batch := prepared(region)) is not None]:
        for batch in batches:
            for region in regions:
                if batch.origin != region.replica.applied.origin:
                    region.replica.apply_batch(batch)
    for region in regions:
        region.wake()
        region.check()


def prepared(region: Region) -> Batch | None:
    region.replica.acknowledge_all()
    return region.replica.drain().batch
