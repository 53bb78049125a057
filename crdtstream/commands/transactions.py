"""MULTI EXEC DISCARD WATCH UNWATCH.

EXEC runs the queued commands without interruption: the clock stands still, no other client, peer or tick intervenes,
and the batch that collects the effects is not closed. So a transaction is in one batch and one turn of the log, and is
applied elsewhere, and recovered here, as a whole. Clients waiting for a key are served after EXEC and see only its
result. A command that would wait replies at once as it would at its deadline.

A command that cannot run is rejected when it is queued, and the transaction fails. A command that fails during EXEC
undoes nothing, as in Redis. What the transaction may write is measured before it begins, and each command again before
it runs: one for which the others have left too little of the batch fails.

A watched key is changed by every effect on it, of this region or another, except acknowledgements. So XSETID and the
creation and destruction of a group count too, which Redis ignores. Local facts do not count, as in Redis: reads of a
group, claims, XACK, cursors. A key that has expired since WATCH counts as changed even if it is not deleted yet.

Reference: `multi.c` of Redis.
"""

from __future__ import annotations

from typing import Final

from crdtstream.commands.fitting import require_transaction_fit, required_share
from crdtstream.commands.foreseeing import foresee_all
from crdtstream.connections.access import record_denial
from crdtstream.connections.acl.checks import CHANNEL, COMMAND, KEY, denial_of
from crdtstream.connections.acl.log import IN_MULTI
from crdtstream.connections.calling import call, error_reply
from crdtstream.connections.client import Client
from crdtstream.connections.command import Command, keys_from
from crdtstream.connections.context import CommandError, Context, Reply
from crdtstream.connections.transaction import Transaction
from crdtstream.protocols import replies

NOPERM = (
    "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no"
    " longer allowed for the following reason: "
)
REASONS = {
    COMMAND: "no permission to execute the command or subcommand",
    KEY: "no permission to touch the specified keys",
    CHANNEL: "no permission to access one of the channels used as arguments",
}
EXECABORT = "EXECABORT Transaction discarded because of previous errors."
# What a transaction may queue and not do; the words are those of Redis.
DENIED: Final = {
    "monitor": "ERR MONITOR isn't allowed for DENY BLOCKING client",
    "ssubscribe": "ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client",
}


def multi(context: Context, client: Client, argv: list[bytes]) -> Reply:
    if client.transaction is not None:
        raise CommandError("ERR MULTI calls can not be nested")
    client.transaction = Transaction()
    return replies.OK


def discard(context: Context, client: Client, argv: list[bytes]) -> Reply:
    if client.transaction is None:
        raise CommandError("ERR DISCARD without MULTI")
    context.end_transaction(client)
    return replies.OK


def execute(context: Context, client: Client, argv: list[bytes]) -> Reply:
    transaction = client.transaction
    if transaction is None:
        raise CommandError("ERR EXEC without MULTI")
    if context.replica.reads.on and not transaction.refused:
        foresee_all(context, client, transaction.requests)
        context.replica.reads.may_wait = False
    changed = watched_changed(context, client)
    context.end_transaction(client)
    if transaction.refused:
        raise CommandError(EXECABORT)
    if changed:
        return replies.null_array(client.protocol)
    measured = require_transaction_fit(context, client, transaction.requests)
    budget = context.replica.budget
    budget.whole, budget.promised, budget.measured = True, budget.open_bytes, measured
    try:
        answers = [answer(context, client, command, request) for command, request in transaction.requests]
    finally:
        budget.whole, budget.promised, budget.measured = False, 0, 0
    return replies.array(answers)


def watched_changed(context: Context, client: Client) -> bool:
    """True if a watched key changed, or existed at WATCH and is hidden by its expiry now."""
    if not client.watched:
        return False
    context.watches.mark(list(context.replica.changed.touched))
    find = context.replica.keyspace.find
    return client.watch_failed or any(existed and find(key) is None for key, existed in client.watched.items())


def answer(context: Context, client: Client, command: Command, request: list[bytes]) -> bytes:
    """Run one command of the transaction and return its reply. The user's rights may have changed since MULTI."""
    denial = None if client.unrestricted else denial_of(client.user, command, request)
    if denial is not None:
        record_denial(context, client, command, request, denial, IN_MULTI)
        return error_reply(context, CommandError(NOPERM + REASONS[denial.kind]))
    if command.name in DENIED:
        return deny(context, command, CommandError(DENIED[command.name]))
    if not command.writes:
        reply = call(context, client, command, request)
    else:
        try:
            size = required_share(context, client, command, request)
        except CommandError as error:
            return deny(context, command, error)
        budget = context.replica.budget
        before = budget.open_bytes
        reply = call(context, client, command, request)
        budget.promised += max(size, budget.open_bytes - before)
        # A WAIT later in the transaction asks for it.
        client.written_counter = context.replica.written()
    if reply is None:
        waiter = context.unpark(client)
        assert waiter is not None, f"{command.name} neither replied nor waits"
        reply = waiter.expired(context)
    return reply


def deny(context: Context, command: Command, error: CommandError) -> bytes:
    tally = context.statistics.tally(command.name)
    tally.calls += 1
    tally.failed += 1
    return error_reply(context, error)


def watch(context: Context, client: Client, argv: list[bytes]) -> Reply:
    if client.transaction is not None:
        raise CommandError("ERR WATCH inside MULTI is not allowed")
    if not len(context.watches) and not len(context.parking):
        # Changes made before the first WATCH or wait were not collected by a client; they must not count from now on.
        context.replica.changed.drain_touched()
    for name in argv[1:]:
        key = (client.database, name)
        context.watches.add(client, key, context.replica.keyspace.find(key) is not None)
    return replies.OK


def unwatch(context: Context, client: Client, argv: list[bytes]) -> Reply:
    context.watches.forget(client)
    return replies.OK


COMMANDS: list[Command] = [
    Command(
        "multi",
        multi,
        arity=1,
        flags="noscript loading stale fast unqueued transaction allow_busy",
        since="1.2.0",
        group="transactions",
        summary="Starts a transaction.",
    ),
    Command(
        "exec",
        execute,
        arity=1,
        flags="noscript loading stale unqueued transaction skip_slowlog",
        since="1.2.0",
        group="transactions",
        summary="Executes all commands in a transaction.",
    ),
    Command(
        "discard",
        discard,
        arity=1,
        flags="noscript loading stale fast unqueued transaction allow_busy",
        since="2.0.0",
        group="transactions",
        summary="Discards a transaction.",
    ),
    Command(
        "watch",
        watch,
        arity=-2,
        flags="noscript loading stale fast unqueued transaction allow_busy",
        keys=keys_from(1, "RO"),
        since="2.2.0",
        group="transactions",
        summary="Monitors changes to keys to determine the execution of a transaction.",
        syntax="key...",
    ),
    Command(
        "unwatch",
        unwatch,
        arity=1,
        flags="noscript loading stale fast transaction allow_busy",
        since="2.2.0",
        group="transactions",
        summary="Forgets about watched keys of a transaction.",
    ),
]
