"""What a command sees: the replica, the clock of this turn, the clients, and the waiting readers.

A command is a function `(context, client, argv) -> reply` in three steps: parse, operate, reply. The reply is RESP
bytes; None means that the client was parked, or that its reply comes later. An error is raised as `CommandError`.

Invariant: a command changes only the replica, its own client, the parking and the outbox; it affects another client
only through `close` or the outbox.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Protocol

from mypy_extensions import mypyc_attr

from crdtstream.clients.alarms import Alarms
from crdtstream.clients.client import Client
from crdtstream.clients.notifications import Notifications
from crdtstream.clients.parking import Parked, Parking
from crdtstream.clients.saving import Saving
from crdtstream.clients.slow_log import SlowLog
from crdtstream.clients.statistics import Statistics, Stopwatch
from crdtstream.clients.subscriptions import Subscriptions
from crdtstream.clients.watching import Watches
from crdtstream.config import EVERYSEC, Config, Limits
from crdtstream.core.causality import VersionVector
from crdtstream.core.digest import Digesting
from crdtstream.core.effects import Key
from crdtstream.core.entry_id import STRICT, EntryId
from crdtstream.core.merged_ranges import MergedRanges
from crdtstream.core.replica import Replica


class CommandError(Exception):
    """An error reply; its text starts with a code: `ERR ...`, `NOGROUP ...`.

    A client's bytes are put into the text by `shown`, so that the reply contains them unchanged.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


def shown(value: bytes) -> str:
    """A client's bytes as part of an error text; as in C, everything from a NUL on is cut off."""
    return value.partition(b"\0")[0].decode("utf-8", "surrogateescape")


class Progress(Protocol):
    """What other members reported about themselves: the port to `replication`, for WAIT and for operators."""

    def holders(self, slot: int, counter: int) -> Iterable[int]:
        """The regions that hold this origin's effects up to the counter (inclusive) durably."""

    def applied_of(self, slot: int) -> VersionVector: ...

    def durable_of(self, slot: int) -> VersionVector: ...


class Retention(Protocol):
    """How far back the log reaches, and which members need it: the port to `replication`, for operators."""

    def held_back(self, slot: int) -> int:
        """The number of bytes of the log that are retained because this origin lacks them."""


class Audit(Protocol):
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


class Peer:
    """A link to another region, as INFO and CRDT.REGIONS show it; slot 0 until its origin is known. `sent_bytes` counts
    bytes of batches since the link opened. A peer without a link has been in that state for `unlinked_ms`, because of
    `reason`.
    """

    __slots__ = (
        "address",
        "link",
        "name",
        "reason",
        "region",
        "sent_bytes",
        "silent_ms",
        "slot",
        "transfer",
        "unlinked_ms",
    )

    def __init__(self, region: int, name: str, address: str, link: str, silent_ms: int, slot: int = 0) -> None:
        self.region = region
        self.name = name
        self.address = address
        self.link = link
        self.silent_ms = silent_ms
        self.slot = slot
        self.sent_bytes = 0
        self.transfer: TransferShown | None = None
        self.unlinked_ms = -1
        self.reason = ""


class Admission(Protocol):
    """Whether this region's origin is admitted to the cluster (replication/membership/membership.py)."""

    admitted: bool
    # A client waits for the admission.
    wanted: bool

    def say_admitted(self) -> None:
        """State that this origin was admitted; call it before anything that only an admitted origin may do."""


class StartOver(Protocol):
    """Replacing this region's state by another region's (replication/membership/start_over.py)."""

    @property
    def count(self) -> int:
        """How often this region started over, as far as this process knows, including from its log."""

    def begin(self, source: int, now_ms: int) -> str | None:
        """Begin; returns the reason if that is not possible, else None."""

    def state(self) -> str:
        """How far it has got; empty if it is not running."""

    def waiting_for(self) -> str:
        """The text for clients while it runs: what it waits for."""


