"""Serving clients: whose request runs now, which clients wait and for what, whose replies go out, which are closed.

A request that cannot be answered yet parks its client; later requests of that client wait in its backlog, which is
limited to `query_bytes_max`. Requests beyond the client's share of the turn go there too (see
connections/allowance.py). `wake` serves the clients that wait for a changed key. `resume` runs the backlogs, at the end
of each turn and as long as some of the turn is left.

Invariant: a client that has a backlog, and is neither parked nor closing, is in one of two queues, once. Clients in
`_arrived` have had no share since their request, those in `_continuing` had one. Each turn serves at least one client
of each queue, so a small request waits for few large ones, and no client waits for ever.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Final

from crdtstream.commands.bursts import add_alike, add_burst, ahead_max, burst_end, burst_in, may_begin
from crdtstream.commands.dispatch import dispatch
from crdtstream.commands.routing import redirection_of
from crdtstream.commands.waiting import DurableWaiter
from crdtstream.connections.allowance import Allowance
from crdtstream.connections.calling import error_reply, serve
from crdtstream.connections.client import Client, size_of
from crdtstream.connections.context import CommandError, Context, Notices, Reply, Waiter
from crdtstream.connections.outputs import Outputs
from crdtstream.connections.shards import ShardMap
from crdtstream.connections.slicing import go_on, is_due
from crdtstream.core.entries.spilled import NotAtOnce
from crdtstream.core.expiring import expire_due
from crdtstream.core.names.duplicates import remove_all_lost
from crdtstream.core.replica import Replica
from crdtstream.status.events import Notice

# The limit on the backlog of a client that has not authenticated, for example while it waits for a wrong password.
STRANGER_BYTES_MAX: Final = 1 << 20


class Serving:
    """The clients of one region; replies go to `outputs`, internal faults to `notices`."""

    __slots__ = ("_arrived", "_context", "_continuing", "_notices", "_outputs", "_replica", "_turn")

    def __init__(self, context: Context, replica: Replica, outputs: Outputs, notices: Notices) -> None:
        self._context = context
        self._replica = replica
        self._outputs = outputs
        self._notices = notices
        self._turn = Allowance()
        self._arrived: deque[Client] = deque()
        self._continuing: deque[Client] = deque()

    # Connections

    def connect(self, client_id: int, address: str, now_ms: int) -> Client:
        client = Client(client_id, address, now_ms, self._context.users.default)
        self._context.clients[client_id] = client
        self._context.statistics.connections += 1
        return client

    def disconnect(self, client_id: int) -> None:
        self._context.parking.leave(client_id)
        self._context.pause.forget(client_id)
        self._context.block_reads.forget(client_id)
        client = self._context.clients.pop(client_id, None)
        if client is not None:
            self._context.end_transaction(client)
            self._context.pubsub.forget(client)
            self._context.monitors.pop(client_id, None)
        self._outputs.drop(client_id)

    def refuse(self, client_id: int, reply: bytes) -> None:
        """Send a last reply after the replies still due, and then close the connection."""
        self._part(self._context.clients[client_id], reply)

    def end(self, client_id: int) -> None:
        """The client has closed its sending side: close the connection once all its requests are answered."""
        client = self._context.clients.get(client_id)
        if client is not None:
            self._part(client, b"")

    def _part(self, client: Client, farewell: bytes) -> None:
        # The connection closes later if requests remain to be answered first. A parked client that only stopped sending
        # is closed at once, because no reply is due for a wait that it gives up.
        if farewell if client.parked and not self._context.block_reads.has(client.id) else client.backlog:
            client.farewell = farewell
        elif not client.closing:
            if farewell:
                self._reply(client.id, farewell)
            self._context.close(client)

    def close_idle(self, idle_ms_max: int) -> None:
        context = self._context
        for client in context.clients.values():
            client.last_ms = min(client.last_ms, context.now_ms)
            waits = client.parked or client.backlog or client.subscribed or client.monitoring
            if not waits and context.now_ms - client.last_ms > idle_ms_max:
                context.drop(client)

    def drain_closing(self) -> list[int]:
        """Take the clients to be closed: those with no reply held back any more, and dropped ones."""
        leaving = self._context.leaving
        if not leaving:
            return []
        held = self._outputs.held_for()
        self._context.leaving = [client for client in leaving if client.id in held and not client.dropped]
        return [client.id for client in leaving if client.id not in held or client.dropped]

    # Requests

    def execute_bytes(self, client_id: int, data: bytes) -> int:
        """Run the bursts with which these bytes begin, as far as the client's share goes; returns where they end.

        The client has sent nothing before that is not executed yet. The rest goes to `execute`, which continues.
        """
        if not may_begin(data):
            return 0
        client = self._context.clients[client_id]
        if client.parked or client.backlog or not self._open_share(client):
            return 0
        at = self._add_next(client, data, 0)
        after = 0
        while at > after and not client.closing and self._has_more(client):
            after, at = at, self._add_next(client, data, at)
        self._turn.close_share(self._context.stopwatch.mark_ns)
        return at

    def execute(self, client_id: int, requests: list[list[bytes]], continues: bool = False) -> None:
        """Run requests that arrived together, in order; those beyond the client's share wait in its backlog."""
        client = self._context.clients[client_id]
        waited = client.parked or bool(client.backlog)
        waits = not (self._has_more(client) if continues else self._open_share(client)) or waited
        at = 0
        while at < len(requests) and not client.closing:
            if client.parked or waits:
                self._queue(client, requests[at])
                at += 1
            else:
                at = self._run_next(client, requests, at)
                waits = not self._has_more(client)
        self._turn.close_share(self._context.stopwatch.mark_ns)
        if client.backlog and not waited and not client.parked:
            self._arrived.append(client)

    def _open_share(self, client: Client) -> bool:
        settings = self._context.settings
        now_ns = self._context.stopwatch.read()
        opened = self._turn.open_share(now_ns, settings.turn_reply_bytes_max, settings.turn_ms_max)
        return opened or self._is_stranger(client)

    def _has_more(self, client: Client) -> bool:
        """True if the client may run another request now. One that has to log in may always go on, because it can
        start nothing long, and its requests depend on the result of AUTH.
        """
        return self._turn.has_more(self._context.stopwatch.mark_ns) or self._is_stranger(client)

    def _is_stranger(self, client: Client) -> bool:
        """True if the client has to log in before anything else."""
        return not client.authenticated and self._context.users.requires_login()

    def _queue(self, client: Client, argv: list[bytes]) -> None:
        name, limit = "query_bytes_max", self._context.settings.limits.query_bytes_max
        if limit > STRANGER_BYTES_MAX and self._is_stranger(client):
            name, limit = "what a client without a password may send", STRANGER_BYTES_MAX
        client.backlog_bytes += size_of(argv)
        if client.backlog_bytes <= limit:
            client.backlog.append(argv)
        elif not client.closing:
            text = f"client {client.id} closed: its waiting requests exceed {name} ({limit})"
            self._notices.append(Notice("client-closed", text))
            self._context.drop(client)

    def _run_next(self, client: Client, requests: list[list[bytes]], at: int) -> int:
        """Run the request at this index, or the burst that begins there; returns the next index."""
        keyspace = self._replica.keyspace
        if keyspace.deadlines.are_due(keyspace.now_ms):
            self.expire()
        end = burst_end(self._context, client, requests, at) if at + 1 < len(requests) else at
        prepared = self._replica.prepared
        after = at + 1
        reply: Reply = None
        try:
            if end > at:
                reply = add_burst(self._context, client, requests[at:end])
                after = end
            elif self._replica.reads.on:
                reply = self._dispatch_waiting(client, requests[at])
            else:
                reply = dispatch(self._context, client, requests[at])
        except Exception as error:
            reply = self._survive(error, client, prepared)
        self._conclude(client, reply)
        return after

    def _dispatch_waiting(self, client: Client, argv: list[bytes]) -> Reply:
        """Dispatch a request that may need spilled blocks. If they have to be read first, it goes back to the front of
        the backlog and runs again from its start, so nothing of it counts.
        """
        context, reads = self._context, self._replica.reads
        statistics = context.statistics
        hits, misses = statistics.hits, statistics.misses
        reads.begin(context.block_reads.drain_held(client.id))
        try:
            return dispatch(context, client, argv)
        except NotAtOnce as missing:
            statistics.hits, statistics.misses = hits, misses
            client.put_back(argv)
            client.parked = True
            context.block_reads.begin_for(client, missing, reads.held(), self._resume_request)
            return None
        finally:
            reads.end()

    def _resume_request(self, client: Client) -> None:
        """The blocks that a request of this client waits for were read."""
        if client.id in self._context.clients:
            client.parked = False
            self._arrived.append(client)

    def _add_next(self, client: Client, data: bytes, at: int) -> int:
        """Run the burst that begins at this offset, if one does; returns where it ends."""
        keyspace = self._replica.keyspace
        if keyspace.deadlines.are_due(keyspace.now_ms):
            self.expire()
        prepared = self._replica.prepared
        alike = burst_in(self._context, client, data, at)
        if alike is None:
            return at
        try:
            reply = add_alike(self._context, client, alike)
        except Exception:
            # What changed nothing is tried again in the usual way, which says what is wrong.
            if self._replica.prepared != prepared:
                raise
            return at
        self._conclude(client, reply)
        return alike.end

    def _conclude(self, client: Client, reply: Reply) -> None:
        """Send what one request led to: its reply, and what other clients are due."""
        context, budget = self._context, self._replica.budget
        if budget.open_bytes >= budget.cut_bytes:
            budget.ease()
        if reply is not None:
            self._reply(client.id, reply)
        if context.parking.waiters or context.watches.by_key:
            self.wake()
        if context.outbox:
            self._deliver_outbox()
        if context.pubsub.messages:
            self._deliver_messages()

    def _survive(self, error: Exception, client: Client, prepared: int) -> bytes:
        """Turn an internal fault into an error reply, if the request changed nothing; otherwise raise it."""
        if self._replica.prepared != prepared:
            raise error
        name = client.last_command or "a command"
        self._notices.append(Notice("command-failed", f"{name} failed", error))
        text = f"ERR internal error: {type(error).__name__} in {name}; nothing was changed, see the log of this region"
        return error_reply(self._context, CommandError(text))

    def _reply(self, client_id: int, reply: bytes) -> None:
        self._turn.reply_bytes += len(reply)
        limit = self._context.settings.output_bytes_max
        if not self._outputs.add(client_id, reply, limit):
            client = self._context.clients.get(client_id)
            if client is not None and not client.closing:
                text = f"client {client_id} closed: its output exceeds output_bytes_max ({limit})"
                self._notices.append(Notice("client-closed", text))
                self._context.statistics.output_disconnections += 1
                self._context.drop(client)

    def _deliver_outbox(self) -> None:
        """Send the replies that one client's command made for other clients (CLIENT UNBLOCK)."""
        outbox = self._context.outbox
        self._context.outbox = []
        for client, reply in outbox:
            self._reply(client.id, reply)
            if client.backlog:
                self._arrived.append(client)

    def _deliver_messages(self) -> None:
        """Send what was published."""
        for client, message in self._context.pubsub.drain():
            self._reply(client.id, message)

    # Waiting clients

    def wake(self) -> None:
        """Serve the clients that wait for changed keys, until no more keys change."""
        touched = self._context.drain_changes()
        while touched:
            for waiter in self._context.parking.waiting_for(touched):
                self._serve(waiter)
            touched = self._context.drain_changes()

    def wake_keyless(self) -> None:
        """Serve the clients that wait for something other than a key."""
        for waiter in self._context.parking.keyless():
            self._serve(waiter)

    def wake_all(self) -> None:
        """Serve all clients that wait: those that would write learn that the region takes no writes any more."""
        for waiter in self._context.parking.all():
            self._serve(waiter)

    def redirect_waiting(self, shards: ShardMap) -> None:
        """Answer all clients that wait, because this shard has moved."""
        for waiter in self._context.parking.all():
            self._finish(waiter, error_reply(self._context, redirection_of(shards, waiter)))

    def expire_waiting(self) -> None:
        """Answer the clients whose wait has ended, and serve again those that asked for it. The wait of a command that
        a pause keeps from writing ends with the pause at the earliest.
        """
        context = self._context
        self._end_pause()
        for waiter in context.parking.overdue(context.now_ms):
            if not waiter.keys and context.standing.paused and self._is_held(waiter):
                context.parking.postpone(waiter, context.pause.end_ms)
            elif context.block_reads.awaits(waiter.client.id):
                context.parking.postpone(waiter, context.now_ms + 1)
            elif waiter.has_ended(context.now_ms):
                self._end_wait(waiter)
            else:
                self._serve(waiter)
                if context.parking.holds(waiter):
                    context.parking.postpone(waiter, waiter.retry_ms(context))

    def expire(self) -> None:
        """Delete expired keys, and entries that are lost to others of their name, unless clients are paused. Clients
        that wait for a key which is only hidden so far learn that it is gone.
        """
        context, replica = self._context, self._replica
        standing = context.standing
        context.pause.update(context.now_ms)
        if standing.may_remove() and not standing.loading and not standing.departing and not standing.paused:
            limits = context.limits
            expire_due(replica, limits.expiry_takeover_ms, limits.expired_keys_max)
            remove_all_lost(replica, context.deferred_work)
            context.notifications.publish_prepared()
        parking = context.parking
        if parking.waiters and replica.keyspace.deadlines.times:
            for waiter in parking.waiting_for(list(filter(replica.keyspace.hides, parking.keys()))):
                self._serve(waiter)

    def resume(self) -> None:
        """End the turn: run backlogs while something of the turn is left, and at least one share of each queue."""
        pause = self._context.pause
        if pause.waiting or pause.held:
            self._end_pause()
        for queue in (self._arrived, self._continuing):
            given = 0
            while queue and (self._open_share(queue[0]) or not given):
                self._continue(queue.popleft())
                given += 1
        if self._context.works and go_on(self._context):
            self.wake_keyless()
        if self._context.notifications.on:
            self._context.notifications.publish_prepared()
        if self._context.pubsub.messages:
            self._deliver_messages()
        if self._context.parking.waiters:
            self._wake_durable()
        self._turn.begin_turn()

    def _end_pause(self) -> None:
        """At the end of a pause, let the clients go on whose requests were stopped, and those that were not served
        meanwhile look again.
        """
        context, pause = self._context, self._context.pause
        if context.standing.paused or not (pause.waiting or pause.held):
            return
        self._arrived.extend(pause.drain_waiting())
        if pause.held:
            pause.held = False
            self.wake_all()
            for waiter in context.parking.all():
                if waiter.has_ended(context.now_ms):
                    context.parking.postpone(waiter, waiter.end_ms)

    def _wake_durable(self) -> None:
        """Serve the clients that wait for this region's own disk."""
        for waiter in self._context.parking.keyless():
            if isinstance(waiter, DurableWaiter):
                self._serve(waiter)

    def is_behind(self) -> bool:
        """True if the next turn already has work: backlogs, or a command that takes several turns."""
        context = self._context
        return bool(self._arrived or self._continuing or (context.works and is_due(context)))

    def behind_bytes(self) -> int:
        """The size of the backlogs that the next turn will run."""
        return sum([client.backlog_bytes for queue in (self._arrived, self._continuing) for client in queue])

    def _continue(self, client: Client) -> None:
        """Run one share of a client's backlog, at least one request."""
        while self._can_continue(client):
            requests = self._pop_next(client)
            at = 0
            while at < len(requests):
                at = self._run_next(client, requests, at)
            if not self._has_more(client):
                break
        self._turn.close_share(self._context.stopwatch.mark_ns)
        if self._can_continue(client):
            self._continuing.append(client)
        elif client.farewell is not None and client.id in self._context.clients:
            self._part(client, client.farewell)

    def _pop_next(self, client: Client) -> list[list[bytes]]:
        """Take the first request of the backlog, or the burst that begins there."""
        ahead = [*islice(client.backlog, ahead_max(client.backlog[0]))]
        requests = ahead[: max(1, burst_end(self._context, client, ahead, 0))]
        for argv in requests:
            client.backlog.popleft()
            client.backlog_bytes -= size_of(argv)
        return requests

    def _can_continue(self, client: Client) -> bool:
        waits = client.parked or client.closing
        return bool(client.backlog) and not waits and client.id in self._context.clients

    def _serve(self, waiter: Waiter) -> None:
        if not (self._context.standing.paused and self._is_held(waiter)):
            self._answer(waiter, self._reply_to, self._serve)

    def _reply_to(self, waiter: Waiter) -> bytes | None:
        prepared = self._replica.prepared
        try:
            return serve(self._context, waiter)
        except NotAtOnce:
            raise
        except Exception as fault:
            return self._survive(fault, waiter.client, prepared)

    def _end_wait(self, waiter: Waiter) -> None:
        """The wait of this client has ended, which may have effects."""
        self._answer(waiter, lambda ended: ended.expired(self._context), self._end_wait)

    def _answer(
        self, waiter: Waiter, reply_to: Callable[[Waiter], bytes | None], again: Callable[[Waiter], None]
    ) -> None:
        """Send a waiting client its reply, if any. Blocks that it needs are read first, and this is done `again`."""
        block_reads, reads, client = self._context.block_reads, self._replica.reads, waiter.client
        if not reads.on:
            reply = reply_to(waiter)
        elif block_reads.awaits(client.id):
            return
        else:
            reads.begin(block_reads.drain_held(client.id))
            try:
                reply = reply_to(waiter)
            except NotAtOnce as missing:
                block_reads.begin_for(client, missing, reads.held(), partial(self._resume, again))
                return
            finally:
                reads.end()
        if reply is not None:
            self._finish(waiter, reply)

    def _resume(self, again: Callable[[Waiter], None], client: Client) -> None:
        """The blocks that this waiting client needs were read, unless it does not wait any more."""
        waiter = self._context.parking.waiters.get(client.id)
        if waiter is None:
            self._context.block_reads.forget(client.id)
        else:
            again(waiter)

    def _is_held(self, waiter: Waiter) -> bool:
        """True if a pause keeps this client from what it waits for. One that waits for a disk or for other regions gets
        its answer.
        """
        pause, command = self._context.pause, waiter.client.command
        held = command is not None and (command.pausable or bool(waiter.keys)) and pause.stops(command, waiter.client)
        pause.held = pause.held or held
        return held

    def _finish(self, waiter: Waiter, reply: bytes) -> None:
        client = waiter.client
        self._context.unpark(client)
        self._reply(client.id, reply)
        if client.backlog or client.farewell is not None:
            self._arrived.append(client)

    def check(self) -> None:
        queued = [client.id for queue in (self._arrived, self._continuing) for client in queue]
        assert len(queued) == len(set(queued)), "a client is queued for its share twice"
        self._context.pubsub.check()
        self._context.pause.check()
        self._context.parking.check()
        self._context.watches.check()
        for client in self._context.clients.values():
            due = self._can_continue(client)
            assert not due or client.id in queued, f"client {client.id} has a backlog and is in no queue"
