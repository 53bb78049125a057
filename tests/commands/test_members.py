"""CRDT.MEMBERS and CRDT.EVICT."""

from __future__ import annotations

import pytest

from crdtstream.commands.context import Peer
from crdtstream.core.causality import Origin, VersionVector
from crdtstream.core.members import FOLLOWED, MemberRow, Members
from tests.commands.harness import Region


class FakeRetention:
    def held_back(self, slot: int) -> int:
        return slot * 10


def region_of_four() -> Region:
    """This region, one that is linked, one that is gone after it came back once, and one that was only met."""
    region = Region()
    region.context.about.name, region.context.about.region = "east", 1
    region.context.origin = Origin(1, 0, 7)
    region.context.retention = FakeRetention()
    region.line("XADD s 1-1 f v")
    region.replica.members = Members.of_rows([(1, 2, 1), (2, 1, 2), (3, 1, 3), (259, 2, 5)])
    region.replica.vector.advance(259, 4)
    region.progress.applied[2] = region.progress.durable[2] = VersionVector({1: 1, 259: 1})
    region.context.peers = [Peer(2, "west", "", "open", 3, 2), Peer(4, "", "", "none", 0, 4)]
    return region


def rows_of(region: Region) -> dict[bytes, dict[bytes, bytes]]:
    reply = region.line("CRDT.MEMBERS")
    assert reply is not None
    lines = [line for line in reply.split(b"\r\n") if not line.startswith((b"*", b"$"))]
    rows: dict[bytes, dict[bytes, bytes]] = {}
    for start in range(0, len(lines) - 1, 20):
        fields = dict(zip(lines[start : start + 20 : 2], lines[start + 1 : start + 20 : 2], strict=True))
        rows[fields[b"origin"]] = fields
    return rows


def test_everyone_is_listed_with_what_is_kept_for_them() -> None:
    rows = rows_of(region_of_four())
    assert list(rows) == [b"1.0", b"2.0", b"3.0", b"3.1", b"4.0"]
    states = [row[b"state"] for row in rows.values()]
    assert states == [b"member", b"member", b"followed", b"member", b"newcomer"]
    assert [row[b"link"] for row in rows.values()] == [b"self", b"open", b"none", b"none", b"none"]
    assert [row[b"held-back-bytes"] for row in rows.values()] == [b":0", b":20", b":30", b":2590", b":40"]
    assert [row[b"lag"] for row in rows.values()] == [b":0", b":3", b":5", b":5", b":5"]
    assert rows[b"1.0"][b"durable-lag"] == b":5" and rows[b"3.1"][b"slot"] == b":259"
    assert {row[b"through"] for row in rows.values()} == {b":-1"}


@pytest.mark.parametrize("word", ["3", "3.1 3.0"])
def test_a_region_or_an_origin_is_evicted(word: str) -> None:
    region = region_of_four()
    if word == "3":
        assert region.line("CRDT.EVICT 3") == b"*4\r\n$3\r\n3.0\r\n:0\r\n$3\r\n3.1\r\n:4\r\n"
    else:
        assert region.line("CRDT.EVICT 3.1") == b"*2\r\n$3\r\n3.1\r\n:4\r\n"
        assert region.line("CRDT.EVICT 3.0") == b"*2\r\n$3\r\n3.0\r\n:0\r\n"
    rows = rows_of(region)
    assert [rows[name][b"state"] for name in (b"3.0", b"3.1")] == [b"evicted", b"evicted"]
    assert rows[b"3.1"][b"through"] == b":4" and rows[b"3.1"][b"held-back-bytes"] == b":0"
    assert region.replica.members.joined() == [1, 2]
    assert region.line(f"CRDT.EVICT {word.split()[0]}") == b"-ERR %b was evicted already\r\n" % word.split()[0].encode()


def test_one_that_was_only_met_is_evicted_too() -> None:
    region = region_of_four()
    assert region.line("CRDT.EVICT 4") == b"*2\r\n$3\r\n4.0\r\n:0\r\n"
    assert rows_of(region)[b"4.0"][b"state"] == b"evicted"


@pytest.mark.parametrize("word", ["2", "west", "2.0"])
def test_who_is_linked_is_evicted_by_force_only(word: str) -> None:
    region = region_of_four()
    reply = region.line(f"CRDT.EVICT {word}")
    assert reply is not None and reply.startswith(b"-ERR region west is linked now") and b"FORCE" in reply
    assert region.replica.members.joined() == [1, 2, 3, 259] and region.replica.take().batch is not None
    region.line(f"CRDT.EVICT {word} force")
    batch = region.replica.take().batch
    assert batch is not None and len(batch.effects) == 1
    assert region.replica.members.is_evicted(2)


@pytest.mark.parametrize(("others", "refused"), [([], True), ([(3, 1, 3)], False)])
def test_an_eviction_that_leaves_nobody_who_may_admit_is_refused(others: list[MemberRow], refused: bool) -> None:
    """This origin follows a Join of region 2 that ends with region 2."""
    region = region_of_four()
    own = [(1, 2, 1), (1, FOLLOWED + 2, 1), (1, FOLLOWED, 1)]
    region.replica.members = Members.of_rows([(2, 1, 2), *own, *others])
    reply = region.line("CRDT.EVICT 2 FORCE")
    assert reply is not None
    assert reply.startswith(b"-ERR region 2 has admitted this origin, 1.0") == refused
    assert region.replica.members.is_evicted(2) != refused


@pytest.mark.parametrize("word", ["1", "east", "1.0", "1.7"])
def test_a_region_does_not_evict_itself(word: str) -> None:
    reply = region_of_four().line(f"CRDT.EVICT {word}")
    assert reply is not None and reply.startswith(b"-ERR region east (1) cannot evict itself")


@pytest.mark.parametrize("word", ["5", "south", "3.2", "0", "2.", ".", "99999999999", "-1"])
def test_who_is_unknown_is_named(word: str) -> None:
    reply = region_of_four().line(f"CRDT.EVICT {word}")
    assert reply is not None and reply.startswith(b"-ERR no member is called %b: " % word.encode())


def test_what_is_not_understood_is_refused() -> None:
    for text in ("CRDT.EVICT 3 NOW", "CRDT.EVICT 3 FORCE FORCE"):
        reply = region_of_four().line(text)
        assert reply is not None and reply.startswith(b"-ERR syntax error")


def test_an_applicant_creates_no_group() -> None:
    region = region_of_four()
    region.context.applicant = True
    reply = region.line("XGROUP CREATE s g 0")
    assert reply is not None and reply.startswith(b"-TRYAGAIN this region came back as a new origin")
    region.context.applicant = False
    assert region.line("XGROUP CREATE s g 0") == b"+OK\r\n"
