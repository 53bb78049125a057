"""Retention over regions: each removes what it wrote, by its own clock, and nobody asks it to."""

from __future__ import annotations

from itertools import pairwise

import pytest

from crdtstream.core.values.entry_id import LIBERAL
from crdtstream.protocols.codec import FORMAT_VERSION
from crdtstream.replication.links.greeting import Versions
from crdtstream.scenarios.reply import read_reply
from crdtstream.settings.config import Limits
from simulations.cluster import Cluster
from tests.state_transfers import assert_equal, cut_log, settle

TAKEOVER_MS = 60_000
LIMITS = Limits(
    segment_bytes_max=150,
    message_bytes=150,
    window_bytes=500,
    peer_timeout_ms=1 << 40,
    client_idle_s_max=0,
    retention_takeover_ms=TAKEOVER_MS,
)


def say(cluster: Cluster, number: int, line: str) -> object:
    return read_reply(cluster.execute(number, line.encode().split()) or b"")


def formed(regions: int = 2, line: str = "") -> Cluster:
    """Regions that each wrote three entries, region 1 before region 2, and a stream with these properties."""
    cluster = Cluster(regions, LIBERAL, limits=LIMITS)
    settle(cluster)
    for number in range(1, regions + 1):
        for _ in range(3):
            cluster.now_ms += 1
            say(cluster, number, f"XADD s * region {number}")
    cluster.sync()
    if line:
        assert say(cluster, 1, f"CRDT.STREAM SET s {line}") == "OK"
        cluster.sync()
    return cluster


