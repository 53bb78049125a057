"""Commands that create groups wait until this region's origin is admitted, for `admission_wait_ms`.

Until then nothing of the command is done. It is executed from the start once the origin is admitted, because other
clients and regions may have changed what it is about meanwhile; inside EXEC, where nothing may wait, it is refused.
"""

from __future__ import annotations

from crdtstream.connections.client import Client
from crdtstream.connections.command import Function
from crdtstream.connections.context import CommandError, Context, Reply, Waiter
from crdtstream.protocols import replies

NOT_ADMITTED = (
    "TRYAGAIN this region has started as a new origin and cannot create groups until another region admits it:"
    " try again; if this lasts, evict members that are down (CRDT.MEMBERS lists them, CRDT.EVICT evicts), and start"
    " configured peers that were never reached (CRDT.REGIONS lists them) or remove them from the settings"
)
REFUSED = replies.error(NOT_ADMITTED.encode())


def must_wait(context: Context) -> bool:
    """True if a command that creates groups has to wait; raises TRYAGAIN if it may not."""
    admission = context.cluster.admission
    if admission is None:
        return False
    if admission.admitted:
        admission.say_admitted()
        return False
    admission.want()
    if context.limits.admission_wait_ms == 0:
        raise CommandError(NOT_ADMITTED)
    return True


class AdmissionWaiter(Waiter):
    """A command that waits until this region's origin is admitted, and is then executed from the start."""

    def __init__(self, client: Client, function: Function, argv: list[bytes], deadline_ms: int) -> None:
        super().__init__(client, [], deadline_ms)
        self.function = function
        self.argv = argv

    def serve(self, context: Context) -> bytes | None:
        admission = context.cluster.admission
        assert admission is not None
        if context.standing.departing:
            raise CommandError(f"READONLY {context.standing.departing}")
        if not admission.admitted:
            return None
        return self.function(context, self.client, self.argv)

    def expired(self, context: Context) -> bytes:
        return REFUSED


def await_admission(context: Context, client: Client, function: Function, argv: list[bytes]) -> Reply:
    """Execute this command, which must wait, once the origin is admitted."""
    context.park(AdmissionWaiter(client, function, argv, context.now_ms + context.limits.admission_wait_ms))
    return None
