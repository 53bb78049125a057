"""A client that reads by counters gets every entry once, whatever regions it reads from and whatever arrives late."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crdtstream.core.entries.read_entries import ReadEntries
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.causality import Dot, VersionVector
from tests.commands.stream_region import Region
from tests.core.histories import KEYS, OPERATIONS, Step, World, deliver, ids_of
from tests.effort import examples

KEY = KEYS[0]
# No copies: they write entries again.
WRITING = [name for name in OPERATIONS if name != "copy"]
STEPS = st.tuples(
    st.sampled_from([*WRITING, *["look"] * 12]), st.integers(0, 2), st.integers(0, 11), st.integers(0, 11)
)


class Reader:
    """A client, and the dots that it has read."""

    def __init__(self) -> None:
        self.known = ReadEntries({})
        self.read: set[Dot] = set()

    def look(self, stream: Stream, count: int) -> None:
        unread = [row for row in ids_of(stream) if row[2] > self.known.counter(row[1])]
        wanted = unread if count < 0 else unread[:count]
        found, chunks = self.known.read(stream.chains, count)
        assert found == len(wanted)
        assert b"".join(chunks) == b"".join(
            stream.trees[origin].find(entry_id) or b"" for entry_id, origin, _ in wanted
        )
        dots = {(origin, counter) for _, origin, counter in wanted}
        assert not dots & self.read, "read twice"
        self.read |= dots


@settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEPS, min_size=10, max_size=60))
def test_every_entry_is_read_once(history: list[Step]) -> None:
    world, reader = World((1, 2, 3)), Reader()
    for step in history:
        operation, number, a, b = step
        stream = world.replicas[number].keyspace.known(KEY)
        if operation != "look":
            world.run([step])
        elif stream is not None:
            reader.look(stream, a % 4 if b % 3 else -1)
    for number in range(3):
        world.end_turn(number)
    whole = VersionVector()
    for replica in world.replicas:
        whole.merge(replica.applied.vector)
    left = deliver(world.batches, world.clone(0), whole).keyspace.known(KEY)
    if left is not None:
        reader.look(left, -1)
        assert {(origin, counter) for _, origin, counter in ids_of(left)} <= reader.read


def test_an_entry_that_arrives_late_with_a_lower_id() -> None:
    east, west = Region(1), Region(2)
    east.say("XADD s 5-0 f east")
    west.say("XADD s 3-0 f west")
    known = ReadEntries({})
    assert known.read(east.stream().chains, -1)[0] == 1
    east.hear(west)
    count, chunks = known.read(east.stream().chains, -1)
    assert count == 1 and b"3-0" in b"".join(chunks)
    assert known.counters == {1: 1, 2: 1}


def test_counters_above_what_the_region_has() -> None:
    region = Region(1)
    region.say("XADD s 1-0 f v")
    known = ReadEntries({1: 9, 2: 7})
    assert known.read(region.stream().chains, -1) == (0, [])
    assert known.counters == {1: 9, 2: 7}


def test_a_count_takes_the_lowest_unread_ids() -> None:
    east, west = Region(1), Region(2)
    for number in range(1, 9):
        (east if number % 2 else west).say(f"XADD s {number}-0 f v")
    east.hear(west)
    known = ReadEntries({})
    for first in (1, 4, 7):
        count, chunks = known.read(east.stream().chains, 3)
        ids = [number for number in range(1, 9) if b"\r\n%d-0\r\n" % number in b"".join(chunks)]
        assert ids == list(range(first, min(first + 3, 9))) and count == len(ids)
