"""What a client reads that carries a cursor from region to region (CRDT.XREAD).

It reads between two turns, and changes nothing that another region or a restart could see.
"""

from __future__ import annotations

from collections import defaultdict

from crdtstream.core.effects import Effect, EntriesRemoved, Key, StreamDeleted
from crdtstream.core.streams.stream import Stream
from crdtstream.core.tokens import CURSOR, decode
from crdtstream.core.values.causality import Dot
from simulations.checking import Checker
from simulations.network import Network
from simulations.session_checkers import ask

READ_EVERY = 7
COUNTS = (b"1", b"3", b"0")


class ReadsEachOnce(Checker):
    """A reader that goes on by cursor, in any region, gets no entry twice, unless two processes have one region number,
    or the region has less than the reader has read: it lost its disk, and what it fetches again may be removed already
    where the reader comes from. None is left out that lives in the end, unless a removal of entries of its key was
    lost: it may have read in the region that had removed them.
    """

    name = "cursor reads"

    def __init__(self) -> None:
        self._turns = 0
        self._cursors: dict[bytes, bytes] = {}
        self._read: defaultdict[bytes, set[Dot]] = defaultdict(set)

    def turned(self, world: Network, number: int) -> None:
        self._turns += 1
        machine = world.machines[number]
        ready = machine.up and machine.node.membership.serving() and not machine.node.replica.is_open
        if ready and self._turns % READ_EVERY == 0:
            at = self._turns // READ_EVERY
            keys = world.keys
            self.read(world, number, keys[at % len(keys)], COUNTS[at // len(keys) % len(COUNTS)])

    def go_on(self, key: bytes, cursor: bytes) -> None:
        """Let the reader of this key go on behind another cursor."""
        self._cursors[key] = cursor

    def read(self, world: Network, number: int, key: bytes, count: bytes) -> None:
        """Read on in this region, at most so many entries (all if 0)."""
        stream = world.machines[number].node.replica.keyspace.peek((0, key))
        cursor = self._cursors.get(key, b"0")
        reply = ask(world, number, b"CRDT.XREAD", b"COUNT", count, b"STREAMS", key, cursor)
        if reply is None or stream is None:
            return
        assert isinstance(reply, list) and isinstance(reply[0], list) and isinstance(reply[0][1], list), reply
        _, entries, after = reply[0]
        assert isinstance(entries, list)
        self._cursors[key] = str(after).encode()
        dots = dots_between(world, stream, key, cursor, self._cursors[key])
        vector = world.machines[number].node.replica.applied.vector
        is_behind = not all(vector.contains(*dot) for dot in counters_of(world, key, cursor).items())
        self.record(world, number, key, dots, len(entries), is_behind)

    def record(
        self, world: Network, number: int, key: bytes, dots: set[Dot], count: int, is_behind: bool = False
    ) -> None:
        """Record that a reply had so many entries, and its cursor passed these."""
        if len(dots) != count:
            self.fail(f"region {number}, {key!r}: {count} entries, and the cursor passes {len(dots)}")
        again = dots & self._read[key]
        if again and not is_behind and not world.settings.twin:
            self.fail(f"region {number}, {key!r}: {sorted(again)} again")
        self._read[key] |= dots

    def at_end(self, world: Network) -> None:
        number = world.served()[0]
        for key in world.keys:
            self.read(world, number, key, b"0")
            stream = world.machines[number].node.replica.keyspace.peek((0, key))
            left = set() if stream is None else living(stream) - self._read[key]
            if left and not lost_removals(world, (0, key)):
                self.fail(f"{key!r}: {sorted(left)} were never read")


def lost_removals(world: Network, key: Key) -> list[Effect]:
    """The removals of entries of this key that no region has any more."""
    made, left = world.oracle.effects(world.oracle.vector()), world.vector()
    gone = [effect for dot, _, effect in made if effect.key == key and not left.contains(*dot)]
    return [effect for effect in gone if isinstance(effect, EntriesRemoved | StreamDeleted)]


def living(stream: Stream) -> set[Dot]:
    """The dots of all entries."""
    return {
        (origin, counter)
        for origin, tree in stream.trees.items()
        for low, high in tree.counter_ranges()
        for counter in range(low, high + 1)
    }


def counters_of(world: Network, key: bytes, cursor: bytes) -> dict[int, int]:
    """What a cursor says was read, for each origin."""
    cluster = world.machines[1].config.cluster
    return {} if cursor == b"0" else decode(CURSOR, cursor, cluster, b"0 " + key).as_dict()


def dots_between(world: Network, stream: Stream, key: bytes, before: bytes, after: bytes) -> set[Dot]:
    """What lives in a stream, and was passed from one cursor to the next."""
    known, passed = counters_of(world, key, before), counters_of(world, key, after)
    return {dot for dot in living(stream) if known.get(dot[0], 0) < dot[1] <= passed.get(dot[0], 0)}
