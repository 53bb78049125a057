"""Rows of replies as values."""

from __future__ import annotations

from typing import Any

from crdtstream.observing.rows import consumer_rows, group_rows, link_rows, origin_rows, stream_row


def flat(**fields: Any) -> list[Any]:
    return [part for name, value in fields.items() for part in (name.replace("_", "-").encode(), value)]


def test_links() -> None:
    itself = flat(region=1, name=b"east", address=b"", link=b"self", silent_ms=0, lag=0, durable_lag=2)
    gone = flat(region=2, name=b"west", link=b"none", unlinked_ms=1500, reason=b"refused, because", lag=7)
    full = flat(region=3, name=b"north", link=b"open", lacking=b"disk", lacking_ms=9, redis_address=b"north:6379")
    one, two, three = link_rows([itself, gone, full])
    assert (one.is_linked, one.unlinked_ms, one.durable_lag) == (True, -1, 2)
    assert (two.is_linked, two.unlinked_ms, two.reason, two.lag) == (False, 1500, "refused, because", 7)
    assert (three.lacking, three.lacking_ms, three.redis_address, three.http_address) == ("disk", 9, "north:6379", "")


def test_origins() -> None:
    (row,) = origin_rows(
        [flat(origin=b"1.a", region=1, name=b"east", incarnation=2, state=b"member", held_back_bytes=5)]
    )
    assert (row.origin, row.incarnation, row.state, row.held_back_bytes) == ("1.a", 2, "member", 5)


def test_a_stream() -> None:
    row = stream_row(flat(length=2, entries_added=3, groups=1, first_entry=[b"1-1", []], last_entry=[b"2-1", []]))
    assert (row.length, row.first_id, row.last_id, row.entries_added, row.groups) == (2, "1-1", "2-1", 3, 1)
    empty = stream_row(flat(length=0, entries_added=3, groups=0, first_entry=None, last_entry=None))
    assert (empty.first_id, empty.last_id) == ("", "")


def test_groups_and_consumers_keep_their_names_as_bytes() -> None:
    (group,) = group_rows(
        [flat(name=b"\xff", consumers=1, pending=2, last_delivered_id=b"1-0", entries_read=None, lag=4)]
    )
    assert (group.name, group.pending, group.entries_read, group.lag) == (b"\xff", 2, None, 4)
    (consumer,) = consumer_rows([flat(name=b"c", pending=2, idle=10, inactive=-1)])
    assert (consumer.name, consumer.pending, consumer.idle_ms, consumer.inactive_ms) == (b"c", 2, 10, -1)
