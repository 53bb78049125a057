"""The state of one partitioned stream: its epochs, its groups and what they have committed, in registers.

    epoch/<number>/<origin>       the epoch before it, and the first offset of each partition
    group/<name>                  where the group starts, and how often it was reset
    commit/<partition>/<name>     the last offset that the group has processed, under which epoch and since which start

The home is the region of the current epoch. Only the home writes; a region that lost the home without knowing it may
have written too. Of the commits that are left of one partition the highest counts, as far as later epochs have left it
valid: the instance that committed had processed everything up to there.
"""

from __future__ import annotations

import json
from typing import Any, Final

from crdtstream.core.replica import Replica
from crdtstream.core.values.causality import Dot, region_of
from crdtstream.partitions.epochs import NO_EPOCH, Epoch, EpochRow, Epochs
from crdtstream.partitions.keys import partition_key, state_key
from crdtstream.partitions.partition import Partition
from crdtstream.partitions.registers import Registers
from crdtstream.partitions.values import UNCOMMITTED, UNWRITABLE, Ahead, Refused, StreamSpec

EPOCH: Final = b"epoch/"
GROUP: Final = b"group/"
NOT_READ: Final = -1
# Epochs are part of generations (coordinator.py), which have room for so much.
NUMBER_BITS: Final = 48
NUMBER_MAX: Final = (1 << NUMBER_BITS) - 1


class Start:
    """Where a group begins: `kind` is TRIM_HORIZON, AT_TIME or LATEST, which has the next offsets of that moment in
    `offsets`, under `epoch`. `resets` counts how often the group was moved, and `name` differs each time: commits from
    before do not count, nor do those of another group that had the same name.
    """

    __slots__ = ("epoch", "kind", "name", "offsets", "resets", "time_ms")

    def __init__(self, kind: str, time_ms: int, offsets: list[int], epoch: Epoch, resets: int, name: Dot) -> None:
        self.kind = kind
        self.time_ms = time_ms
        self.offsets = offsets
        self.epoch = epoch
        self.resets = resets
        self.name = name


