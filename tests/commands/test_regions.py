"""CRDT.REGIONS, CRDT.VECTOR, CRDT.DIGEST."""

from __future__ import annotations

from crdtstream.connections.cluster import PeerStatus, TransferShown
from crdtstream.core.spill_walk import PENDING_BYTES
from crdtstream.core.values.causality import VersionVector, origin_of
from crdtstream.observing.info import fields_of_info
from crdtstream.protocols.replies import bulk
from crdtstream.settings.config import Limits
from tests.commands.harness import Region
from tests.spilled_regions import fill, formed, say


def row(*items: bytes | int) -> bytes:
    return b"".join(bulk(item) if isinstance(item, bytes) else b":%d\r\n" % item for item in items)


def region_of_three() -> Region:
    region = Region()
    region.configure(name="east", region=1)
    region.line("XADD s 1-1 f v")
    region.progress.applied[2 + 256] = VersionVector({1: 1})
    region.neighbours.shown = [
        PeerStatus(2, "west", "h:1", "open", 3, 2 + 256),
        PeerStatus(3, "north", "h:2", "down", 50),
    ]
    return region


def test_regions() -> None:
    region = region_of_three()
    names = (b"region", b"name", b"origin", b"address", b"link", b"silent-ms", b"lag", b"durable-lag")
    values: list[tuple[bytes | int, ...]] = [
        (1, b"east", b"1.0", b"", b"self", 0, 0, 1),
        (2, b"west", b"2.1", b"h:1", b"open", 3, 0, 1),
        (3, b"north", b"", b"h:2", b"down", 50, 1, 1),
    ]
    rows = [row(*[part for pair in zip(names, some, strict=True) for part in pair]) for some in values]
    assert region.line("CRDT.REGIONS") == b"*3\r\n" + b"".join(b"*16\r\n" + one for one in rows)
    region.line("HELLO 3")
    assert region.line("CRDT.REGIONS") == b"*3\r\n" + b"".join(b"%8\r\n" + one for one in rows)


def test_a_state_transfer_is_shown_while_it_goes() -> None:
    region = region_of_three()
    region.neighbours.shown[0].transfer = TransferShown("receiving", 3, 2**40)
    reply = region.line("CRDT.REGIONS")
    assert reply is not None
    items = row(b"transfer", b"receiving", b"transfer-chunks", 3, b"transfer-bytes", 2**40)
    assert reply.count(items) == 1 and reply.count(b"*22\r\n") == 1 and reply.count(b"*16\r\n") == 2


def test_a_peer_that_is_not_linked_says_since_when_and_why() -> None:
    region = region_of_three()
    region.neighbours.shown[1].unlinked_ms, region.neighbours.shown[1].reason = 7_000, "the peer refused: no"
    reply = region.line("CRDT.REGIONS")
    assert reply is not None
    items = row(b"unlinked-ms", 7_000, b"reason", b"the peer refused: no")
    assert reply.count(items) == 1 and reply.count(b"*20\r\n") == 1 and reply.count(b"*16\r\n") == 2


def test_a_region_that_spills_names_what_it_cannot_spill() -> None:
    cluster = formed(2, Limits(peer_timeout_ms=1 << 40, client_idle_s_max=0, hot_bytes_max=1_000))
    fill(cluster, 1, "a", "b")
    say(cluster, 1, "XGROUP CREATE a g 0")
    say(cluster, 1, "XREADGROUP GROUP g c COUNT 7 STREAMS a >")
    walk = cluster.node(1).context.spilling.walk
    walk.begin(1_000)
    while walk.go_on(1_000):
        pass
    rows = say(cluster, 1, "CRDT.REGIONS")
    assert isinstance(rows, list)
    own, peer = (dict(zip(one[::2], one[1::2], strict=True)) for one in rows)
    assert own["hot-bytes-max"] == 1_000 < own["unspillable-bytes"] == own["hot-bytes"]
    assert own["last-blocks-bytes"] > 0 < own["unsaved-bytes"]
    assert own["last-blocks-bytes"] + own["unsaved-bytes"] == own["unspillable-bytes"]
    assert (own["trimmed-blocks-bytes"], own["pending-bytes"]) == (0, 7 * PENDING_BYTES)
    assert not any(name.endswith("-bytes") for name in peer)
    told = say(cluster, 1, "INFO memory")
    assert isinstance(told, str)
    info = fields_of_info(told.encode())
    assert int(info["hot_bytes_last_blocks"]) == own["last-blocks-bytes"]
    assert int(info["hot_bytes_unsaved"]) == own["unsaved-bytes"]
    assert int(info["pending_bytes"]) == own["pending-bytes"]


def test_vector() -> None:
    region = region_of_three()
    region.replica.applied.vector.advance(2 + 256, 2**53 + 1)
    region.neighbours.vector.advance(1, 1)
    applied, durable = row(b"1.0", 1, b"2.1", 2**53 + 1), row(b"1.0", 1)
    assert region.line("crdt.vector") == (
        b"*4\r\n" + bulk(b"applied") + b"*4\r\n" + applied + bulk(b"durable") + b"*2\r\n" + durable
    )
    region.line("HELLO 3")
    assert region.line("CRDT.VECTOR") == (
        b"%2\r\n" + bulk(b"applied") + b"%2\r\n" + applied + bulk(b"durable") + b"%1\r\n" + durable
    )


def test_origins_are_told_apart_in_hexadecimal() -> None:
    region = region_of_three()
    region.replica.applied.vector.advance(origin_of(2, 2**53 - 1), 1)
    region.neighbours.shown[0].origin = origin_of(2, 0xABC)
    shown = region.line("CRDT.VECTOR")
    assert shown is not None and bulk(b"2.1fffffffffffff") in shown
    shown = region.line("CRDT.REGIONS")
    assert shown is not None and bulk(b"2.abc") in shown


def test_digest() -> None:
    region, other = Region(), Region()
    for each in (region, other):
        each.line("XADD s 1-1 f v")
    assert region.line("CRDT.DIGEST s") == other.line("CRDT.DIGEST s")
    assert region.line("CRDT.DIGEST") == other.line("CRDT.DIGEST")
    reply = region.line("CRDT.DIGEST s")
    assert reply is not None and reply.startswith(b"$40\r\n") and len(bytes.fromhex(reply[5:45].decode())) == 20
    other.line("XADD s 2-1 f v")
    assert region.line("CRDT.DIGEST s") != other.line("CRDT.DIGEST s")
    assert region.line("CRDT.DIGEST") != other.line("CRDT.DIGEST")


def test_digest_of_an_absent_key() -> None:
    region = Region()
    assert region.line("CRDT.DIGEST s") == b"$-1\r\n"
    region.line("XADD s 1-1 f v")
    region.line("SELECT 1")
    assert region.line("CRDT.DIGEST s") == b"$-1\r\n"
    assert region.line("CRDT.DIGEST a b") == b"-ERR wrong number of arguments for 'crdt.digest' command\r\n"
