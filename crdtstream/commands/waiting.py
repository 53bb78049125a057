"""WAIT and WAITAOF: how many other regions have the caller's writes on their disks.

A region that has the effects only in memory does not count, and neither does this region. WAITAOF tells in addition
whether this region has them on its disk.

Of a connection that wrote, the effects up to its last write are asked for, and a region that has reported them counts
for as long as it is known: what is durable stays durable. A connection that wrote nothing may be one of a pool whose
writes went over another one. It asks for everything that this region has when the wait begins, and as in Redis only
regions that are linked count.

Reference: `waitCommand` and `waitaofCommand` of Redis.
"""

from __future__ import annotations

from crdtstream.commands.integers import deadline, integer
from crdtstream.connections.client import Client
from crdtstream.connections.command import Command
from crdtstream.connections.context import CommandError, Context, Reply, Waiter
from crdtstream.core.values.causality import VersionVector, region_of
from crdtstream.protocols import replies


class HoldersWaiter(Waiter):
    """A client that waits until enough other regions hold durably what it asks for: this origin's effects up to
    `counter`, or, if that is 0, the whole `vector`.
    """

    def __init__(self, context: Context, client: Client, wanted: int, deadline_ms: int) -> None:
        super().__init__(client, [], deadline_ms)
        self.wanted = wanted
        replica = context.replica
        written = client.written_counter
        # Acknowledgements become effects at the end of the turn, and what a client wrote includes its own.
        if not written or written > replica.applied.counter():
            replica.acknowledge_all()
        # A written counter allows for an acknowledgement that added nothing.
        self.counter = min(written, replica.applied.counter())
        self.vector = VersionVector() if self.counter else replica.applied.vector.copy()

    def serve(self, context: Context) -> bytes | None:
        held = self.holder_count(context)
        return replies.integer(held) if held >= self.wanted else None

    def expired(self, context: Context) -> bytes:
        return replies.integer(self.holder_count(context))

    def holder_count(self, context: Context) -> int:
        """How many other regions hold it."""
        own = context.replica.applied.origin
        progress = context.cluster.progress
        if self.counter:
            holders = set(progress.holders(own, self.counter))
        else:
            linked = context.cluster.neighbours.linked()
            holders = {region_of(origin) for origin in linked if progress.holds_all(origin, self.vector)}
        return len(holders - {region_of(own)})


class DurableWaiter(HoldersWaiter):
    """A client that waits until this region (`local` is 1), and enough others, hold durably what it asks for."""

    def __init__(self, context: Context, client: Client, local: int, wanted: int, deadline_ms: int) -> None:
        super().__init__(context, client, wanted, deadline_ms)
        self.local = local

    def serve(self, context: Context) -> bytes | None:
        local, held = self.durable_here(context), self.holder_count(context)
        return self.expired(context) if local >= self.local and held >= self.wanted else None

    def expired(self, context: Context) -> bytes:
        held = self.holder_count(context)
        return replies.array([replies.integer(self.durable_here(context)), replies.integer(held)])

    def durable_here(self, context: Context) -> int:
        durable = context.cluster.neighbours.durable()
        if self.counter:
            return int(durable.contains(context.replica.applied.origin, self.counter))
        return int(durable.descends(self.vector))


def wait(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """WAIT regions timeout."""
    wanted = integer(argv[1])
    deadline_ms = deadline(argv[2], context.now_ms)
    return begin(context, HoldersWaiter(context, client, wanted, deadline_ms))


def wait_durable(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """WAITAOF numlocal regions timeout."""
    local = integer(argv[1])
    if not 0 <= local <= 1:
        raise CommandError("ERR value is out of range, value must between 0 and 1")
    wanted = integer(argv[2])
    if wanted < 0:
        raise CommandError("ERR value is out of range, must be positive")
    deadline_ms = deadline(argv[3], context.now_ms)
    return begin(context, DurableWaiter(context, client, local, wanted, deadline_ms))


def begin(context: Context, waiter: HoldersWaiter) -> Reply:
    """Answer at once if there is nothing to wait for."""
    reply = waiter.serve(context)
    if reply is None:
        context.park(waiter)
    return reply


COMMANDS: list[Command] = [
    Command(
        "wait",
        wait,
        arity=3,
        flags="blocking",
        categories="connection",
        since="3.0.0",
        group="generic",
        summary="Blocks until other regions have the connection's writes on their disks.",
        syntax="numreplicas# timeout#",
    ),
    Command(
        "waitaof",
        wait_durable,
        arity=4,
        flags="blocking",
        categories="connection",
        since="7.2.0",
        group="generic",
        summary="Blocks until this region and others have the connection's writes on their disks.",
        syntax="numlocal# numreplicas# timeout#",
    ),
]
