"""What a command sees: the replica, the clock of this turn, the clients, and the readers that wait.

A command is a function `(context, client, argv) -> reply`: parse, operate, reply. The reply is RESP bytes; None means
that the client was parked (or that its reply comes later). A refusal is raised as `CommandError`.

Invariant: a command changes nothing but the replica, its own client, the parking and the outbox; what it does to
another client goes through `close` or the outbox.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, Protocol

from crdtstream.commands.parking import Parking, Waiter
from crdtstream.commands.saving import Saving
from crdtstream.commands.scan import ScanOrder
from crdtstream.commands.slow_log import SlowLog
from crdtstream.commands.statistics import Statistics
from crdtstream.commands.stopwatch import Stopwatch
from crdtstream.commands.watching import Transaction, Watches
from crdtstream.config import EVERYSEC, Config, Limits
from crdtstream.core.causality import Origin, VersionVector
from crdtstream.core.effects import Key
from crdtstream.core.entry_id import STRICT, EntryId
from crdtstream.core.merged_ranges import MergedRanges
from crdtstream.core.replica import Replica


class CommandError(Exception):
    """An error reply; the text begins with its code: `ERR ...`, `NOGROUP ...`.

    Bytes that came from a client go in through `shown`, so that the reply carries them as they were.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


def shown(value: bytes) -> str:
    """A client's bytes as part of an error text; as in C, a NUL hides what follows it."""
    return value.partition(b"\0")[0].decode("utf-8", "surrogateescape")


class Progress(Protocol):
    """What other members have told about themselves: the port to `replication`, for WAIT and for operators."""

    def holders(self, slot: int, counter: int) -> Iterable[int]:
        """The regions that hold this origin's effects up to the counter durably."""

    def applied_of(self, slot: int) -> VersionVector: ...

    def durable_of(self, slot: int) -> VersionVector: ...


class Retention(Protocol):
    """How long the log reaches back, and for whom: the port to `replication`, for operators."""

    def held_back(self, slot: int) -> int:
        """The bytes of the log that are kept for this origin."""


class Audit(Protocol):
    """What comparing sums with other regions has come to: the port to `replication`, for operators.

    `rounds` of sums that were made, the last one at `last_ms`; with peers at the same vector `comparisons` of them, and
    `differences` among these.
    """

    @property
    def rounds(self) -> int: ...
    @property
    def comparisons(self) -> int: ...
    @property
    def differences(self) -> int: ...
    @property
    def last_ms(self) -> int: ...


REPLIES_ON: Final = 0
REPLIES_OFF: Final = 1
REPLIES_SKIP_NEXT: Final = 2


class Client:
    """One connection to the Redis port. While it waits, `request` is what it waits in, and ran for `took_ns` by now."""

    __slots__ = (
        "address",
        "authenticated",
        "backlog",
        "backlog_bytes",
        "closing",
        "connected_ms",
        "database",
        "dropped",
        "id",
        "last_command",
        "last_ms",
        "lib_name",
        "lib_version",
        "local_address",
        "name",
        "no_evict",
        "no_touch",
        "parked",
        "protocol",
        "reply_mode",
        "request",
        "took_ns",
        "transaction",
        "watch_failed",
        "watched",
        "written_counter",
    )

    def __init__(self, client_id: int, address: str, now_ms: int, authenticated: bool) -> None:
        self.id = client_id
        self.address = address
        self.local_address = ""
        self.connected_ms = now_ms
        self.last_ms = now_ms
        self.authenticated = authenticated
        self.database = 0
        self.protocol = 2
        self.name = b""
        self.lib_name = b""
        self.lib_version = b""
        self.last_command = ""
        self.reply_mode = REPLIES_ON
        self.no_evict = False
        self.no_touch = False
        self.parked = False
        self.request: list[bytes] = []
        self.took_ns = 0
        self.closing = False
        self.dropped = False
        self.written_counter = 0
        self.transaction: Transaction | None = None
        self.watched: dict[Key, bool] = {}
        self.watch_failed = False
        self.backlog: deque[list[bytes]] = deque()
        self.backlog_bytes = 0


class TransferShown:
    """A state transfer that is under way, in its direction, and what of it has gone or come by now."""

    __slots__ = ("byte_count", "chunks", "direction")

    def __init__(self, direction: str, chunks: int, byte_count: int) -> None:
        self.direction = direction
        self.chunks = chunks
        self.byte_count = byte_count


class Peer:
    """A link to another region, as INFO and CRDT.REGIONS show it; slot 0 until its origin is known. `sent_bytes`: of
    batches, since the link opened.
    """

    __slots__ = ("address", "link", "name", "region", "sent_bytes", "silent_ms", "slot", "transfer")

    def __init__(self, region: int, name: str, address: str, link: str, silent_ms: int, slot: int = 0) -> None:
        self.region = region
        self.name = name
        self.address = address
        self.link = link
        self.silent_ms = silent_ms
        self.slot = slot
        self.sent_bytes = 0
        self.transfer: TransferShown | None = None


