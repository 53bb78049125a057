"""The tail against a naive copy of the log: what it returns is what the log has, and what it keeps is bounded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crdtstream.protocols.log_port import LogRecord
from crdtstream.storage.log import open_log
from crdtstream.storage.tail import TAIL_BYTES_MAX, Tail
from simulations.disk import SimulatedDisk

turns = st.lists(st.binary(max_size=9), min_size=1, max_size=4)
reads = st.tuples(st.integers(1, 30), st.integers(0, 20))


@given(st.lists(st.one_of(turns, reads), max_size=40))
def test_a_log_reads_the_same_with_and_without(steps: list[list[bytes] | tuple[int, int]]) -> None:
    log = open_log(SimulatedDisk(), lambda *_: None, salt=1)
    written: list[LogRecord] = []
    for step in steps:
        if isinstance(step, list):
            for payload in step:
                written.append((len(written) + 1, 7, payload))
            log.append([(7, payload) for payload in step])
        else:
            assert log.read(*step) == fitting(written[step[0] - 1 :], step[1])
        log.check()


def fitting(records: list[LogRecord], bytes_max: int) -> list[LogRecord]:
    """As many of the first ones as have at most so many bytes, but at least one."""
    count = 1
    while count < len(records) and sum(len(payload) for _, _, payload in records[: count + 1]) <= bytes_max:
        count += 1
    return records[:count]


def test_nothing_is_kept_until_somebody_follows() -> None:
    tail = Tail()
    tail.note(1, [(1, b"a")])
    assert tail.read(1, 100) == []
    tail.follow()
    tail.note(2, [(1, b"b"), (2, b"c")])
    assert tail.read(1, 100) == [] and tail.read(2, 100) == [(2, 1, b"b"), (3, 2, b"c")]
    tail.check(3)


def test_a_read_drops_what_comes_before_it() -> None:
    tail = Tail()
    tail.follow()
    tail.note(1, [(1, b"%d" % number) for number in range(10)])
    assert tail.read(5, 2) == [(5, 1, b"4"), (6, 1, b"5")]
    assert tail.read(4, 2) == []
    assert tail.read(5, 0) == [(5, 1, b"4")]
    tail.check(10)


def test_who_stops_reading_is_waited_for_only_so_long() -> None:
    tail = Tail()
    tail.follow()
    tail.note(1, [(1, bytes(TAIL_BYTES_MAX))])
    tail.check(1)
    assert tail.read(1, 1) == [(1, 1, bytes(TAIL_BYTES_MAX))]
    tail.note(2, [(1, b"x")])
    tail.note(3, [(1, b"y")])
    tail.check(3)
    assert tail.read(1, 1) == tail.read(2, 1) == [], "nobody has read for so long"


class Counting(SimulatedDisk):
    reads = 0

    def read(self, name: str, offset: int, length: int) -> bytes:
        self.reads += 1
        return super().read(name, offset, length)


def test_a_reader_that_keeps_up_needs_no_disk() -> None:
    disk = Counting()
    log = open_log(disk, lambda *_: None, salt=1)
    log.append([(1, b"a")])
    log.read(1, 100)
    reads = disk.reads
    log.append([(1, b"b")])
    assert log.read(2, 100) == [(2, 1, b"b")] and disk.reads == reads
    assert log.read(1, 100) == [(1, 1, b"a"), (2, 1, b"b")] and disk.reads > reads
