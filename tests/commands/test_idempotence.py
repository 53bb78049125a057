"""Idempotent adds: repetitions, what is remembered for how long, and in which region."""

from __future__ import annotations

import pytest

from crdtstream.commands.idempotence import name_of_content
from crdtstream.core.deferred_work import DeferredWork
from crdtstream.core.names.duplicates import remove_all_lost
from crdtstream.core.values.entry_id import format_id
from crdtstream.settings.config import Limits
from tests.commands.group_region import NILA, OK, array, bulk, integer, sync
from tests.commands.harness import Region


def add(region: Region, how: str, fields: str = "f v") -> bytes:
    reply = region.line(f"XADD s {how} * {fields}")
    assert reply is not None
    return reply


def told(region: Region, field: str) -> bytes:
    """What XINFO STREAM says, up to the next field."""
    reply = region.line("XINFO STREAM s")
    assert reply is not None
    return reply.split(bulk(field))[1].split(b"$")[0]


@pytest.fixture
def region() -> Region:
    return Region()


def test_a_repetition_answers_with_the_first_id(region: Region) -> None:
    first = add(region, "IDMP p a")
    later = region.replica.keyspace.now_ms = region.context.now_ms + 99_999
    assert add(region, "IDMP p a", "g w") == first
    assert add(region, "NOMKSTREAM idmp p a MAXLEN 0") == first
    assert add(region, "IDMP p b") == add(region, "IDMP p b") == bulk(f"{later}-0")
    assert add(region, "IDMP q a") != first
    assert region.line("XLEN s") == integer(3)
    counts = [told(region, field) for field in ("pids-tracked", "iids-tracked", "iids-added", "iids-duplicates")]
    assert counts == [integer(2), integer(3), integer(3), integer(3)]


def test_a_record_expires(region: Region) -> None:
    first = add(region, "IDMP p a")
    region.replica.keyspace.now_ms += 100_000
    assert told(region, "iids-tracked") == integer(0)
    assert add(region, "IDMP p a") != first
    assert (told(region, "iids-tracked"), told(region, "iids-added")) == (integer(1), integer(2))


def test_the_oldest_record_leaves() -> None:
    region = Region(limits=Limits(stream_idmp_entries_max=2))
    first, second = add(region, "IDMP p 1"), add(region, "IDMP p 2")
    add(region, "IDMP p 3")
    assert add(region, "IDMP p 2") == second
    assert add(region, "IDMP p 1") != first


def test_the_content_is_the_name(region: Region) -> None:
    first = add(region, "IDMPAUTO p", "f v g w")
    assert add(region, "IDMPAUTO p", "g w f v") == first
    assert add(region, "IDMPAUTO p", "f w g v") != first
    assert add(region, "IDMPAUTO q", "f v g w") != first


def test_names_of_contents_differ() -> None:
    contents = [[b"a", b"bc"], [b"ab", b"c"], [b"a", b"b", b"a", b"b"], [b"x", b"y", b"x", b"y"], [b"", b""]]
    assert len({name_of_content(fields) for fields in contents}) == len(contents)


def test_an_entry_that_was_deleted_is_not_added_again(region: Region) -> None:
    first = add(region, "IDMP p a")
    region.line("XTRIM s MAXLEN 0")
    assert add(region, "IDMP p a") == first
    region.line("DEL s")
    region.replica.keyspace.now_ms += 1
    assert add(region, "IDMP p a") != first


def test_settings_of_a_stream(region: Region) -> None:
    first = add(region, "IDMP p a")
    assert region.line("XCFGSET s IDMP-DURATION 100") == OK
    assert add(region, "IDMP p a") == first
    assert region.line("XCFGSET s idmp-maxsize 7 idmp-duration 5") == OK
    assert (told(region, "idmp-duration"), told(region, "idmp-maxsize")) == (integer(5), integer(7))
    assert told(region, "iids-tracked") == integer(0)
    second = add(region, "IDMP p a")
    assert second != first
    region.replica.keyspace.now_ms += 5_000
    assert add(region, "IDMP p a") != second


