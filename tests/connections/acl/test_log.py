"""The log of refusals: like ones of a minute are one entry, and what clients sent is shortened."""

from __future__ import annotations

from crdtstream.connections.acl.log import GROUPING_MS, TEXT_BYTES_MAX, AclLog, AclLogEntry


def entry(subject: bytes, now_ms: int = 0) -> AclLogEntry:
    return AclLogEntry("key", "toplevel", subject, b"b", b"id=%d" % now_ms, now_ms)


def test_refusals_that_repeat_are_counted() -> None:
    log = AclLog()
    for now_ms, subject in enumerate((b"a", b"b", b"a")):
        log.add(entry(subject, now_ms))
    assert [(one.subject, one.count, one.client, one.number) for one in log.entries] == [
        (b"a", 2, b"id=2", 0),
        (b"b", 1, b"id=1", 1),
    ]
    log.add(entry(b"a", GROUPING_MS + 3))
    newest = log.entries[0]
    assert (newest.subject, newest.count, newest.number) == (b"a", 1, 2)
    log.clear()
    assert log.entries == []


def test_the_log_is_bounded() -> None:
    log = AclLog()
    log.limit(2)
    for number in range(4):
        log.add(entry(b"%d" % number))
    assert [one.subject for one in log.entries] == [b"3", b"2"]
    log.limit(1)
    assert len(log.entries) == 1
    log.add(entry(b"x" * 5000))
    assert len(log.entries[0].subject) == TEXT_BYTES_MAX
    log.limit(0)
    log.add(entry(b"a"))
    assert log.entries == []
