"""Scripts of requests with the lengths of their replies, which must fit exactly or a driver waits for ever."""

from __future__ import annotations

from benchmarks.load.wire import command
from benchmarks.rows.reads import PAGES_A_STEP, Page, delivery_script, range_script

PAGES = [Page([b"%d-1" % i, b"%d-2" % i], 100 + i) for i in range(1, 6)]


def test_ranges_ask_for_some_pages_at_a_time() -> None:
    steps = range_script("k", PAGES)
    assert [reply_bytes for _, reply_bytes in steps] == [101 + 102 + 103 + 104, 105]
    assert steps[0][0].count(b"XRANGE") == PAGES_A_STEP
    assert steps[1][0] == command("XRANGE", "k", "5-1", "+", "COUNT", 100)


def test_a_consumer_acknowledges_what_it_read_and_reads_on() -> None:
    wrapper_bytes = len(b"*1\r\n*2\r\n$1\r\nk\r\n")
    read = command("XREADGROUP", "GROUP", "readers", "consumer", "COUNT", 100, "STREAMS", "k", ">")
    first, *middle, last = delivery_script("k", PAGES)
    assert first == (read, wrapper_bytes + 101)
    assert [reply_bytes for _, reply_bytes in middle] == [6 + wrapper_bytes + 100 + i for i in range(2, 6)]
    assert middle[0][0] == command("XACK", "k", "readers", "1-1", "1-2") + read
    assert last == (command("XACK", "k", "readers", "5-1", "5-2"), 6)
