"""Running one admitted command: count it, time it, reply, and turn a `CommandError` into an error reply.

A command that raises counts as failed; one that dispatch did not admit is counted there, as rejected. A command that
reads keys counts each as a hit or a miss by whether it exists when the command is done; some commands count by
themselves what they look up, because they do so before they fail, or twice. The time of a command that waits is the
time it ran, without the wait.

Reference: `call` of Redis.
"""

from __future__ import annotations

from crdtstream.connections.access import require_rights
from crdtstream.connections.acl.log import TOP_LEVEL
from crdtstream.connections.client import Client
from crdtstream.connections.command import Command
from crdtstream.connections.context import CommandError, Context, Reply, Waiter
from crdtstream.connections.monitors import feed
from crdtstream.core.entries.spilled import NotAtOnce
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
    except NotAtOnce:
        # It runs again, and is counted then.
        tally.calls -= 1
        raise
    else:
        if command.reads_key:
            count_look_ups(context, client, command, argv)
    if context.notifications.on:
        context.notifications.publish_prepared()
    if context.monitors:
        feed(context, client, command, argv)
    took_ns = context.stopwatch.read() - began_ns
    tally.took_ns += took_ns
    tally.buckets[took_ns.bit_length()] += 1
    if reply is None:
        client.request, client.command, client.took_ns = argv, command, took_ns
    elif took_ns >= context.slow_log.least_ns and not command.never_slow:
        context.log_slow(client, argv, took_ns)
    return reply


def count_look_ups(context: Context, client: Client, command: Command, argv: list[bytes]) -> None:
    last = command.keys.last
    for name in argv[command.first_key : last + 1 if last > 0 else len(argv)]:
        key = (client.database, name)
        context.count_look_up(key, context.replica.keyspace.peek(key) is not None)


def serve(context: Context, waiter: Waiter) -> Reply:
    """Let a waiting client try again; returns the reply, or None if it goes on waiting. The time counts as time of the
    command in which it waits. As in Redis, its user must still be allowed what it asked for.
    """
    client = waiter.client
    tally = context.statistics.tally(client.last_command)
    began_ns = context.stopwatch.read()
    try:
        if waiter.keys and not client.unrestricted and client.command is not None:
            require_rights(context, client, client.command, client.request, TOP_LEVEL)
        reply = waiter.serve(context)
    except CommandError as error:
        tally.failed += 1
        reply = error_reply(context, error)
    if client.command is not None and client.command.writes:
        client.written_counter = context.replica.written()
    context.notifications.publish_prepared()
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
