"""The tail against a naive copy of the log: what it returns is what the log has, and what it keeps is bounded."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from crdtstream.protocols.log_port import LogRecord
from crdtstream.storage.log import NotRetained, open_log
from crdtstream.storage.tail import TAIL_BYTES_MAX, Tail
from simulations.disk import SimulatedDisk
from tests.storage.logs import opened

# Four records or so.
SMALL_BYTES = 200

turns = st.lists(st.binary(max_size=9), min_size=1, max_size=8)
limits = st.one_of(st.integers(0, 60), st.just(10_000))


class LogMachine(RuleBasedStateMachine):
    """A log of small segments, some of them deleted, and one reader that keeps up as long as it likes."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = SimulatedDisk()
        self.log, _ = opened(self.disk, SMALL_BYTES)
        self.written: list[LogRecord] = []
        self.reached = 0

    @rule(turn=turns)
    def append(self, turn: list[bytes]) -> None:
        self.log.append([(7, payload) for payload in turn])
        self.written += [(len(self.written) + at, 7, payload) for at, payload in enumerate(turn, 1)]

    @precondition(lambda self: self.reached < len(self.written))
    @rule(bytes_max=limits)
    def read_on(self, bytes_max: int) -> None:
        self.reached = max(self.reached, self.log.first_position - 1)
        found = self.read(self.reached + 1, bytes_max)
        self.reached += len(found)

    @rule(turn=turns, bytes_max=limits)
    def keep_up(self, turn: list[bytes], bytes_max: int) -> None:
        self.read_on(10_000)
        self.append(turn)
        self.read_on(bytes_max)

    @precondition(lambda self: self.written)
    @rule(back=st.integers(1, 40), bytes_max=limits)
    def read_anywhere(self, back: int, bytes_max: int) -> None:
        position = max(1, len(self.written) + 1 - back)
        if position < self.log.first_position:
            with pytest.raises(NotRetained):
                self.log.read(position, bytes_max)
        else:
            self.read(position, bytes_max)

    def read(self, position: int, bytes_max: int) -> list[LogRecord]:
        """From memory there are no segments; from disk a read ends with its segment."""
        found = self.log.read(position, bytes_max)
        end = min([first for first in self.log.segment_firsts() if first > position], default=len(self.written) + 1)
        ends = (end - 1, len(self.written))
        assert found in [fitting(self.written[position - 1 : each], bytes_max) for each in ends]
        return found

    @rule(back=st.integers(-2, 30))
    def truncate(self, back: int) -> None:
        self.log.sync()
        self.log.truncate_before(len(self.written) - back)

    @rule(bytes_max=st.sampled_from([0, 50, 1 << 20]))
    def reopen(self, bytes_max: int) -> None:
        first = self.log.first_position
        self.log, kept = opened(self.disk, SMALL_BYTES, first)
        self.log.limit_tail(bytes_max)
        assert kept == [(kind, payload) for _, kind, payload in self.written[first - 1 :]]

    @invariant()
    def sound(self) -> None:
        self.log.check()
        assert self.log.damages == []


LogMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=40)
TestLogReadsTheSameWithAndWithout = LogMachine.TestCase


def fitting(records: list[LogRecord], bytes_max: int) -> list[LogRecord]:
    """As many of the first ones as have at most so many bytes, but at least one."""
    count = 1
    while count < len(records) and sum(len(payload) for _, _, payload in records[: count + 1]) <= bytes_max:
        count += 1
    return records[:count]


def test_nothing_is_kept_until_somebody_follows() -> None:
    tail = Tail()
    tail.record(1, [(1, b"a")])
    assert tail.read(1, 100) == []
    tail.follow()
    tail.record(2, [(1, b"b"), (2, b"c")])
    assert tail.read(1, 100) == [] and tail.read(2, 100) == [(2, 1, b"b"), (3, 2, b"c")]
    tail.check(3)


def test_a_read_drops_what_comes_before_it() -> None:
    tail = Tail()
    tail.follow()
    tail.record(1, [(1, b"%d" % number) for number in range(10)])
    assert tail.read(5, 2) == [(5, 1, b"4"), (6, 1, b"5")]
    assert tail.read(4, 2) == []
    assert tail.read(5, 0) == [(5, 1, b"4")]
    tail.check(10)


def test_who_stops_reading_is_waited_for_only_so_long() -> None:
    tail = Tail()
    tail.follow()
    tail.record(1, [(1, bytes(TAIL_BYTES_MAX))])
    tail.check(1)
    assert tail.read(1, 1) == [(1, 1, bytes(TAIL_BYTES_MAX))]
    tail.record(2, [(1, b"x")])
    tail.record(3, [(1, b"y")])
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


def test_a_log_keeps_no_more_than_its_limit() -> None:
    disk = Counting()
    log = open_log(disk, lambda *_: None, salt=1)
    log.limit_tail(2)
    log.append([(1, b"a")])
    log.read(1, 100)
    log.append([(1, b"bcd")])
    reads = disk.reads
    assert log.read(2, 100) == [(2, 1, b"bcd")] and disk.reads > reads