class About:
    """What the region and its process are called; the runtime fills in what only it knows."""

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


class Context:
    """One region as its commands see it; `now_ms` is set at the start of each command, `set_back_ms` is the time to
    which the clock was set back last, or that of the start.

    What commands want of the runtime: a checkpoint (`saving`), the settings written to their file (`rewrite_wanted`),
    a clean stop (`stop_wanted`).

    `damages` are the places of the log, file and byte, that could not be read since the start.
    """

    __slots__ = (
        "about",
        "applicant",
        "audit",
        "clients",
        "config",
        "damages",
        "draws",
        "durable",
        "effects_saved",
        "id_mode",
        "leaving",
        "limits",
        "loading",
        "memory_short",
        "now_ms",
        "origin",
        "outbox",
        "parking",
        "peers",
        "progress",
        "ranges",
        "replica",
        "requirepass",
        "retention",
        "rewrite_failure",
        "rewrite_wanted",
        "saving",
        "scans",
        "set_back_ms",
        "slow_log",
        "started_ms",
        "statistics",
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
        self.parking = Parking()
        self.watches = Watches()
        self.outbox: list[tuple[Client, bytes]] = []
        self.leaving: list[Client] = []
        self.peers: list[Peer] = []
        self.durable = VersionVector()
        self.statistics = Statistics()
        self.stopwatch = Stopwatch()
        self.slow_log = SlowLog()
        self.slow_log.limit(limits.slow_command_us, limits.slow_log_entries_max)
        self.writable = True
        self.loading = ""
        self.applicant = False
        self.retention: Retention | None = None
        self.audit: Audit | None = None
        self.damages: list[str] = []
        self.memory_short = False
        self.origin: Origin | None = None
        self.id_mode = STRICT
        self.requirepass = b""
        self.rewrite_wanted = False
        self.rewrite_failure = ""
        self.stop_wanted = False
        self.scans: dict[int, ScanOrder] = {}
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
        """What may change while the region runs; the node and the runtime look at `config` when they need it."""
        self.config = config
        self.limits = config.limits
        self.ranges.limit(config.limits.merged_ranges_bytes_max)
        self.slow_log.limit(config.limits.slow_command_us, config.limits.slow_log_entries_max)
        self.requirepass = config.requirepass.encode("utf-8", "surrogateescape")
        self.measure_memory()

    def idle_ms(self, since_ms: int) -> int:
        """What happened at a time that has not come again happened before the clock was set back."""
        if since_ms > self.now_ms:
            since_ms = self.set_back_ms
        return max(0, self.now_ms - since_ms)

    def measure_memory(self) -> None:
        """What is used is what is resident, as the runtime last saw it: memory that a removal frees counts until the
        allocator gives it back.
        """
        about, memory_max = self.about, self.limits.memory_bytes_max
        about.memory_peak_bytes = max(about.memory_peak_bytes, about.memory_bytes)
        self.memory_short = 0 < memory_max < about.memory_bytes

    def saved_ms(self) -> int:
        """When the last checkpoint was complete, or this start, which had all that was on disk."""
        return self.saving.saved_ms or self.started_ms

    def key(self, client: Client, name: bytes) -> tuple[int, bytes]:
        return (client.database, name)

    def take_changes(self) -> list[Key]:
        """The keys that changed since the last time; those who watch them have been told."""
        touched = self.replica.take_touched()
        if touched and len(self.watches):
            self.watches.note(touched)
        return touched

    def end_transaction(self, client: Client) -> None:
        """Back to the state before MULTI and WATCH."""
        client.transaction = None
        self.watches.forget(client)

    def close(self, client: Client) -> None:
        """Close a client once its replies are written."""
        if not client.closing:
            client.closing = True
            self.leaving.append(client)

    def drop(self, client: Client) -> None:
        """Close a client now, whatever it has not read."""
        if not client.dropped:
            client.closing = client.dropped = True
            self.leaving.append(client)

    def park(self, waiter: Waiter) -> None:
        """Let a client wait, while there is room for one more."""
        if len(self.parking) >= self.limits.blocked_clients_max:
            raise CommandError(f"ERR max number of blocked clients reached: {self.limits.blocked_clients_max}")
        self.parking.park(waiter)

    def unpark(self, client: Client) -> Waiter | None:
        """The wait is over, whoever ended it: only now it is known whether the command was slow."""
        waiter = self.parking.leave(client.id)
        if waiter is not None and client.took_ns >= self.slow_log.least_ns:
            self.log_slow(client, client.request, client.took_ns)
        return waiter

    def log_slow(self, client: Client, argv: list[bytes], took_ns: int) -> None:
        self.slow_log.add(argv, took_ns, self.now_ms, client.address, client.name)


Reply = bytes | None
IdRange = tuple[EntryId, EntryId]
