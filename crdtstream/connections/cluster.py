"""What commands may ask about the cluster: a port to each part of replication that knows it.

Commands and replication are layers side by side, so commands see replication through these. Every answer comes from
its owner when it is asked for: nothing is copied to where commands look.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from crdtstream.connections.moves import MoveAnswer, MoveOrder
from crdtstream.connections.parking import Parked
from crdtstream.core.applying import Applied
from crdtstream.core.effects import Key
from crdtstream.core.groups.group import Group
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.causality import VersionVector

# What `PeerStatus.link` may be, besides why there is no link.
LINK_OPEN = "open"
LINK_SELF = "self"
LINK_TRANSFER = "transfer"


class ProgressPort(Protocol):
    """What other members reported about themselves: the port to `replication`, for WAIT and for operators."""

    def holders(self, origin: int, counter: int) -> Iterable[int]:
        """The regions that hold this origin's effects up to the counter (inclusive) durably."""

    def holds_all(self, origin: int, vector: VersionVector) -> bool:
        """Return whether that origin has reported all of this as durable."""

    def applied_of(self, origin: int) -> VersionVector: ...

    def durable_of(self, origin: int) -> VersionVector: ...
    def told_of(self, origin: int) -> VersionVector:
        """All that this origin is known to have on its disk, also what this region has not applied."""


class RetentionPort(Protocol):
    """How far back the log reaches, and which members need it: the port to `replication`, for operators."""

    def held_back(self, origin: int) -> int:
        """The number of bytes of the log that are retained because this origin lacks them."""


class AuditPort(Protocol):
    """The results of the background comparison with other regions: the port to `replication`, for operators.

    `rounds` is how often the sums of this region's state were computed, the last time at `last_ms`; `comparisons` is
    how often they were compared with a peer at the same vector, and `differences` how often they differed.
    """

    @property
    def rounds(self) -> int: ...
    @property
    def comparisons(self) -> int: ...
    @property
    def differences(self) -> int: ...
    @property
    def last_ms(self) -> int: ...
    def shared_origins(self) -> list[int]:
        """The origins under which two processes have prepared effects."""


class TransferShown:
    """A running state transfer: its direction, and the chunks and bytes transferred so far."""

    __slots__ = ("byte_count", "chunks", "direction")

    def __init__(self, direction: str, chunks: int, byte_count: int) -> None:
        self.direction = direction
        self.chunks = chunks
        self.byte_count = byte_count


class PeerStatus:
    """A link to another region, as INFO and CRDT.REGIONS show it; origin 0 until its origin is known. `sent_bytes`
    counts bytes of batches since the link opened. A peer without a link has been in that state for `unlinked_ms`,
    because of `reason`; if its region was `evicted`, nothing is owed to it. `lacking`: what a linked peer says to have
    no room in, and for how long; batches for it wait.
    """

    __slots__ = (
        "address",
        "evicted",
        "lacking",
        "lacking_ms",
        "link",
        "name",
        "origin",
        "reason",
        "region",
        "sent_bytes",
        "silent_ms",
        "transfer",
        "unlinked_ms",
    )

    def __init__(self, region: int, name: str, address: str, link: str, silent_ms: int, origin: int = 0) -> None:
        self.region = region
        self.name = name
        self.address = address
        self.link = link
        self.silent_ms = silent_ms
        self.origin = origin
        self.evicted = False
        self.sent_bytes = 0
        self.lacking = ""
        self.lacking_ms = 0
        self.transfer: TransferShown | None = None
        self.unlinked_ms = -1
        self.reason = ""


class AdmissionPort(Protocol):
    """Whether this region's origin is admitted to the cluster (replication/membership/membership.py)."""

    @property
    def admitted(self) -> bool: ...
    @property
    def is_outside(self) -> bool:
        """True while this region has been in no cluster, and has heard of none."""

    def want(self) -> None:
        """A client waits for the admission."""

    def say_admitted(self) -> None:
        """State that this origin was admitted; call it before anything that only an admitted origin may do."""


class StartOverPort(Protocol):
    """Replacing this region's state by another region's (replication/membership/start_over.py)."""

    @property
    def count(self) -> int:
        """How often this region started over, as far as this process knows, including from its log."""

    @property
    def last_source(self) -> int:
        """From which region this process started over last; 0 if it did not."""

    @property
    def last_ms(self) -> int:
        """When that was."""

    def begin(self, source: int, now_ms: int) -> str | None:
        """Begin; returns the reason if that is not possible, else None."""

    def state(self) -> str:
        """How far it has got; empty if it is not running."""

    def waiting_for(self) -> str:
        """The text for clients while it runs: what it waits for."""


class LeavingPort(Protocol):
    """Leaving the cluster (replication/membership/leaving.py)."""

    @property
    def step(self) -> str: ...
    def begin(self) -> str:
        """Begin; returns the reason if that is not possible, else an empty text."""

    def abort(self) -> str:
        """Stay; returns the reason if that is not possible, else an empty text."""

    def lack(self) -> list[tuple[str, int, int]]:
        """The regions that lack something on disk: name, number, and how many effects."""


