"""The size of messages follows what a link drains, whatever lies in the buffers below."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crdtstream.runtime.links.pace import BYTES_MIN, Pace

BYTES_MAX = 1 << 18
HEARTBEAT_MS = 1_000


class Pipe:
    """A link of a rate, below buffers that take a write at once while they have room, and return when half is gone."""

    def __init__(self, bytes_s: float, buffer_bytes: int) -> None:
        self._bytes_s = bytes_s
        self._buffer_bytes = buffer_bytes
        self._held = 0.0

    def write(self, byte_count: int) -> float:
        self._held += byte_count
        if self._held <= self._buffer_bytes:
            return 0.0
        drained = self._held - self._buffer_bytes / 2
        self._held -= drained
        return drained / self._bytes_s


def sizes(pace: Pace, pipe: Pipe, messages: int) -> list[int]:
    found = []
    for _ in range(messages):
        pace.wrote(pace.message_bytes, pipe.write(pace.message_bytes))
        found.append(pace.message_bytes)
    return found


@given(bytes_s=st.integers(20_000, 500_000), buffer_bytes=st.integers(0, 300_000))
def test_no_message_to_a_slow_peer_takes_longer_than_it_may(bytes_s: int, buffer_bytes: int) -> None:
    found = sizes(Pace(BYTES_MAX, HEARTBEAT_MS), Pipe(bytes_s, buffer_bytes), 500)
    assert max(found) <= max(4 * BYTES_MIN, bytes_s), "a second, and what the buffers hide at first"
    assert sum(found[100:]) / len(found[100:]) <= max(BYTES_MIN, 0.5 * bytes_s)


@given(buffer_bytes=st.integers(0, 300_000))
def test_a_quick_peer_gets_messages_of_the_full_size(buffer_bytes: int) -> None:
    assert sizes(Pace(BYTES_MAX, HEARTBEAT_MS), Pipe(20_000_000, buffer_bytes), 200)[-1] == BYTES_MAX


def test_a_stall_makes_messages_small_for_a_while() -> None:
    pace, pipe = Pace(BYTES_MAX, HEARTBEAT_MS), Pipe(50_000_000, 100_000)
    sizes(pace, pipe, 200)
    pace.wrote(BYTES_MAX, 5.0)
    assert pace.message_bytes < BYTES_MAX
    assert sizes(pace, pipe, 1_000)[-1] == BYTES_MAX


def test_messages_that_are_meant_to_be_smaller_stay_so() -> None:
    assert set(sizes(Pace(2_048, HEARTBEAT_MS), Pipe(1_000, 0), 50)) == {2_048}