def test_records_are_restored(region: Region) -> None:
    region.line("XADD s 1-1 f v")
    region.line("XADD s 1-2 f v")
    assert region.line("XIDMPRECORD s p a 1-1") == OK
    assert told(region, "iids-added") == integer(1)
    assert add(region, "IDMP p a") == bulk("1-1")
    other = b"-ERR IID already exists for this producer with a different stream ID\r\n"
    assert region.line("XIDMPRECORD s p a 1-2") == other
    assert region.run("XIDMPRECORD", "s", "p", "", "1-1") == b"-ERR idempotent ID must be non-empty\r\n"


def resolve(*regions: Region) -> None:
    """Exchange what regions have, and what follows where adds met."""
    for _ in range(2):
        sync(*regions)
        for region in regions:
            remove_all_lost(region.replica, DeferredWork(region.replica))
    sync(*regions)


def test_another_region_knows() -> None:
    one, two = Region(), Region(2)
    first = add(one, "IDMP p a")
    sync(one, two)
    assert add(two, "IDMP p a") == first
    sync(one, two)
    assert one.line("XLEN s") == two.line("XLEN s") == integer(1)
    assert (told(two, "iids-added"), told(two, "iids-duplicates")) == (integer(1), integer(1))


def test_an_older_region_in_the_cluster_leaves_names_local() -> None:
    one, two = Region(), Region(2)
    one.neighbours.formats[2] = two.neighbours.formats[2] = 3
    first = add(one, "IDMP p a")
    assert add(one, "IDMP p a") == first
    sync(one, two)
    add(two, "IDMP p a")
    sync(one, two)
    assert one.line("XLEN s") == two.line("XLEN s") == integer(2)
    assert one.replica.applied.format_version == 0


def test_of_two_regions_one_add_stays() -> None:
    one, two = Region(id_mode="strict"), Region(2, id_mode="strict")
    two.replica.residue = 2
    first, second = add(one, "IDMP p a"), add(two, "IDMP p a")
    assert first != second
    resolve(one, two)
    for region in (one, two):
        assert region.line("XLEN s") == integer(1)
        assert add(region, "IDMP p a") == first
        assert region.run("XDEL", "s", second.split(b"\r\n")[1]) == integer(0)
    kept = two.replica.applied.conflicts.counts
    assert kept["name-added-twice"] == 1


def group_of_both(id_of: str = "0") -> tuple[Region, Region, str, str]:
    """Two regions that both have a group, and an entry each under one name; the IDs, the survivor's first."""
    one, two = Region(id_mode="strict"), Region(2, id_mode="strict")
    two.replica.residue = 2
    one.line(f"XGROUP CREATE s g {id_of} MKSTREAM")
    sync(one, two)
    first, second = add(one, "IDMP p a"), add(two, "IDMP p a")
    for region in (one, two):
        region.line("XREADGROUP GROUP g c COUNT 1 STREAMS s >")
    return one, two, first.split(b"\r\n")[1].decode(), second.split(b"\r\n")[1].decode()


def pending(region: Region) -> list[str]:
    group = region.replica.keyspace.databases[0][b"s"].groups[b"g"]
    rows = group.pending.rows((0, 0), (2**64 - 1, 2**64 - 1), -1, None)
    return [format_id(row.entry_id).decode() for row in rows]


def test_what_was_acknowledged_of_a_lost_entry_counts_for_the_other() -> None:
    """Also if it was removed before the other one arrived."""
    one, two, first, second = group_of_both()
    assert two.line(f"XACK s g {second}") == integer(1)
    assert two.line(f"XDEL s {second}") == integer(1)
    two.replica.acknowledge_all()
    resolve(one, two)
    assert pending(one) == pending(two) == []
    assert two.line("XREADGROUP GROUP g c STREAMS s >") == NILA
    assert one.line(f"XRANGE s {first} {first}") != b"*0\r\n"


