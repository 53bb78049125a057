"""What callers of partitioned streams give and get.

An offset is the number of a message in its partition: dense, rising, from 0, below 2^53. A *next* offset is the one to
be read next; a *committed* offset is the last one processed, inclusive, and -1 before the first commit.
"""

from __future__ import annotations

from typing import Final

from crdtstream.core.values.causality import Dot
from crdtstream.partitions.epochs import Epoch

UNCOMMITTED: Final = -1

# Where a new or reset group begins.
TRIM_HORIZON: Final = "TRIM_HORIZON"
LATEST: Final = "LATEST"
AT_TIME: Final = "AT_TIME"
STARTS: Final = (TRIM_HORIZON, LATEST, AT_TIME)

# Why a call was refused. After UNREACHABLE and MOVED the same call may succeed later; after the others it will not.
UNKNOWN_STREAM: Final = "unknown stream"
UNKNOWN_GROUP: Final = "unknown group"
INVALID: Final = "invalid"
LIMIT: Final = "limit"
UNREACHABLE: Final = "unreachable"
MOVED: Final = "moved"
UNWRITABLE: Final = "unwritable"
RETRYABLE: Final = (UNREACHABLE, MOVED, UNWRITABLE)

NO_EPOCH: Final[Epoch] = (0, 0)
# The name of no start: of one that is not written yet, and of what an instance says that has read nothing.
NO_START: Final[Dot] = (0, 0)


class Ahead:
    """How far the clock of partitioned streams is ahead of the region's: 0, unless somebody who tests programs moved
    it.
    """

    __slots__ = ("ms",)

    def __init__(self) -> None:
        self.ms = 0


class Refused(Exception):
    """A call that could not be carried out; nothing was changed. `code` is one of the reasons above, and the text says
    what is wrong and what to do.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class StreamSpec:
    """A partitioned stream; nothing of it changes after its creation, and `id` is unique in the cluster."""

    __slots__ = ("id", "partitions", "retention_ms")

    def __init__(self, id: str, partitions: int, retention_ms: int) -> None:
        self.id = id
        self.partitions = partitions
        self.retention_ms = retention_ms


class NewMessage:
    """A message to be put; its partition was chosen by its key."""

    __slots__ = ("key", "partition", "value")

    def __init__(self, partition: int, key: bytes | None, value: bytes) -> None:
        self.partition = partition
        self.key = key
        self.value = value


class PartitionMessage:
    """A message in its partition; `time_ms` is when its home numbered it, and never falls within a partition."""

    __slots__ = ("key", "offset", "time_ms", "value")

    def __init__(self, offset: int, time_ms: int, key: bytes | None, value: bytes) -> None:
        self.offset = offset
        self.time_ms = time_ms
        self.key = key
        self.value = value


class Stamp:
    """The number and the time that a message was given."""

    __slots__ = ("offset", "partition", "time_ms")

    def __init__(self, partition: int, offset: int, time_ms: int) -> None:
        self.partition = partition
        self.offset = offset
        self.time_ms = time_ms


class Bookmark:
    """Where an instance stands: the last offset that it read of each partition, under which epoch, in which generation
    of its group, and since which start of it (its name); what its cursor carries.
    """

    __slots__ = ("epoch", "generation", "offsets", "start")

    def __init__(self, generation: int, epoch: Epoch, start: Dot, offsets: dict[int, int]) -> None:
        self.generation = generation
        self.epoch = epoch
        self.start = start
        self.offsets = offsets


class Polled:
    """The partitions that an instance owns now, each with its next offset, and what its next bookmark is to carry."""

    __slots__ = ("epoch", "generation", "positions", "start")

    def __init__(self, generation: int, epoch: Epoch, start: Dot, positions: dict[int, int]) -> None:
        self.generation = generation
        self.epoch = epoch
        self.start = start
        self.positions = positions


class Reservation:
    """A partition as its group sees it; `instance` is empty if nobody owns it."""

    __slots__ = ("committed", "instance", "partition", "until_ms")

    def __init__(self, partition: int, committed: int, instance: str, until_ms: int) -> None:
        self.partition = partition
        self.committed = committed
        self.instance = instance
        self.until_ms = until_ms
