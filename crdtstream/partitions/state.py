"""The state of one partitioned stream: its epochs, its groups and what they have committed, in registers.

    epoch/<number>/<origin>       the first offset of each partition
    group/<name>                  where the group starts, and how often it was reset
    commit/<partition>/<name>     the last offset that the group has processed, under which epoch and after which reset

The home is the region of the current epoch. Only the home writes; a region that lost the home without knowing it may
have written too. Of the commits that are left of one partition the highest counts, as far as later epochs have left it
valid: whoever committed had processed everything up to there.
"""

from __future__ import annotations

import json
from typing import Any, Final

from crdtstream.core.causality import region_of
from crdtstream.core.epochs import Epoch, EpochRow, Epochs
from crdtstream.core.replica import Replica
from crdtstream.partitions.keys import partition_key, state_key
from crdtstream.partitions.partition import Partition
from crdtstream.partitions.registers import Registers
from crdtstream.partitions.values import UNCOMMITTED, Ahead, StreamSpec

EPOCH: Final = b"epoch/"
GROUP: Final = b"group/"
NOT_READ: Final = -1


class Start:
    """Where a group begins: `kind` is TRIM_HORIZON, AT_TIME or LATEST, which has the next offsets of that moment in
    `offsets`, under `epoch`. `resets` counts how often the group was moved; commits from before do not count.
    """

    __slots__ = ("epoch", "kind", "offsets", "resets", "time_ms")

    def __init__(self, kind: str, time_ms: int, offsets: list[int], epoch: Epoch, resets: int) -> None:
        self.kind = kind
        self.time_ms = time_ms
        self.offsets = offsets
        self.epoch = epoch
        self.resets = resets


class StreamState:
    """What this region knows of one stream."""

    __slots__ = ("_ahead", "_epochs", "_partitions", "_registers", "_replica", "_version", "spec")

    def __init__(self, replica: Replica, spec: StreamSpec, ahead: Ahead) -> None:
        self.spec = spec
        self._ahead = ahead
        self._replica = replica
        self._registers = Registers(replica, state_key(spec.id))
        self._epochs = Epochs([EpochRow((0, 0), [0] * spec.partitions)])
        self._partitions: list[Partition] = []
        self._version = NOT_READ

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
        if [row.epoch for row in rows] != [row.epoch for row in self._epochs.rows] and rows:
            self._epochs = Epochs(rows)
            self._partitions = []

    def _epoch_row(self, name: bytes) -> EpochRow:
        _, number, origin = name.split(b"/")
        found = self._registers.latest(name)
        assert found is not None, "an epoch without a value"
        return EpochRow((int(number), int(origin)), json.loads(found))

    def home(self) -> int:
        """The region of the current epoch."""
        return region_of(self.epochs.current()[1])

    def raise_epoch(self) -> None:
        """Make this process the home: it numbers from what it knows to be next."""
        numbers = [self.epochs.current()[0], *[one.top_number() for one in self.partitions()]]
        starts = [one.next_offset() for one in self.partitions()]
        name = EPOCH + b"%d/%d" % (max(numbers) + 1, self._replica.applied.slot)
        self._registers.write(name, encoded(starts))

    def forget_epochs(self) -> None:
        """Forget the lowest epoch once nothing that it numbered is left. Only the lowest: without one in between,
        stale messages of the epoch before it would count again.
        """
        rows = self.epochs.rows
        if len(rows) > 1:
            oldest = [one.oldest_offset() for one in self.partitions()]
            if all(start <= offset for start, offset in zip(rows[1].starts, oldest, strict=True)):
                self._registers.drop(EPOCH + b"%d/%d" % rows[0].epoch)

    def is_numbering(self) -> bool:
        """True if this process may number messages: the epoch is its own, and above all that it used before."""
        number, origin = self.epochs.current()
        return origin == self._replica.applied.slot and all(one.top_number() <= number for one in self.partitions())

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

    def start_of(self, group: str) -> Start | None:
        """Where the group begins; None if there is no such group. If two homes made or moved it, the last reset
        counts, and of equal ones the earlier position.
        """
        found = [start_in(value) for value in self._registers.values(GROUP + group.encode())]
        if not found:
            return None
        resets = max([one.resets for one in found])
        return min([one for one in found if one.resets == resets], key=order_of)

    def write_start(self, group: str, start: Start) -> None:
        document = [start.kind, start.time_ms, start.offsets, list(start.epoch), start.resets]
        self._registers.write(GROUP + group.encode(), encoded(document))

    def committed(self, group: str, partition: int, resets: int) -> int:
        """The last offset that the group has processed since its last reset; UNCOMMITTED if none."""
        highest = UNCOMMITTED
        for value in self._registers.values(commit_name(group, partition)):
            offset, number, origin, count = json.loads(value)
            if count == resets:
                highest = max(highest, self.epochs.settle(partition, offset + 1, (number, origin)) - 1)
        return highest

    def write_commit(self, group: str, partition: int, offset: int, resets: int) -> None:
        number, origin = self.epochs.current()
        self._registers.write(commit_name(group, partition), encoded([offset, number, origin, resets]))

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
    kind, time_ms, offsets, epoch, resets = json.loads(value)
    return Start(kind, time_ms, offsets, (epoch[0], epoch[1]), resets)


def order_of(start: Start) -> tuple[int, int, list[int]]:
    """Earlier positions first: the horizon, then times, then offsets."""
    rank = 0 if start.kind == "TRIM_HORIZON" else 1 if start.kind == "AT_TIME" else 2
    return rank, start.time_ms, start.offsets


def encoded(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
