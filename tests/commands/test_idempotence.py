"""Idempotent adds: repetitions, what is remembered for how long, and in which region."""

from __future__ import annotations

import pytest

from crdtstream.commands.idempotence import name_of_content
from crdtstream.settings.config import Limits
from tests.commands.group_region import OK, array, bulk, integer, sync
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


def test_another_region_does_not_know() -> None:
    one, two = Region(), Region(2)
    add(one, "IDMP p a")
    sync(one, two)
    add(two, "IDMP p a")
    sync(one, two)
    assert one.line("XLEN s") == two.line("XLEN s") == integer(2)
    assert told(two, "iids-added") == integer(1)


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
