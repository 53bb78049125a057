"""What a command sees: the replica, the clock of this turn, the clients, and the waiting readers.

A command is a function `(context, client, argv) -> reply` in three steps: parse, operate, reply. The reply is RESP
bytes; None means that the client was parked, or that its reply comes later. An error is raised as `CommandError`.

Invariant: a command changes only the replica, its own client, the parking and the outbox; it affects another client
only through `close` or the outbox.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from mypy_extensions import mypyc_attr

from crdtstream.connections.acl.users import Users
from crdtstream.connections.alarms import Alarms
from crdtstream.connections.blocks.reads import BlockReads
from crdtstream.connections.blocks.spilling import Spilling
from crdtstream.connections.client import Client
from crdtstream.connections.clock import Clock
from crdtstream.connections.cluster import ClusterPorts
from crdtstream.connections.notifications import MISS, Notifications
from crdtstream.connections.parking import Parked, Parking
from crdtstream.connections.pausing import Pause
from crdtstream.connections.process import About, Requests
from crdtstream.connections.saving import Saving
from crdtstream.connections.shards import ShardMap
from crdtstream.connections.slow_log import SlowLog
from crdtstream.connections.statistics import Statistics, Stopwatch
from crdtstream.connections.subscriptions import Subscriptions
from crdtstream.connections.watching import Watches
from crdtstream.core.deferred_work import DeferredWork
from crdtstream.core.effects import Key
from crdtstream.core.merged_ranges import MergedRanges
from crdtstream.core.packing_walk import PackingWalk
from crdtstream.core.replica import Replica
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.entry_id import EntryId
from crdtstream.settings.config import Config, Limits
from crdtstream.settings.live import Settings
from crdtstream.status.availability import Standing
from crdtstream.status.events import Notice

Notices = list[Notice]


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


@mypyc_attr(allow_interpreted_subclasses=True)
class Waiter(Parked, ABC):
    """A client that waits, with the code to serve it."""

    @abstractmethod
    def serve(self, context: Context) -> bytes | None:
        """The reply, or None to go on waiting; may raise CommandError, which also ends the wait."""

    @abstractmethod
    def expired(self, context: Context) -> bytes:
        """The reply once the wait has ended."""

    def retry_ms(self, context: Context) -> int:
        """When to serve this client again although no key changes."""
        return self.end_ms


@mypyc_attr(allow_interpreted_subclasses=True)
class Work(ABC):
    """What a command does in several turns (slicing.py); no method leaves anything half done."""

    def is_alone(self) -> bool:
        """True if it holds memory until its client is answered, so that one such work is under way at a time."""
        return False

    def has_begun(self) -> bool:
        """False until its first slice, if it is such a work."""
        return True

    @abstractmethod
    def step(self, context: Context) -> bool:
        """Do the next slice, if there is one; true once all is done."""

    @abstractmethod
    def finish(self, context: Context, client: Client) -> bytes | None:
        """The reply to a client, once all is done; may change the replica, and may raise CommandError. None if it has
        to wait for the admission of this region's origin.
        """

    @abstractmethod
    def release(self) -> None:
        """Let go of what it has registered: no client waits for it any more."""


class Context:
    """One region as its commands see it: its clients, and values that are shared with their owners.

    `settings`, `standing`, `clock` and `cluster` say what the region is set to, can do now, and knows of other regions;
    `shards` says which shard of its region this is; None if the region has one shard only. `saving` and `requests` are
    what commands request from the runtime, `about` is what it tells. `works` take several turns; `notices` are warnings
    for the log of the process.
    """

    __slots__ = (
        "about",
        "alarms",
        "block_reads",
        "clients",
        "clock",
        "cluster",
        "deferred_work",
        "draws",
        "leaving",
        "monitors",
        "notices",
        "notifications",
        "outbox",
        "packing",
        "parking",
        "pause",
        "pubsub",
        "random_bytes",
        "ranges",
        "replica",
        "requests",
        "saving",
        "settings",
        "shards",
        "slow_log",
        "spilling",
        "standing",
        "statistics",
        "stopwatch",
        "users",
        "watches",
        "works",
    )

    def __init__(
        self,
        settings: Settings,
        standing: Standing,
        replica: Replica,
        cluster: ClusterPorts,
        notices: Notices,
        now_ms: int,
    ) -> None:
        self.settings = settings
        self.standing = standing
        self.replica = replica
        replica.exact_intervals_max = settings.limits.exact_intervals_max
        limit_names(replica, settings.limits)
        self.cluster = cluster
        self.shards: ShardMap | None = None
        self.notices = notices
        self.clock = Clock(replica.keyspace, now_ms)
        self.clients: dict[int, Client] = {}
        self.users = Users()
        self.users.require_password(settings.password())
        self.ranges = MergedRanges(settings.limits.merged_ranges_bytes_max)
        self.packing = PackingWalk(replica.keyspace)
        self.replica.reads = self.packing.open_blocks.reads
        self.block_reads = BlockReads()
        self.deferred_work = DeferredWork(replica, self.block_reads)
        self.parking: Parking[Waiter] = Parking()
        self.pause = Pause(standing)
        self.watches = Watches()
        self.pubsub = Subscriptions()
        self.monitors: dict[int, Client] = {}
        self.notifications = Notifications(replica, self.pubsub)
        self.outbox: list[tuple[Client, bytes]] = []
        self.leaving: list[Client] = []
        self.statistics = Statistics()
        self.alarms = Alarms()
        self.stopwatch = Stopwatch()
        # Random bytes for ACL GENPASS; the runtime lends them.
        self.random_bytes: Callable[[int], bytes] | None = None
        self.slow_log = SlowLog()
        self.works: list[Work] = []
        self.requests = Requests()
        self.saving = Saving()
        self.spilling = Spilling(settings, standing, self.saving, replica.keyspace, self.packing.open_blocks)
        self.draws = 0
        self.about = About()
        self.reconfigure(settings.config)

    @property
    def limits(self) -> Limits:
        return self.settings.limits

    def clients_max(self) -> int:
        """How many clients are served at once: as many as are configured, or as open files allow."""
        asked, possible = self.limits.clients_max, self.about.clients_possible
        return min(asked, possible) if possible else asked

    @property
    def now_ms(self) -> int:
        """The time of this turn."""
        return self.replica.keyspace.now_ms

    def reconfigure(self, config: Config) -> None:
        """Apply settings that may change while the region runs."""
        before = self.settings.password()
        self.settings.change(config)
        self.cluster.neighbours.follow(config.peers)
        if self.settings.password() != before:
            self.users.require_password(self.settings.password())
            self.recognise_all()
        self.users.log.limit(config.limits.acl_log_entries_max)
        self.ranges.limit(config.limits.merged_ranges_bytes_max)
        self.packing.open_blocks.limit(config.limits.open_blocks_bytes_max)
        self.replica.reads.on = self.replica.reads.on or config.limits.hot_bytes_max > 0
        self.slow_log.limit(config.limits.slow_command_us, config.limits.slow_log_entries_max)
        self.replica.applied.conflicts.limit(config.limits.conflict_entries_max)
        self.notifications.configure(config.notify_keyspace_events)
        self.replica.exact_intervals_max = config.limits.exact_intervals_max
        limit_names(self.replica, config.limits)
        self.measure_memory()

    def recognise_all(self) -> None:
        """Users have changed: note which clients may do everything."""
        for client in self.clients.values():
            self.recognise(client)

    def recognise(self, client: Client) -> None:
        may_speak = client.authenticated or not self.users.requires_login()
        client.unrestricted = may_speak and client.user.unrestricted

    def observe(self, memory_bytes: int, cpu_user_s: float, cpu_system_s: float) -> None:
        """Record what the process uses now."""
        about = self.about
        about.memory_bytes, about.cpu_user_s, about.cpu_system_s = memory_bytes, cpu_user_s, cpu_system_s
        self.measure_memory()

    def measure_memory(self) -> None:
        """Compare memory with its limit. The measure is the resident size last seen by the runtime, so memory freed by
        a removal counts until the allocator returns it.
        """
        about, memory_max = self.about, self.settings.limits.memory_bytes_max
        about.memory_peak_bytes = max(about.memory_peak_bytes, about.memory_bytes)
        self.standing.memory_short = 0 < memory_max < about.memory_bytes

    def saved_ms(self) -> int:
        """When the last checkpoint was completed, or else when the process started, with everything on disk loaded."""
        return self.saving.saved_ms or self.clock.started_ms

    def key(self, client: Client, name: bytes) -> tuple[int, bytes]:
        return (client.database, name)

    def look_up(self, key: Key) -> Stream | None:
        """The stream of a key that a command reads; counts a hit or a miss, and tells the miss."""
        stream = self.replica.keyspace.find(key)
        self.count_look_up(key, stream is not None)
        return stream

    def count_look_up(self, key: Key, found: bool) -> None:
        if found:
            self.statistics.hits += 1
        else:
            self.statistics.misses += 1
            self.notifications.notify(MISS, b"keymiss", key)

    def drain_changes(self) -> list[Key]:
        """Take the keys that changed since the last call, and mark the clients that watch them."""
        touched = self.replica.changed.drain_touched()
        if touched and self.watches.by_key:
            self.watches.mark(touched)
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
        clients_max = self.settings.limits.blocked_clients_max
        if len(self.parking) >= clients_max:
            raise CommandError(f"ERR max number of blocked clients reached: {clients_max}")
        self.parking.park(waiter)

    def set_back(self, now_ms: int) -> None:
        """The clock is about to be set back to this time: deadlines move with it."""
        self.parking.shift(now_ms - self.now_ms)
        self.pause.shift(now_ms - self.now_ms)
        self.clock.set_back_ms = now_ms

    def next_deadline_ms(self) -> int | None:
        """When a client that waits is to be looked at, or a pause ends."""
        deadline_ms, end_ms = self.parking.next_deadline_ms(), self.pause.end_ms
        if not end_ms:
            return deadline_ms
        return end_ms if deadline_ms is None else min(deadline_ms, end_ms)

    def blocked_clients(self) -> int:
        """How many clients wait in a command, or for the end of a pause."""
        return len(self.parking) + len(self.pause.waiting)

    def unpark(self, client: Client) -> Waiter | None:
        """End a client's wait, for whatever reason. Only now is it known whether its command was slow."""
        waiter = self.parking.leave(client.id)
        if waiter is not None and client.took_ns >= self.slow_log.least_ns:
            self.log_slow(client, client.request, client.took_ns)
        return waiter

    def log_slow(self, client: Client, argv: list[bytes], took_ns: int) -> None:
        self.slow_log.add(argv, took_ns, self.now_ms, client.address, client.name)


def limit_names(replica: Replica, limits: Limits) -> None:
    replica.keyspace.named.limit(limits.names_max, limits.stream_idmp_duration_s, limits.stream_idmp_entries_max)


Reply = bytes | None
IdRange = tuple[EntryId, EntryId]