def pass_ms(cluster: Cluster, time_ms: int, step_ms: int = 200) -> None:
    """A region that serves looks at the time often; a larger step counts as a pause."""
    for _ in range(time_ms // step_ms):
        cluster.tick(step_ms)
        cluster.sync()


def writers(cluster: Cluster, number: int) -> str:
    """The regions that wrote the entries which that region holds, in order."""
    found = say(cluster, number, "XRANGE s - +")
    assert isinstance(found, list)
    return "".join([fields[1] for _, fields in found])


def tick(cluster: Cluster, number: int) -> None:
    cluster.node(number).tick(cluster.now_ms)
    cluster.turn(number)


def ticked(cluster: Cluster, *numbers: int) -> None:
    for _ in range(3):
        for number in numbers or sorted(cluster.machines):
            tick(cluster, number)
        cluster.sync()


def test_age_is_measured_by_the_region_that_wrote() -> None:
    cluster = formed(2, "MAXAGE 1000")
    pass_ms(cluster, 800)
    assert writers(cluster, 1) == "111222"
    # The clock of region 1 is an hour fast.
    cluster.node(1).tick(cluster.now_ms + 3_600_000)
    cluster.turn(1)
    cluster.sync()
    assert writers(cluster, 2) == "222"
    pass_ms(cluster, 600)
    assert writers(cluster, 1) == writers(cluster, 2) == ""
    assert_equal(cluster)


def test_regions_remove_together_what_exceeds_a_length() -> None:
    cluster = formed(2, "MAXLEN 2")
    ticked(cluster, 1)
    assert writers(cluster, 1) == "222", "the fourth is for region 2 to remove"
    ticked(cluster)
    assert writers(cluster, 1) == writers(cluster, 2) == "22"
    assert_equal(cluster)


def test_a_size_is_that_of_the_entries_as_replies() -> None:
    cluster = formed(2)
    rows = say(cluster, 1, "CRDT.STREAM SHOW s")
    assert isinstance(rows, list)
    size = sum([row[row.index("bytes") + 1] for row in rows])
    say(cluster, 1, f"CRDT.STREAM SET s MAXBYTES {size}")
    ticked(cluster)
    assert writers(cluster, 1) == "111222"
    say(cluster, 1, f"CRDT.STREAM SET s MAXBYTES {size - 1}")
    ticked(cluster)
    assert writers(cluster, 1) == writers(cluster, 2) == "11222"


def test_limits_that_are_off_remove_nothing() -> None:
    cluster = formed(2, "MAXLEN 2 MAXAGE 1000")
    say(cluster, 2, "CRDT.STREAM SET s MAXLEN 0 MAXAGE NONE")
    cluster.sync()
    pass_ms(cluster, 2_000)
    assert writers(cluster, 1) == "111222"
    assert not cluster.node(1).replica.keyspace.retained.keys


# ACKED


def test_acked_without_a_group_removes_nothing() -> None:
    cluster = formed(2, "MAXLEN 1 ACKED")
    ticked(cluster)
    assert writers(cluster, 1) == "111222"
    say(cluster, 1, "XGROUP CREATE s g $")
    cluster.sync()
    ticked(cluster)
    assert writers(cluster, 1) == writers(cluster, 2) == "2"
    say(cluster, 1, "CRDT.STREAM SET s MAXLEN NONE")
    say(cluster, 1, "XADD s * region 1")
    say(cluster, 1, "XGROUP DESTROY s g")
    cluster.sync()
    ticked(cluster)
    assert writers(cluster, 1) == "21", "the destruction of the only group empties nothing"


def test_acked_keeps_what_a_group_needs() -> None:
    cluster = formed(2)
    say(cluster, 1, "XGROUP CREATE s g 0")
    read = say(cluster, 1, "XREADGROUP GROUP g c STREAMS s >")
    assert isinstance(read, list)
    ids = [entry[0] for entry in read[0][1]]
    say(cluster, 1, f"XACK s g {ids[0]} {ids[2]} {ids[3]}")
    say(cluster, 1, "CRDT.STREAM SET s ACKED")
    cluster.sync()
    ticked(cluster)
    # Region 2 knows of acknowledgements only as far as nothing before them is pending.
    assert writers(cluster, 1) == writers(cluster, 2) == "122"
    say(cluster, 1, f"XACK s g {' '.join(ids)}")
    cluster.sync()
    ticked(cluster)
    assert writers(cluster, 1) == writers(cluster, 2) == ""
    assert_equal(cluster)


def test_a_group_behind_a_cut_is_not_known() -> None:
    cluster = formed(2)
    say(cluster, 1, "XGROUP CREATE s g $")
    say(cluster, 1, "CRDT.STREAM SET s MAXLEN 3 ACKED")
    cluster.sync()
    cluster.cut(1, 2)
    say(cluster, 2, "XGROUP CREATE s late 0")
    ticked(cluster, 1)
    cluster.heal(1, 2)
    settle(cluster)
    got = say(cluster, 2, "XREADGROUP GROUP late c STREAMS s >")
    assert isinstance(got, list) and len(got[0][1]) == 3, "what region 1 had removed before is not read"
    assert_equal(cluster)


# Partitions, and regions that are gone


def test_limits_hold_during_a_partition_as_far_as_a_region_knows() -> None:
    cluster = formed(2, "MAXLEN 4")
    ticked(cluster)
    assert writers(cluster, 1) == "1222"
    cluster.cut(1, 2)
    for _ in range(6):
        cluster.now_ms += 1
        say(cluster, 1, "XADD s * region 1")
    ticked(cluster, 1)
    assert writers(cluster, 1) == "2221111", "those of region 2 are not its own"
    pass_ms(cluster, TAKEOVER_MS + 1_000)
    assert writers(cluster, 1) == "1111", "now region 2 is silent"
    cluster.heal(1, 2)
    settle(cluster)
    ticked(cluster)
    assert writers(cluster, 1) == writers(cluster, 2) == "1111"
    assert_equal(cluster)


def test_the_lowest_linked_region_removes_for_one_that_left() -> None:
    cluster = formed(3, "MAXAGE 1000")
    for other in (1, 2):
        cluster.cut(other, 3)
    say(cluster, 2, "CRDT.EVICT region3 FORCE")
    cluster.sync(1, 2)
    cluster.now_ms += 5_000
    tick(cluster, 2)
    cluster.sync(1, 2)
    assert writers(cluster, 1) == "111333"
    tick(cluster, 1)
    cluster.sync(1, 2)
    assert writers(cluster, 1) == writers(cluster, 2) == ""


def test_late_entries_beyond_a_length_go_unread() -> None:
    cluster = formed(2, "MAXLEN 3")
    ticked(cluster)
    cluster.cut(1, 2)
    cluster.now_ms += 1
    say(cluster, 2, "XADD s * region 2")
    for _ in range(3):
        cluster.now_ms += 1
        say(cluster, 1, "XADD s * region 1")
    cluster.heal(1, 2)
    settle(cluster)
    ticked(cluster)
    assert writers(cluster, 1) == writers(cluster, 2) == "111"
    assert_equal(cluster)


# When nothing is removed, and when it still is


def test_a_region_that_drains_removes_nothing() -> None:
    cluster = formed(2, "MAXLEN 1")
    cluster.node(1).drain("stops")
    tick(cluster, 1)
    assert writers(cluster, 1) == "111222"


def test_paused_clients_see_no_removals() -> None:
    cluster = formed(1, "MAXLEN 1")
    assert say(cluster, 1, "CLIENT PAUSE 10000 WRITE") == "OK"
    cluster.tick(10)
    assert writers(cluster, 1) == "111"


@pytest.mark.parametrize("full", ["disk", "memory"])
def test_retention_frees_room_where_there_is_none(full: str) -> None:
    cluster = formed(1, "MAXLEN 1")
    node = cluster.node(1)
    if full == "disk":
        node.writable(False, removal_bytes=1 << 20)
    else:
        node.standing.memory_short = True
    node.tick(cluster.now_ms)
    assert node.replica.keyspace.databases[0][b"s"].length == 1


def test_limits_are_set_where_memory_is_short() -> None:
    cluster = formed(1)
    cluster.node(1).standing.memory_short = True
    assert say(cluster, 1, "CRDT.STREAM SET s MAXLEN 1") == "OK"
    tick(cluster, 1)
    assert cluster.node(1).replica.keyspace.databases[0][b"s"].length == 1


def test_a_full_disk_without_a_reserve_is_left_alone() -> None:
    node = formed(1, "MAXLEN 1").node(1)
    node.writable(False, removal_bytes=0)
    node.tick(0)
    assert node.replica.keyspace.databases[0][b"s"].length == 3


def test_a_tick_removes_a_bounded_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crdtstream.region.retaining.ENTRIES_A_TICK", 2)
    monkeypatch.setattr("crdtstream.region.retaining.ENTRIES_A_STREAM", 2)
    cluster = formed(1, "MAXLEN 1")
    node = cluster.node(1)
    for number in range(5):
        say(cluster, 1, f"XADD t * f {number}")
    lengths = []
    say(cluster, 1, "CRDT.STREAM SET t MAXLEN 1")
    for _ in range(8):
        node.tick(cluster.now_ms)
        lengths.append(sum([stream.length for _, stream in node.replica.keyspace.streams()]))
    assert lengths[-1] == 2, lengths
    assert all(before - after <= 2 for before, after in pairwise(lengths))


def test_what_was_removed_is_counted_by_reason() -> None:
    cluster = formed(1, "MAXLEN 2")
    cluster.tick(10)
    info = cluster.execute(1, [b"INFO", b"stats"]) or b""
    assert b"retention_maxlen_entries:1\r\n" in info and b"retention_maxage_entries:0\r\n" in info
    assert b"retention_maxlen_bytes:0\r\n" not in info


# What the properties survive


def test_they_survive_a_restart_a_state_transfer_and_a_copy() -> None:
    cluster = formed(2, "MAXAGE 5000 ACKED")
    cluster.restart(2)
    assert say(cluster, 2, "CRDT.STREAM GET s") == say(cluster, 1, "CRDT.STREAM GET s")
    settle(cluster)
    cluster.cut(1, 2)
    say(cluster, 1, "CRDT.STREAM SET s MAXLEN 7")
    cut_log(cluster, 1)
    settle(cluster)
    found = ["maxage", 5000, "maxbytes", 0, "maxlen", 7, "acked", "yes"]
    assert say(cluster, 2, "CRDT.STREAM GET s") == found
    assert cluster.node(2).replica.applied.format_version == FORMAT_VERSION
    say(cluster, 2, "COPY s t")
    say(cluster, 2, "RENAME s u")
    cluster.sync()
    assert say(cluster, 1, "CRDT.STREAM GET t") == say(cluster, 1, "CRDT.STREAM GET u") == found
    assert_equal(cluster)


def test_they_end_with_the_key() -> None:
    cluster = formed(2, "MAXLEN 2")
    say(cluster, 2, "DEL s")
    say(cluster, 2, "XADD s * f v")
    cluster.sync()
    assert say(cluster, 1, "CRDT.STREAM GET s") == ["maxage", 0, "maxbytes", 0, "maxlen", 0, "acked", "no"]
    say(cluster, 1, "CRDT.STREAM SET s MAXLEN 2")
    say(cluster, 1, "FLUSHALL")
    cluster.sync()
    assert not cluster.node(2).replica.keyspace.retained.keys
    assert_equal(cluster)


# Bad input


BOUNDS = "from 1000 to 3153600000000, or 0 or NONE for no limit"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("s COLOUR RED", "ERR unknown property 'COLOUR' of a stream: use MAXAGE, MAXBYTES, MAXLEN, ACKED"),
        ("s", "ERR wrong number of arguments"),
        ("s MAXAGE", f"ERR property MAXAGE takes milliseconds, {BOUNDS}"),
        ("s ACKED MAXAGE", f"ERR property MAXAGE takes milliseconds, {BOUNDS}"),
        ("s MAXAGE 999", f"ERR property MAXAGE takes milliseconds, {BOUNDS}"),
        ("s MAXAGE 3153600000001", "ERR property MAXAGE takes milliseconds"),
        ("s MAXBYTES -1", "ERR property MAXBYTES takes bytes, from 1 to 4611686018427387904, or 0 or NONE"),
        ("s MAXLEN x", "ERR property MAXLEN takes entries, from 1 to 4611686018427387904, or 0 or NONE"),
        ("s MAXLEN 99999999999999999999999999", "ERR property MAXLEN takes entries"),
        ("s MAXLEN 1 MAXLEN 2", "ERR MAXLEN is given twice"),
        ("s ACKED MAYBE", "ERR unknown property 'MAYBE' of a stream"),
        ("none MAXLEN 1", "ERR CRDT.STREAM SET requires the key to exist"),
    ],
)
def test_bad_input_changes_nothing(line: str, text: str) -> None:
    cluster = formed(1)
    before = cluster.node(1).replica.applied.vector.copy()
    reply = cluster.execute(1, f"CRDT.STREAM SET {line}".encode().split()) or b""
    assert reply.startswith(b"-" + text.encode())
    assert cluster.node(1).replica.applied.vector == before


def test_get_of_a_key_that_does_not_exist() -> None:
    assert (formed(1).execute(1, [b"CRDT.STREAM", b"GET", b"none"]) or b"").startswith(b"-ERR no such key")


def test_get_replies_a_map() -> None:
    cluster = formed(1, "MAXLEN 5")
    cluster.execute(1, [b"HELLO", b"3"])
    assert (cluster.execute(1, [b"CRDT.STREAM", b"GET", b"s"]) or b"").startswith(b"%4\r\n$6\r\nmaxage\r\n:0\r\n")


def test_a_region_of_the_release_before_is_named() -> None:
    cluster = formed(2)
    cluster.cut(1, 2)
    cluster.restart(2)
    node = cluster.node(2)
    node.birth.reads_format = FORMAT_VERSION - 1
    node.exchange.view.versions = Versions(format=(FORMAT_VERSION - 1, FORMAT_VERSION - 1))
    settle(cluster)
    refusal = b"-ERR region region2 (2) cannot read properties of streams, because its release is older"
    assert (cluster.execute(1, b"CRDT.STREAM SET s MAXLEN 2".split()) or b"").startswith(refusal)
    settle(cluster)
    assert_equal(cluster)
