"""CRDT.MEMBERS and CRDT.EVICT."""

from __future__ import annotations

import pytest

from crdtstream.connections.cluster import PeerStatus
from crdtstream.core.members import ADMITTED, EVICTED, JOINED, PAST, SUCCEEDED, Members
from crdtstream.core.values.causality import VersionVector, origin_of
from tests.commands.harness import FakeAdmission, Region


class FakeRetention:
    def held_back(self, origin: int) -> int:
        return origin * 10


def region_of_four() -> Region:
    """This region, one that is linked, one that is gone after it came back once, and one that was only met."""
    region = Region()
    region.configure(name="east", region=1)
    region.context.cluster.retention = FakeRetention()
    region.line("XADD s 1-1 f v")
    region.neighbours.counts = {1: 0, 2: 0, 259: 1}
    joins = [(JOINED, 1, 2, 1, 0), (JOINED, 2, 1, 2, 0), (JOINED, 3, 1, 3, 0), (JOINED, 259, 2, 5, 0)]
    region.replica.applied.members = Members.of_rows([*joins, (EVICTED, 3, 2, 6, 8), (SUCCEEDED, 3, 2, 6, 259)])
    region.replica.applied.vector.advance(259, 4)
    region.progress.applied[2] = region.progress.durable[2] = VersionVector({1: 1, 259: 1})
    region.neighbours.shown = [PeerStatus(2, "west", "", "open", 3, 2), PeerStatus(4, "", "", "none", 0, 4)]
    return region


def rows_of(region: Region) -> dict[bytes, dict[bytes, bytes]]:
    reply = region.line("CRDT.MEMBERS")
    assert reply is not None
    lines = [line for line in reply.split(b"\r\n") if not line.startswith((b"*", b"$"))]
    rows: dict[bytes, dict[bytes, bytes]] = {}
    for start in range(0, len(lines) - 1, 24):
        fields = dict(zip(lines[start : start + 24 : 2], lines[start + 1 : start + 24 : 2], strict=True))
        rows[fields[b"origin"]] = fields
    return rows


def test_everyone_is_listed_with_what_is_kept_for_them() -> None:
    rows = rows_of(region_of_four())
    assert list(rows) == [b"1.0", b"2.0", b"3.0", b"3.1", b"4.0"]
    states = [row[b"state"] for row in rows.values()]
    assert states == [b"member", b"member", b"followed", b"member", b"newcomer"]
    assert [row[b"link"] for row in rows.values()] == [b"self", b"open", b"none", b"none", b"none"]
    assert [row[b"held-back-bytes"] for row in rows.values()] == [b":0", b":20", b":0", b":2590", b":40"]
    assert [row[b"lag"] for row in rows.values()] == [b":0", b":3", b":5", b":5", b":5"]
    assert rows[b"1.0"][b"durable-lag"] == b":5" and rows[b"3.1"][b"slot"] == b":259"
    assert [row[b"through"] for row in rows.values()] == [b":-1", b":-1", b":8", b":-1", b":-1"]
    assert [row[b"incarnation"] for row in rows.values()] == [b":0", b":0", b":-1", b":1", b":-1"]


def test_an_origin_is_called_by_its_region_and_the_rest_in_hexadecimal() -> None:
    region = region_of_four()
    far = origin_of(3, 0x1F3C08D29A4B71)
    region.replica.applied.members.apply_joined((2, 9), far)
    row = rows_of(region)[b"3.1f3c08d29a4b71"]
    assert (row[b"slot"], row[b"region"], row[b"state"]) == (b":%d" % far, b":3", b"member")
    assert region.line("CRDT.EVICT 3.1f3c08d29a4b71") == b"*2\r\n$16\r\n3.1f3c08d29a4b71\r\n:0\r\n"


def test_those_that_said_they_were_admitted_are_members_too() -> None:
    region = region_of_four()
    region.replica.applied.members = Members.of_rows(
        [(ADMITTED, 5, 0, 0, 1), (ADMITTED, 6, 0, 0, 1), (PAST, 6, 0, 0, 4)]
    )
    states = {name: row[b"state"] for name, row in rows_of(region).items()}
    assert states == {
        b"1.0": b"newcomer",
        b"2.0": b"newcomer",
        b"4.0": b"newcomer",
        b"5.0": b"member",
        b"6.0": b"followed",
    }


def test_a_region_without_an_origin_yet_lists_the_others() -> None:
    region = Region()
    region.replica.applied.origin = 0
    assert region.line("CRDT.MEMBERS") == b"*0\r\n"
    region.neighbours.shown = [PeerStatus(2, "west", "", "open", 3, 2), PeerStatus(3, "", "", "open", 3)]
    assert list(rows_of(region)) == [b"2.0"]


