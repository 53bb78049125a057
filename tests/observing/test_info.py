"""INFO as values."""

from __future__ import annotations

from crdtstream.observing.info import fields_of_info, lacking, pairs_of, report_of, union, vector_of

REPLY = (
    b"# Server\r\ncrdtstream_version:0.2.0\r\nuptime_in_seconds:75\r\ncertificates_not_after:redis=9,http=7\r\n\r\n"
    b"# Memory\r\nused_memory:300\r\nmaxmemory:200\r\n\r\n"
    b"# Persistence\r\nloading_reason:\r\ndisk_full:1\r\ndisk_remedy:free space: now\r\nrdb_last_bgsave_status:ok\r\n"
    b"# Replication\r\nregion:2\r\nregion_name:west\r\norigin:2.ab\r\nadmitted:1\r\nvector:1.aa=7,2.ab=3\r\n"
    b"durable_vector:1.aa=7\r\n# Keyspace\r\ndb0:keys=3,expires=0,avg_ttl=0\r\ndb7:keys=2,expires=0,avg_ttl=0\r\n"
)


def test_a_report_is_read() -> None:
    report = report_of(fields_of_info(REPLY))
    assert (report.name, report.region, report.origin, report.version) == ("west", 2, "2.ab", "0.2.0")
    assert report.admitted and report.disk_full and report.memory_short and not report.checkpoint_failed
    assert (report.uptime_s, report.keys, report.disk_remedy) == (75, 5, "free space: now")
    assert report.certificates == {"redis": 9, "http": 7}
    assert (report.vector, report.durable) == ({"1.aa": 7, "2.ab": 3}, {"1.aa": 7})


def test_a_field_that_a_region_lacks_is_zero() -> None:
    report = report_of({})
    assert (report.name, report.region, report.vector, report.certificates, report.keys) == ("", 0, {}, {}, 0)
    assert not report.admitted and not report.memory_short


def test_no_limit_of_memory_is_not_reached() -> None:
    assert not report_of({"used_memory": "300", "maxmemory": "0"}).memory_short


def test_a_disk_is_nearly_full_before_it_is_full() -> None:
    fields = {"log_bytes": "64", "disk_reserve_bytes": "16", "disk_full": "0"}
    for free, nearly in (("0", False), ("1", True), ("159", True), ("160", False)):
        assert report_of(fields | {"disk_free_bytes": free}).disk_nearly_full == nearly, free
    assert not report_of(fields | {"disk_free_bytes": "1", "disk_full": "1"}).disk_nearly_full


def test_pairs_and_vectors() -> None:
    assert pairs_of("region=1,link=none,reason=a=b; c") == {"region": "1", "link": "none", "reason": "a=b; c"}
    assert vector_of("") == {}


def test_what_is_lacking_is_counted_for_each_origin() -> None:
    assert lacking({"1.a": 5, "2.b": 3, "3.c": 1}, {"1.a": 2, "2.b": 9}) == 3 + 0 + 1


def test_a_union_has_the_highest_counters() -> None:
    assert union([{"1.a": 3, "2.b": 1}, {"2.b": 4}]) == {"1.a": 3, "2.b": 4}
