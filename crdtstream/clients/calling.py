"""Running one admitted command: count it, time it, reply, and turn a `CommandError` into an error reply.

A command that raises counts as failed; one that dispatch did not admit is counted there, as rejected. A command that
reads keys counts as a hit or a miss by whether the key exists when it is done. The time of a command that waits is the
time it ran, without the wait.

Reference: `call` of Redis.
"""

from __future__ import annotations

from crdtstream.clients.client import Client
from crdtstream.clients.command import Command
from crdtstream.clients.context import CommandError, Context, Reply, Waiter
from crdtstream.clients.monitors import feed
from crdtstream.clients.notifications import MISS
from crdtstream.core.effects import Key
from crdtstream.protocols import replies


def call(context: Context, client: Client, command: Command, argv: list[bytes]) -> Reply:
    """Run the command; returns the reply, or None if the client was parked."""
    tally = context.statistics.tally(command.name)
    tally.calls += 1
    client.last_command = command.name
    began_ns = context.stopwatch.mark_ns
    assert command.function is not None
    try:
        reply = command.function(context, client, argv)
    except CommandError as error:
        tally.failed += 1
        reply = error_reply(context, error)
    else:
        if command.reads_key:
            note_hit(context, (client.database, argv[command.first_key]))
    if context.notifications.on:
        context.notifications.settle()
    if context.monitors:
        feed(context, client, command, argv)
    took_ns = context.stopwatch.read() - began_ns
    tally.took_ns += took_ns
    tally.buckets[took_ns.bit_length()] += 1
    if reply is None:
        client.request, client.took_ns = argv, took_ns
    elif took_ns >= context.slow_log.least_ns and not command.never_slow:
        context.log_slow(client, argv, took_ns)
    return reply


def note_hit(context: Context, key: Key) -> None:
    if context.replica.keyspace.peek(key) is None:
        context.statistics.misses += 1
        context.notifications.notify(MISS, b"keymiss", key)
    else:
        context.statistics.hits += 1


def serve(context: Context, waiter: Waiter) -> Reply:
    """Let a waiting client try again; returns the reply, or None if it goes on waiting. The time counts as time of the
    command in which it waits.
    """
    client = waiter.client
    tally = context.statistics.tally(client.last_command)
    began_ns = context.stopwatch.read()
    try:
        reply = waiter.serve(context)
    except CommandError as error:
        tally.failed += 1
        reply = error_reply(context, error)
    context.notifications.settle()
    took_ns = context.stopwatch.read() - began_ns
    tally.took_ns += took_ns
    client.took_ns += took_ns
    return reply


def error_reply(context: Context, error: CommandError) -> bytes:
    """Encode an error reply and count it under its code."""
    code = error.text.partition(" ")[0]
    errors = context.statistics.errors
    errors[code] = errors.get(code, 0) + 1
    return replies.error(error.text.encode("utf-8", "surrogateescape"))