class StreamState:
    """What this region knows of one stream."""

    __slots__ = ("_ahead", "_epochs", "_partitions", "_registers", "_replica", "_version", "spec")

    def __init__(self, replica: Replica, spec: StreamSpec, ahead: Ahead) -> None:
        self.spec = spec
        self._ahead = ahead
        self._replica = replica
        self._registers = Registers(replica, state_key(spec.id))
        self._epochs = Epochs([EpochRow(NO_EPOCH, [0] * spec.partitions, NO_EPOCH)])
        self._partitions: list[Partition] = []
        self._version = NOT_READ

    def version(self) -> int:
        """Another one after each change of the registers."""
        self._registers.names()
        return self._registers.version

    def counters(self) -> list[Dot]:
        """The last addition of each origin to the registers."""
        return self._registers.counters()

    # Epochs

    @property
    def epochs(self) -> Epochs:
        names = self._registers.names()
        if self._version != self._registers.version:
            self._version = self._registers.version
            self._see_epochs([name for name in names if name.startswith(EPOCH)])
        return self._epochs

    def _see_epochs(self, names: list[bytes]) -> None:
        rows = [self._epoch_row(name) for name in names]
        if rows and sorted([row.epoch for row in rows]) != [row.epoch for row in self._epochs.rows]:
            self._epochs = Epochs(rows)
            self._partitions = []

    def _epoch_row(self, name: bytes) -> EpochRow:
        _, number, origin = name.split(b"/")
        found = self._registers.latest(name)
        assert found is not None, "an epoch without a value"
        parent, starts = json.loads(found)
        return EpochRow((int(number), int(origin)), starts, (parent[0], parent[1]))

    def home(self) -> int:
        """The region of the current epoch."""
        return region_of(self.epochs.current()[1])

    def epoch_dot(self) -> Dot:
        """The effect that raised the current epoch; only while there is one."""
        return self._registers.dot(EPOCH + b"%d/%d" % self.epochs.current())

    def raise_epoch(self) -> None:
        """Make this process the home: it numbers from what it knows to be next."""
        parent = self.epochs.current()
        starts = [one.next_offset() for one in self.partitions()]
        number = self._top_number() + 1
        if number > NUMBER_MAX:
            raise Refused(UNWRITABLE, "a client has added an ID that leaves no room above it: restart this region")
        name = EPOCH + b"%d/%d" % (number, self._replica.applied.origin)
        self._registers.write(name, encoded([list(parent), starts]))

    def _top_number(self) -> int:
        return max([self.epochs.current()[0], *[one.top_number() for one in self.partitions()]])

    def can_raise(self) -> bool:
        """False if a Redis client has added an ID here above which no epoch has room."""
        return self._top_number() < NUMBER_MAX

    def forget_epochs(self) -> None:
        """Forget the lowest epoch once nothing that it numbered is left. Only the lowest: without one in between, what
        the epochs before it have numbered would not count any more.
        """
        lowest = self.epochs.rows[0]
        oldest = [one.oldest_offset() for one in self.partitions()]
        if self.epochs.is_spent(lowest, oldest):
            self._registers.drop(EPOCH + b"%d/%d" % lowest.epoch)

    def is_numbering(self) -> bool:
        """True if this process may number messages: the epoch is its own, and above all that it used before."""
        number, origin = self.epochs.current()
        return origin == self._replica.applied.origin and all(
            one.top_number() <= number and one.is_sound() for one in self.partitions()
        )

    # Partitions

    def partitions(self) -> list[Partition]:
        epochs = self.epochs
        if not self._partitions:
            keys = [partition_key(self.spec.id, at) for at in range(self.spec.partitions)]
            self._partitions = [Partition(self._replica, key, at, epochs, self._ahead) for at, key in enumerate(keys)]
        return self._partitions

    # Groups

    def groups(self) -> list[str]:
        """The names of all groups."""
        names = [name for name in self._registers.names() if name.startswith(GROUP)]
        return [name.removeprefix(GROUP).decode() for name in sorted(names) if self._registers.values(name)]

    def starts_of(self, group: str) -> list[Start]:
        """Where the group begins; nothing if there is no such group. It is more than one position if two homes have
        made or moved it without knowing of each other; of those that were moved more or less often the last one counts.
        Where both have written the same start again, the higher epoch of those that count has it: an epoch that does
        not count may have numbered less, and begins the group earlier.
        """

        def rank(start: Start) -> tuple[bool, Epoch]:
            return self.epochs.counts(start.epoch), start.epoch

        found = sorted([start_in(value) for value in self._registers.values(GROUP + group.encode())], key=rank)
        resets = max([one.resets for one in found], default=0)
        named = {one.name: one for one in found if one.resets == resets}
        return [named[name] for name in sorted(named)]

    def write_start(self, group: str, start: Start) -> None:
        document = [start.kind, start.time_ms, start.offsets, list(start.epoch), start.resets, list(start.name)]
        self._registers.write(GROUP + group.encode(), encoded(document))

    def new_name(self) -> Dot:
        """A name that no other start has: the next dot of this process."""
        applied = self._replica.applied
        return applied.origin, applied.counter() + 1

    def committed(self, group: str, partition: int, start: Start) -> int:
        """The last offset that the group has processed since that start; UNCOMMITTED if none."""
        return max([offset for offset, _ in self.commits(group, partition, start)], default=UNCOMMITTED)

    def commits(self, group: str, partition: int, start: Start) -> list[tuple[int, Epoch]]:
        """What homes have committed since that start without knowing of each other: the offset that later epochs have
        left valid, and the epoch of the home.
        """
        found: list[tuple[int, Epoch]] = []
        for value in self._registers.values(commit_name(group, partition)):
            offset, number, origin, name = json.loads(value)
            if (name[0], name[1]) == start.name:
                found.append((self.epochs.clamp_offset(partition, offset + 1, (number, origin)) - 1, (number, origin)))
        return found

    def write_commit(self, group: str, partition: int, offset: int, start: Start) -> None:
        number, origin = self.epochs.current()
        self._registers.write(commit_name(group, partition), encoded([offset, number, origin, list(start.name)]))

    def drop_group(self, group: str) -> None:
        self._registers.drop(GROUP + group.encode())
        for partition in range(self.spec.partitions):
            self._registers.drop(commit_name(group, partition))

    # The whole

    def clear(self) -> None:
        """Remove the messages and everything else of the stream."""
        for number in range(self.spec.partitions):
            self._replica.delete_stream(partition_key(self.spec.id, number))
        self._registers.clear()

    def is_empty(self) -> bool:
        keyspace, keys = self._replica.keyspace, [partition_key(self.spec.id, at) for at in range(self.spec.partitions)]
        return all(keyspace.find(key) is None for key in [state_key(self.spec.id), *keys])

    def check(self) -> None:
        self._registers.check()
        self.epochs.check()


def commit_name(group: str, partition: int) -> bytes:
    return b"commit/%d/%b" % (partition, group.encode())


def start_in(value: bytes) -> Start:
    kind, time_ms, offsets, epoch, resets, name = json.loads(value)
    return Start(kind, time_ms, offsets, (epoch[0], epoch[1]), resets, (name[0], name[1]))


def encoded(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
