"""Running one command that was let in: count it, answer, turn a refusal into an error reply.

A command that raises counts as failed; one that was not let in is counted by dispatch, as rejected. Readers of keys
count as hits and misses by whether the key exists when they are done.

Reference: `call` of Redis.
"""

from __future__ import annotations

from crdtstream.commands.command import Command
from crdtstream.commands.context import Client, CommandError, Context, Reply
from crdtstream.protocols import replies


def call(context: Context, client: Client, command: Command, argv: list[bytes]) -> Reply:
    """The reply; None when the client was parked."""
    statistics = context.statistics
    statistics.commands += 1
    name = command.name
    client.last_command = name
    statistics.calls[name] = statistics.calls.get(name, 0) + 1
    assert command.function is not None
    try:
        reply = command.function(context, client, argv)
    except CommandError as error:
        statistics.failed[name] = statistics.failed.get(name, 0) + 1
        return error_reply(context, error)
    if command.reads_key:
        if context.replica.peek((client.database, argv[command.first_key])) is None:
            statistics.misses += 1
        else:
            statistics.hits += 1
    return reply


def error_reply(context: Context, error: CommandError) -> bytes:
    """The reply of an error, counted under its code."""
    code = error.text.partition(" ")[0]
    errors = context.statistics.errors
    errors[code] = errors.get(code, 0) + 1
    return replies.error(error.text.encode("utf-8", "surrogateescape"))