class About:
    """Names and figures of the region and its process; the runtime fills in those that only it knows."""

    __slots__ = (
        "cluster",
        "cpu_system_s",
        "cpu_user_s",
        "fsync",
        "memory_bytes",
        "memory_peak_bytes",
        "name",
        "peers_configured",
        "port",
        "process_id",
        "region",
        "run_id",
        "system_bytes",
    )

    def __init__(self) -> None:
        self.name = ""
        self.region = 0
        self.cluster = ""
        self.fsync = EVERYSEC
        self.peers_configured = 0
        self.port = 0
        self.process_id = 0
        self.run_id = ""
        self.memory_bytes = 0
        self.memory_peak_bytes = 0
        self.system_bytes = 0
        self.cpu_user_s = 0.0
        self.cpu_system_s = 0.0


@mypyc_attr(allow_interpreted_subclasses=True)
class Waiter(Parked, ABC):
    """A client that waits, with the code to serve it."""

    @abstractmethod
    def serve(self, context: Context) -> bytes | None:
        """The reply, or None to go on waiting; may raise CommandError, which also ends the wait."""

    @abstractmethod
    def expired(self, context: Context) -> bytes:
        """The reply once the deadline has passed."""


class Context:
    """One region as its commands see it. `now_ms` is set at the start of each command; `set_back_ms` is the time to
    which the clock was last set back, or the time of the start.

    What commands request from the runtime: a checkpoint (`saving`), writing the settings to their file
    (`rewrite_wanted`), a clean stop (`stop_wanted`), and no checkpoint before it (`stop_at_once`).

    `damages` are the places in the log, as file and byte, that could not be read since the start; `digests` are being
    computed; `notices` are warnings for the log of the process.
    """

    __slots__ = (
        "about",
        "admission",
        "alarms",
        "audit",
        "clients",
        "config",
        "counts",
        "damages",
        "digests",
        "draws",
        "durable",
        "effects_saved",
        "id_mode",
        "leaving",
        "limits",
        "loading",
        "memory_short",
        "monitors",
        "notices",
        "notifications",
        "now_ms",
        "origin",
        "outbox",
        "parking",
        "peers",
        "progress",
        "pubsub",
        "ranges",
        "replica",
        "requirepass",
        "retention",
        "rewrite_failure",
        "rewrite_wanted",
        "saving",
        "set_back_ms",
        "slow_log",
        "start_over",
        "started_ms",
        "statistics",
        "stop_at_once",
        "stop_wanted",
        "stopwatch",
        "watches",
        "writable",
    )

    def __init__(self, limits: Limits, replica: Replica, progress: Progress, now_ms: int) -> None:
        self.config = Config(name="", region=0, cluster="", limits=limits)
        self.limits = limits
        self.replica = replica
        self.progress = progress
        self.now_ms = now_ms
        self.started_ms = now_ms
        self.set_back_ms = now_ms
        self.clients: dict[int, Client] = {}
        self.ranges = MergedRanges(limits.merged_ranges_bytes_max)
        self.parking: Parking[Waiter] = Parking()
        self.watches = Watches()
        self.pubsub = Subscriptions()
        self.monitors: dict[int, Client] = {}
        self.notifications = Notifications(replica, self.pubsub)
        self.outbox: list[tuple[Client, bytes]] = []
        self.leaving: list[Client] = []
        self.peers: list[Peer] = []
        self.durable = VersionVector()
        self.statistics = Statistics()
        self.alarms = Alarms()
        self.notices: list[tuple[str, Exception | None]] = []
        self.stopwatch = Stopwatch()
        self.slow_log = SlowLog()
        self.slow_log.limit(limits.slow_command_us, limits.slow_log_entries_max)
        self.writable = True
        self.loading = ""
        self.admission: Admission | None = None
        self.retention: Retention | None = None
        self.audit: Audit | None = None
        self.start_over: StartOver | None = None
        self.damages: list[str] = []
        self.digests: list[Digesting] = []
        self.memory_short = False
        # Origin -> the number of earlier origins of its region.
        self.counts: dict[int, int] = {}
        # 0 until the process has an origin.
        self.origin = 0
        self.id_mode = STRICT
        self.requirepass = b""
        self.rewrite_wanted = False
        self.rewrite_failure = ""
        self.stop_wanted = False
        self.stop_at_once = False
        self.saving = Saving()
        self.effects_saved = 0
        self.draws = 0
        self.about = About()

    def configure(self, config: Config) -> None:
        self.id_mode = config.id_mode
        self.reconfigure(config)
        about = self.about
        about.name = config.name
        about.region = config.region
        about.cluster = config.cluster
        about.fsync = config.fsync
        about.port = config.port
        about.peers_configured = len(config.peers)

    def reconfigure(self, config: Config) -> None:
        """Apply settings that may change while the region runs; the node and the runtime read `config` when needed."""
        self.config = config
        self.limits = config.limits
        self.ranges.limit(config.limits.merged_ranges_bytes_max)
        self.slow_log.limit(config.limits.slow_command_us, config.limits.slow_log_entries_max)
        self.notifications.configure(config.notify_keyspace_events)
        self.requirepass = config.requirepass.encode("utf-8", "surrogateescape")
        self.measure_memory()

    def idle_ms(self, since_ms: int) -> int:
        """The milliseconds since a time. A time later than now was recorded before the clock was set back, so the idle
        time then counts from `set_back_ms`.
        """
        if since_ms > self.now_ms:
            since_ms = self.set_back_ms
        return max(0, self.now_ms - since_ms)

    def observe(self, memory_bytes: int, cpu_user_s: float, cpu_system_s: float) -> None:
        """Record what the process uses now."""
        about = self.about
        about.memory_bytes, about.cpu_user_s, about.cpu_system_s = memory_bytes, cpu_user_s, cpu_system_s
        self.measure_memory()

    def measure_memory(self) -> None:
        """Compare memory with its limit. The measure is the resident size last seen by the runtime, so memory freed by
        a removal counts until the allocator returns it.
        """
        about, memory_max = self.about, self.limits.memory_bytes_max
        about.memory_peak_bytes = max(about.memory_peak_bytes, about.memory_bytes)
        self.memory_short = 0 < memory_max < about.memory_bytes

    def saved_ms(self) -> int:
        """When the last checkpoint was completed, or else when the process started, with everything on disk loaded."""
        return self.saving.saved_ms or self.started_ms

    def key(self, client: Client, name: bytes) -> tuple[int, bytes]:
        return (client.database, name)

    def take_changes(self) -> list[Key]:
        """Take the keys that changed since the last call, and mark the clients that watch them."""
        touched = self.replica.changed.take_touched()
        if touched and len(self.watches):
            self.watches.note(touched)
        return touched

    def end_transaction(self, client: Client) -> None:
        """Return to the state before MULTI and WATCH."""
        client.transaction = None
        self.watches.forget(client)

    def close(self, client: Client) -> None:
        """Close a client once its replies are written."""
        if not client.closing:
            client.closing = True
            self.leaving.append(client)

    def drop(self, client: Client) -> None:
        """Close a client now, even if it has unread replies."""
        if not client.dropped:
            client.closing = client.dropped = True
            self.leaving.append(client)

    def park(self, waiter: Waiter) -> None:
        """Let a client wait, if the limit on waiting clients allows it."""
        if len(self.parking) >= self.limits.blocked_clients_max:
            raise CommandError(f"ERR max number of blocked clients reached: {self.limits.blocked_clients_max}")
        self.parking.park(waiter)

    def unpark(self, client: Client) -> Waiter | None:
        """End a client's wait, for whatever reason. Only now is it known whether its command was slow."""
        waiter = self.parking.leave(client.id)
        if waiter is not None and client.took_ns >= self.slow_log.least_ns:
            self.log_slow(client, client.request, client.took_ns)
        return waiter

    def log_slow(self, client: Client, argv: list[bytes], took_ns: int) -> None:
        self.slow_log.add(argv, took_ns, self.now_ms, client.address, client.name)


Reply = bytes | None
IdRange = tuple[EntryId, EntryId]