class NeighboursPort(Protocol):
    """The other regions, and what this one knows of them (peers.py)."""

    def follow(self, peers: tuple[str, ...]) -> None:
        """These are the addresses of the configured peers from now on."""

    def peers(self) -> list[PeerStatus]:
        """All other regions as they are linked now, by number."""

    def linked(self) -> list[int]:
        """The origins of the linked regions."""

    def counted(self) -> list[int]:
        """The other members, founders that have not joined yet included."""

    def durable(self) -> VersionVector:
        """What is on the disk of this region."""

    def waits(self) -> tuple[str, int, int, int]:
        """What this region lacks room in for batches of peers, empty if nothing, and for how many milliseconds; how
        many batches wait here, for that or for others, and their bytes.
        """

    def unheard(self) -> int:
        """How many members there are whose progress is dropped, because it exceeds `progress_rows_max`."""

    def name_of(self, region: int) -> str:
        """The name of a region, also of one that this process never met; empty if nobody told it."""

    def addresses_of(self, region: int) -> tuple[tuple[str, str], ...]:
        """Where the listeners of a region are reached, by their names; empty if it announced nothing."""

    def format_of(self, region: int) -> int:
        """The highest format of batches that a region reads; that of the release before if it did not say so."""

    def cannot_read(self, format_version: int) -> list[int]:
        """The regions of the cluster that do not read batches in this format."""

    def count_of(self, origin: int) -> int:
        """How many earlier origins the region of this one had; -1 if that is not known."""


class Home:
    """A partitioned stream: the region that is its home, 0 if that is not known yet, and the number of its epoch."""

    __slots__ = ("epoch", "partitions", "region", "stream")

    def __init__(self, stream: str, partitions: int, region: int, epoch: int) -> None:
        self.stream = stream
        self.partitions = partitions
        self.region = region
        self.epoch = epoch


class Homes(Protocol):
    """The homes of partitioned streams (partitions/streams.py)."""

    def rows(self) -> list[Home]: ...

    def move_here(self, stream: bytes) -> str:
        """Make this region the home; returns the reason if that is not possible, else an empty text."""


class DeliveryPort(Protocol):
    """Which region delivers the entries of a group (region/delivering.py); for groups that not every one delivers."""

    def look(self, stream: Stream, group: Group) -> None:
        """Withhold from readers of this region what another one delivers now."""

    def read(self, key: Key, name: bytes, stream: Stream, group: Group) -> None:
        """The same, for a consumer that asks for new entries."""

    def awaited(self, group: Group) -> list[int]:
        """The regions that this one waits for before it delivers anything."""

    def writers_here(self, stream: Stream, group: Group) -> list[int]:
        """The regions whose entries this region delivers by the records; 0 alone for those of all."""

    def give(self, key: Key, name: bytes, writers: list[int], region: int) -> None:
        """From now on that region delivers what these wrote."""

    def is_moving(self, key: Key, name: bytes) -> bool:
        """True while a move of the group away from here waits: consumers get nothing new of it."""

    def start_moving(self, order: MoveOrder, waiter: Parked) -> None:
        """The group is about to move away, as long as this client waits."""

    def stop_moving(self, order: MoveOrder) -> None: ...

    # Moves at another region

    def can_ask(self, region: int, order: MoveOrder) -> bool:
        """True if that region can be asked to make the move."""

    def ask(self, region: int, order: MoveOrder, waiter: Parked) -> int:
        """Let that region make the move, as long as this client waits; returns the number of the call."""

    def answer_to(self, number: int) -> MoveAnswer | None:
        """What came back; None while nothing has."""


class ClusterPorts:
    """The ports of one region; those that are None have nothing behind them, as in a test of commands alone."""

    __slots__ = (
        "admission",
        "audit",
        "delivery",
        "homes",
        "leaving",
        "neighbours",
        "progress",
        "retention",
        "start_over",
    )

    def __init__(self, progress: ProgressPort, neighbours: NeighboursPort) -> None:
        self.progress = progress
        self.neighbours = neighbours
        self.admission: AdmissionPort | None = None
        self.retention: RetentionPort | None = None
        self.audit: AuditPort | None = None
        self.start_over: StartOverPort | None = None
        self.homes: Homes | None = None
        self.delivery: DeliveryPort | None = None
        self.leaving: LeavingPort | None = None

    def held_back(self, applied: Applied, origin: int) -> int:
        """Bytes of the log retained for an origin; 0 for this region's own and for ended origins."""
        if origin in (0, applied.origin) or applied.members.is_evicted(origin) or self.retention is None:
            return 0
        return self.retention.held_back(origin)

    def lags_of(self, own: VersionVector, peer: PeerStatus) -> tuple[int, int]:
        """How many of these effects the peer has not applied, and how many are not durable there."""
        if peer.evicted:
            return 0, 0
        if peer.origin == 0:
            return own.total(), own.total()
        return lacking(own, self.progress.applied_of(peer.origin)), lacking(own, self.progress.told_of(peer.origin))


def lacking(own: VersionVector, other: VersionVector) -> int:
    """How many effects of the one vector the other does not cover."""
    return sum(max(0, counter - other.get(origin)) for origin, counter in own.items())