@pytest.mark.parametrize("word", ["3", "3.1"])
def test_a_region_or_an_origin_is_evicted(word: str) -> None:
    """Of a region those of its origins that have not ended."""
    region = region_of_four()
    assert region.line(f"CRDT.EVICT {word}") == b"*2\r\n$3\r\n3.1\r\n:4\r\n"
    rows = rows_of(region)
    assert [rows[name][b"state"] for name in (b"3.0", b"3.1")] == [b"followed", b"evicted"]
    assert rows[b"3.1"][b"through"] == b":4" and rows[b"3.1"][b"held-back-bytes"] == b":0"
    assert region.replica.applied.members.joined() == [1, 2]
    assert region.line(f"CRDT.EVICT {word}") == b"-ERR %b is already evicted\r\n" % word.encode()


def test_several_origins_of_a_region_go_at_once() -> None:
    region = region_of_four()
    region.replica.applied.members.apply_joined((2, 9), 515)
    assert region.line("CRDT.EVICT 3") == b"*4\r\n$3\r\n3.1\r\n:4\r\n$3\r\n3.2\r\n:0\r\n"


def test_one_that_was_followed_has_ended_already() -> None:
    assert region_of_four().line("CRDT.EVICT 3.0") == b"-ERR 3.0 is already evicted\r\n"


def test_a_region_that_is_in_no_cluster_evicts_nobody() -> None:
    region = region_of_four()
    admission = region.context.cluster.admission = FakeAdmission()
    admission.is_outside, prepared = True, region.replica.prepared
    assert (region.line("CRDT.EVICT 2 FORCE") or b"").startswith(b"-ERR this region belongs to no cluster yet")
    assert region.replica.prepared == prepared
    admission.is_outside = False
    assert b"no cluster" not in (region.line("CRDT.EVICT 2 FORCE") or b"")


def test_one_that_was_only_met_is_evicted_too() -> None:
    region = region_of_four()
    assert region.line("CRDT.EVICT 4") == b"*2\r\n$3\r\n4.0\r\n:0\r\n"
    assert rows_of(region)[b"4.0"][b"state"] == b"evicted"


@pytest.mark.parametrize("word", ["2", "west", "2.0"])
def test_who_is_linked_is_evicted_by_force_only(word: str) -> None:
    region = region_of_four()
    reply = region.line(f"CRDT.EVICT {word}")
    assert reply is not None and reply.startswith(b"-ERR region west is linked now") and b"FORCE" in reply
    assert region.replica.applied.members.joined() == [1, 2, 259] and region.replica.drain().batch is not None
    region.line(f"CRDT.EVICT {word} force")
    batch = region.replica.drain().batch
    assert batch is not None and len(batch.effects) == 1
    assert region.replica.applied.members.is_evicted(2)


@pytest.mark.parametrize("word", ["1", "east", "1.0", "1.7"])
def test_a_region_does_not_evict_itself(word: str) -> None:
    reply = region_of_four().line(f"CRDT.EVICT {word}")
    assert reply is not None and reply.startswith(b"-ERR region east (1) cannot evict itself")


@pytest.mark.parametrize("word", ["5", "south", "3.2", "0", "2.", ".", "99999999999", "-1"])
def test_who_is_unknown_is_named(word: str) -> None:
    reply = region_of_four().line(f"CRDT.EVICT {word}")
    assert reply is not None and reply.startswith(b"-ERR unknown member %b: " % word.encode())


def test_what_is_not_understood_is_refused() -> None:
    for text in ("CRDT.EVICT 3 NOW", "CRDT.EVICT 3 FORCE FORCE"):
        reply = region_of_four().line(text)
        assert reply is not None and reply.startswith(b"-ERR syntax error")


def test_a_region_that_this_process_never_met_is_evicted_by_name() -> None:
    region = region_of_four()
    region.neighbours.names = {3: "north"}
    assert rows_of(region)[b"3.1"][b"name"] == b"north"
    assert region.line("CRDT.EVICT north") == b"*2\r\n$3\r\n3.1\r\n:4\r\n"


def test_a_name_that_nobody_told_is_answered_with_what_to_give() -> None:
    region = region_of_four()
    region.neighbours.names = {4: "south"}
    reply = region.line("CRDT.EVICT north") or b""
    assert reply.endswith(b"; the name is not known here of region 3: give its number\r\n")


def test_a_name_of_two_regions_evicts_neither() -> None:
    region = region_of_four()
    region.neighbours.names = {3: "north", 4: "north"}
    prepared = region.replica.prepared
    reply = region.line("CRDT.EVICT north FORCE")
    assert reply == b"-ERR regions 3 and 4 are both named north: give a region's number\r\n"
    region.neighbours.names = {3: "east"}
    reply = region.line("CRDT.EVICT east FORCE")
    assert reply == b"-ERR regions 1 and 3 are both named east: give a region's number\r\n"
    assert region.replica.prepared == prepared
