"""Records of idempotent adds: what is found, what expires, and what has no room."""

from __future__ import annotations

from crdtstream.core.names.producers import Producers


def test_records_expire() -> None:
    producers = Producers()
    producers.record(b"p", b"a", (1, 0), 10)
    assert producers.find(b"p", b"a", 9) == (1, 0)
    assert producers.find(b"p", b"a", 10) is None
    assert producers.find(b"p", b"b", 0) is producers.find(b"q", b"a", 0) is None
    assert (producers.tracked(9), producers.tracked(10)) == ((1, 1), (0, 0))


def test_the_oldest_records_leave() -> None:
    producers = Producers()
    for number in range(5):
        producers.record(b"p", b"%d" % number, (number, 0), number)
    producers.forget(b"p", -1, 3)
    assert [row[1] for row in producers.rows()] == [b"2", b"3", b"4"]
    producers.forget(b"p", 3, 3)
    assert [row[1] for row in producers.rows()] == [b"4"]
    producers.check()


def test_producers_that_say_nothing_more_leave() -> None:
    producers = Producers()
    for at, producer in enumerate((b"p", b"q", b"p", b"r")):
        producers.record(producer, b"%d" % at, (at, 0), at)
    producers.forget(b"r", 1, 100)
    assert [row[0] for row in producers.rows()] == [b"p", b"p", b"r"]
    producers.check()


def test_rows_make_the_same_records() -> None:
    producers, twin = Producers(), Producers()
    for at, producer in enumerate((b"p", b"q", b"p")):
        producers.record(producer, b"%d" % at, (at, 0), at)
    for row in producers.rows():
        twin.record(*row)
    assert twin.rows() == producers.rows()
