"""What the clients of a partitioned stream are, and what they were told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from crdtstream.core.values.causality import Dot
from crdtstream.partitions.epochs import Epoch
from crdtstream.partitions.values import Bookmark, PartitionMessage, Polled, StreamSpec

STREAM: Final = "s"


@dataclass
class Put:
    """A message that was sent: at what time, and whether it was answered. `number` is the region that was asked, and
    `sent_at` and `answered_at` say what came before what.
    """

    partition: int
    sent_ms: int
    answered: bool = False
    number: int = 0
    sent_at: int = 0
    answered_at: int = 0
    answered_ms: int = 0


@dataclass
class Delivery:
    """Messages that an instance has read: the region, the epoch there, and since which start of the group."""

    number: int
    instance: Instance
    epoch: Epoch
    start: Dot
    messages: list[tuple[int, PartitionMessage]]


@dataclass
class Instance:
    """A member of a group; `at` is the machine that it calls, `bookmark` is None until it has joined. `drained` is its
    last poll if that gave nothing to read.
    """

    group: str
    name: str
    at: int
    timeout_ms: int
    commits: bool
    bookmark: Bookmark | None = None
    busy: bool = False
    gone: bool = False
    drained: Polled | None = None


@dataclass
class Told:
    """What clients were told: the ground truth of checkers."""

    puts: dict[bytes, Put] = field(default_factory=dict)
    delivered: dict[tuple[str, Dot], set[bytes]] = field(default_factory=dict)
    resets: dict[str, int] = field(default_factory=dict)
    calls: int = 0


class StreamClients:
    """The clients of one stream as checkers see them."""

    def __init__(self, spec: StreamSpec) -> None:
        self.spec = spec
        self.told = Told()
        self.instances: list[Instance] = []