def test_a_lost_entry_is_acknowledged_later() -> None:
    one, two, first, second = group_of_both()
    resolve(one, two)
    assert (pending(one), pending(two)) == ([first], [second])
    assert two.line(f"XACK s g {second}") == integer(1)
    two.replica.acknowledge_all()
    sync(one, two)
    assert pending(one) == pending(two) == []
    assert two.line("XREADGROUP GROUP g c STREAMS s >") == NILA


def test_a_lost_entry_that_is_pending_does_not_stop_the_other() -> None:
    one, two, first, second = group_of_both()
    resolve(one, two)
    assert two.line("XREADGROUP GROUP g d STREAMS s >") != NILA
    assert pending(two) == [first, second]
    # Acknowledged where the survivor is pending, which no consumer of the lost one knows.
    assert two.line(f"XACKDEL s g IDS 1 {second}") == array(integer(1))
    assert pending(two) == []


def test_in_the_other_region_the_id_of_what_is_lost_acknowledges_what_is_pending() -> None:
    one, two, _, second = group_of_both()
    resolve(one, two)
    assert one.line(f"XACK s g {second}") == integer(1)
    assert one.line(f"XACK s g {second}") == integer(0)
    assert pending(one) == []


def test_after_the_duration_both_entries_stay() -> None:
    one, two = Region(), Region(2)
    add(one, "IDMP p a")
    sync(one, two)
    two.replica.keyspace.now_ms += 100_000
    add(two, "IDMP p a")
    resolve(one, two)
    assert one.line("XLEN s") == two.line("XLEN s") == integer(2)


def test_a_name_that_is_too_large_with_its_entry() -> None:
    region = Region(limits=Limits(entry_bytes_max=100))
    assert region.line("XADD s IDMP p " + "n" * 100 + " * f v") == b"-ERR Elements are too large to be stored\r\n"
    assert region.line("EXISTS s") == integer(0)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("XADD s IDMP p a 5-* f v", "ERR syntax error, IDMP/IDMPAUTO can be used only with auto-generated IDs"),
        ("XADD s IDMPAUTO p IDMPAUTO p * f v", "ERR syntax error, IDMP/IDMPAUTO specified multiple times"),
        ("XCFGSET s IDMP-MAXSIZE 1 IDMP-MAXSIZE 1", "ERR IDMP-MAXSIZE specified multiple times"),
        ("XCFGSET s IDMP-DURATION", "ERR syntax error"),
        ("XCFGSET nokey IDMP-DURATION 0", "ERR no such key"),
        ("XCFGSET nokey IDMP-DURATION", "ERR no such key"),
        ("XCFGSET nokey", "ERR no such key"),
        ("XIDMPRECORD s p a x", "ERR Invalid stream ID specified as stream command argument"),
    ],
)
def test_refused(region: Region, line: str, text: str) -> None:
    region.line("XADD s 1-1 f v")
    assert region.line(line) == b"-%b\r\n" % text.encode()


@pytest.mark.parametrize(("producer", "name"), [("", "i"), ("p", ""), ("", "")])
def test_the_invalid_id_of_a_record_is_found_first(region: Region, producer: str, name: str) -> None:
    invalid = b"-ERR Invalid stream ID specified as stream command argument\r\n"
    assert region.run("XIDMPRECORD", "s", producer, name, "1-") == invalid


def test_configuration(region: Region) -> None:
    for name in ("stream-idmp-duration", "stream-idmp-maxsize"):
        assert region.line(f"CONFIG GET {name}") == array(bulk(name), bulk("100"))
        assert region.line(f"CONFIG SET {name} 7") == OK
        assert region.line(f"CONFIG SET {name} 0") != OK
    assert region.line("CONFIG GET stream-idmp-maxsize") == array(bulk("stream-idmp-maxsize"), bulk("7"))
