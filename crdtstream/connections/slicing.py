"""Commands that take several turns: each turn does one slice of one of them, so that only their own clients wait.

What fits into one slice is answered at once. The rest is done at the ends of turns, one work after the other, a slice
of each. Of those that hold memory (`Work.is_alone`) one is under way at a time, until its client is answered; the
others begin behind it, in the order of their arrival. A work that no client waits for any more is abandoned. Inside
EXEC, where nothing may wait, a work is done in one piece.

No work changes anything before its end, so all of them can be cut short when a region cannot wait for them.

A slice that needs spilled blocks has changed nothing. Its work keeps its place until they were read, and others go on.
"""

from __future__ import annotations

from crdtstream.connections.admission import REFUSED
from crdtstream.connections.calling import error_reply
from crdtstream.connections.client import Client
from crdtstream.connections.context import CommandError, Context, Reply, Waiter, Work
from crdtstream.connections.parking import NO_DEADLINE


class WorkWaiter(Waiter):
    """A client whose command takes several turns, or waits for the admission of this region's origin behind them."""

    def __init__(self, client: Client, work: Work, done: bool) -> None:
        super().__init__(client, [], NO_DEADLINE)
        self.work = work
        self.done = done
        # What ended the work early; it becomes an error reply, and a line of the log.
        self.fault: Exception | None = None

    def serve(self, context: Context) -> bytes | None:
        if self.fault is not None:
            raise self.fault
        reply = self.work.finish(context, self.client) if self.done else None
        if self.done and reply is None and self.end_ms == NO_DEADLINE:
            self.await_admission(context)
        return reply

    def await_admission(self, context: Context) -> None:
        self.end_ms = context.now_ms + context.limits.admission_wait_ms
        context.parking.postpone(self, self.end_ms)

    def expired(self, context: Context) -> bytes:
        """Inside EXEC, or not admitted in time."""
        while not self.work.step(context):
            pass
        try:
            return self.work.finish(context, self.client) or REFUSED
        except CommandError as error:
            return error_reply(context, error)


def begin(context: Context, client: Client, work: Work) -> Reply:
    """Do the first slice, unless another work comes first, and answer at once if that is all."""
    try:
        done = not comes_behind(context, work) and work.step(context)
    except Exception:
        # Its command fails, or runs again from its start, with a work of its own.
        work.release()
        raise
    if not done:
        context.works.append(work)
        return join(context, client, work)
    reply = work.finish(context, client)
    if reply is None:
        waiter = WorkWaiter(client, work, True)
        context.park(waiter)
        waiter.await_admission(context)
    return reply


def join(context: Context, client: Client, work: Work) -> Reply:
    """Wait for a work that has begun."""
    context.park(WorkWaiter(client, work, False))
    return None


def comes_behind(context: Context, work: Work) -> bool:
    """True if this new work has to wait for another one."""
    return work.is_alone() and (any(one.is_alone() for one in context.works) or holder(context) is not None)


def holder(context: Context) -> Work | None:
    """The work that holds memory, done or not, and that a client waits for."""
    for waiter in context.parking.keyless():
        if isinstance(waiter, WorkWaiter) and waiter.work.is_alone() and waiter.work.has_begun():
            return waiter.work
    return None


def cut_short(context: Context) -> None:
    """Let go of all works that are not done. Their clients wait on, until they are answered otherwise."""
    for work in context.works:
        work.release()
        context.deferred_work.forget(work)
    context.works = []


def unblocked_works(context: Context) -> list[Work]:
    """The works that do not wait for another one, which keep their places."""
    held = holder(context)
    return [work for work in context.works if held is None or work is held or not work.is_alone()]


def next_work(context: Context) -> Work | None:
    """The work whose turn it is."""
    return next((work for work in unblocked_works(context) if not context.deferred_work.awaits(work)), None)


def is_due(context: Context) -> bool:
    """True if a slice can be done now."""
    return next_work(context) is not None


def go_on(context: Context) -> bool:
    """Do a slice of the work whose turn it is; true if that finished it, so that its clients can be served."""
    waiters = [waiter for waiter in context.parking.keyless() if isinstance(waiter, WorkWaiter)]
    abandon(context, {waiter.work for waiter in waiters})
    first = next_work(context)
    if first is None:
        return False
    fault: Exception | None = None
    piece = WorkSlice(context, first)
    try:
        if not context.deferred_work.run(first, piece.run, is_patient=False):
            return False
    except Exception as error:
        fault = error
    done = piece.done or fault is not None
    context.works.remove(first)
    if not done:
        context.works.append(first)
    for waiter in waiters:
        if waiter.work is first:
            waiter.done, waiter.fault = done, fault
    return done


class WorkSlice:
    """One slice of a work, and whether it was the last."""

    def __init__(self, context: Context, work: Work) -> None:
        self.done = False
        self._context = context
        self._work = work

    def run(self) -> None:
        self.done = self._work.step(self._context)


def abandon(context: Context, wanted: set[Work]) -> None:
    """Let go of the works that no client waits for."""
    for work in context.works:
        if work not in wanted:
            work.release()
            context.deferred_work.forget(work)
    context.works = [work for work in context.works if work in wanted]


def is_at_work(context: Context, client: Client) -> bool:
    """True if the client waits for a work that is not done, or that a pause keeps from its end."""
    waiter = context.parking.waiters.get(client.id)
    if not isinstance(waiter, WorkWaiter):
        return False
    return not waiter.done or (client.command is not None and context.pause.stops(client.command, client))
