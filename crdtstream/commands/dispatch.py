"""Dispatch of one request: find its command, reject it if it cannot run now, run it, reply, count.

The checks are made in Redis's order: unknown command, number of arguments, authentication, transaction, rights of the
user, shard of the keys, memory, disk, subscriptions, loading. A rejected request changes nothing and counts as
rejected. After MULTI, a command that could run is queued instead.

After a write the client's `written_counter` covers everything that the write made here, so that WAIT knows what to wait
for; a group left dirty by the write may still add one acknowledgement at the end of the turn.

Reference: `processCommand` of Redis.
"""

from __future__ import annotations

from typing import Final

from crdtstream.commands.foreign import foreign_kind
from crdtstream.commands.foreseeing import foresee
from crdtstream.commands.reserve import frees_room, spend_reserve
from crdtstream.commands.routing import EXEC, RedirectError, names_in, require_own_keys
from crdtstream.commands.table import TABLE
from crdtstream.connections.access import require_rights
from crdtstream.connections.acl.log import IN_MULTI, TOP_LEVEL
from crdtstream.connections.calling import call, error_reply
from crdtstream.connections.client import REPLIES_OFF, REPLIES_ON, REPLIES_SKIP_NEXT, Client
from crdtstream.connections.command import Command
from crdtstream.connections.context import CommandError, Context, Reply, shown
from crdtstream.connections.guard import hang_up, is_http
from crdtstream.connections.transaction import Transaction
from crdtstream.protocols import replies
from crdtstream.status.availability import Standing

SHOWN_BYTES: Final = 128
NOAUTH = "NOAUTH Authentication required."
MONITOR: Final = "monitor"
NO_MULTI = "ERR Command not allowed inside a transaction"
ONLY_LISTENING = "only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
WHILE_SUBSCRIBED: Final = frozenset(
    (
        "ping",
        "psubscribe",
        "punsubscribe",
        "quit",
        "reset",
        "ssubscribe",
        "subscribe",
        "sunsubscribe",
        "unsubscribe",
    )
)
EXEC_REFUSED = "EXECABORT Transaction discarded because of:"


def dispatch(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """Returns the reply; None if the client was parked, empty if it wants no reply."""
    client.last_ms = context.replica.keyspace.now_ms
    standing = context.standing
    mode = client.reply_mode
    command: Command | None = None
    try:
        command = find(argv)
        # The usual request needs none of the checks in `admit`.
        if client.transaction is not None or not is_unhindered(standing, client) or not command.accepts(len(argv)):
            admit(context, client, command, argv)
            if standing.paused and is_stopped(context, client, command, argv):
                return None
            if not standing.writable:
                spend_reserve(context, client, command, argv)
        elif context.shards is not None:
            require_own_keys(context.shards, client, command, argv)
    except CommandError as error:
        if command is None and is_http(argv):
            return hang_up(context, client)
        reply: Reply = reject(context, client, command, error)
    else:
        if client.transaction is not None and command.queued:
            reply = queue_request(context, client.transaction, command, argv)
        else:
            if context.replica.reads.may_wait and command.writes:
                foresee(context, client, command, argv)
            reply = call(context, client, command, argv)
            if reply is None and context.shards is not None:
                keep_names(context, client, command, argv)
            if command.writes:
                client.written_counter = context.replica.written()
    return reply if mode == REPLIES_ON and client.reply_mode == REPLIES_ON else suppress(client, mode, reply)


def is_unhindered(standing: Standing, client: Client) -> bool:
    """True if neither the region's standing nor the client's rights keep it from any command."""
    return (
        client.unrestricted
        and not client.subscribed
        and standing.writable
        and not standing.memory_short
        and not standing.loading
        and not standing.departing
        and not standing.paused
    )


def is_stopped(context: Context, client: Client, command: Command, argv: list[bytes]) -> bool:
    """True if a pause stops this command; the request then waits at the front of its client's backlog."""
    pause = context.pause
    pause.update(context.now_ms)
    if not pause.stops(command, client):
        return False
    client.last_command = command.name
    client.put_back(argv)
    pause.postpone(client)
    return True


def find(argv: list[bytes]) -> Command:
    """The command or subcommand that a request names."""
    command = TABLE.get(argv[0]) or TABLE.get(argv[0].upper())
    if command is None:
        raise CommandError(unknown_command(argv))
    if command.subcommands is None or len(argv) == 1:
        return command
    child = command.subcommands.get(argv[1].upper())
    if child is None:
        name = shown(argv[1][:SHOWN_BYTES])
        raise CommandError(f"ERR unknown subcommand '{name}'. Try {command.name.upper()} HELP.")
    return child


def unknown_command(argv: list[bytes]) -> str:
    """As in Redis: the name, and the arguments that start within 128 bytes; for a command on another data type, that
    there are only streams.
    """
    kind = foreign_kind(argv[0])
    if kind:
        return f"ERR unknown command '{shown(argv[0])}': this server stores streams only, it has no {kind}"
    arguments = b""
    for argument in argv[1:]:
        if len(arguments) >= SHOWN_BYTES:
            break
        arguments += b"'%b' " % argument.partition(b"\0")[0][: SHOWN_BYTES - len(arguments)]
    told = f", with args beginning with: {shown(arguments)}" if arguments else ""
    return f"ERR unknown command '{shown(argv[0][:SHOWN_BYTES])}'{told}"


def admit(context: Context, client: Client, command: Command, argv: list[bytes]) -> None:
    """Raise if this command may not run now, or may not be queued. EXEC needs what its queued commands need; after
    MULTI nothing is queued while memory is over its limit.
    """
    if not command.accepts(len(argv)):
        raise CommandError(f"ERR wrong number of arguments for '{command.name}' command")
    if not client.authenticated and command.auth_needed and context.users.requires_login():
        raise CommandError(NOAUTH)
    writes, denies_oom = command.writes, command.denies_oom
    transaction = client.transaction
    if transaction is not None:
        if not command.multi_allowed:
            raise CommandError(NO_MULTI)
        denies_oom = command.queued
        if command.name == EXEC:
            writes, denies_oom = transaction.writes, transaction.denies_oom
    if not client.unrestricted:
        require_rights(context, client, command, argv, TOP_LEVEL if transaction is None else IN_MULTI)
    if context.shards is not None:
        require_own_keys(context.shards, client, command, argv)
    standing = context.standing
    reserved = frees_room(transaction, command)
    refused = standing.refusal(writes, denies_oom, reserved)
    if refused:
        raise CommandError(refused)
    if client.subscribed and client.protocol == replies.RESP2 and command.name not in WHILE_SUBSCRIBED:
        raise CommandError(f"ERR Can't execute '{command.name}': {ONLY_LISTENING}")
    if standing.loading and not may_run_loading(context, transaction, command):
        raise CommandError(f"LOADING {standing.loading}")


def may_run_loading(context: Context, transaction: Transaction | None, command: Command) -> bool:
    """True if this command may run while the region does not serve; EXEC may if all that it would run may. In a shard
    that has moved nobody listens or publishes: no other shard hears it, and no client is served there.
    """
    if transaction is not None and command.name == EXEC:
        return all(may_run_loading(context, None, queued) for queued, _ in transaction.requests)
    has_moved = context.shards is not None and context.shards.away
    return command.loading_allowed and not (has_moved and (command.channels.last or command.name == MONITOR))


def keep_names(context: Context, client: Client, command: Command, argv: list[bytes]) -> None:
    """Let a client that waits know its keys: it is redirected by them if the shard moves."""
    waiter = context.parking.waiters.get(client.id)
    if waiter is not None:
        waiter.names = names_in(command, argv)


def queue_request(context: Context, transaction: Transaction, command: Command, argv: list[bytes]) -> bytes:
    """Queue a request until EXEC; a transaction has the same size limit as a single request. One that will fail keeps
    no more requests, so EXEC does not look at their keys either.
    """
    if transaction.refused:
        return replies.QUEUED
    transaction.queue(command, argv)
    limit = context.limits.query_bytes_max
    if transaction.byte_count <= limit:
        return replies.QUEUED
    transaction.requests.clear()
    transaction.refused = True
    text = f"ERR the transaction exceeds query_bytes_max ({limit} bytes): split it, or raise that limit"
    return error_reply(context, CommandError(text))


def reject(context: Context, client: Client, command: Command | None, error: CommandError) -> bytes:
    """The reply to a request that was not admitted. An open transaction will fail; it fails at once if EXEC itself is
    rejected, and a redirection then reads as that of any request.
    """
    if command is not None:
        context.statistics.tally(command.name).rejected += 1
        if command.name == EXEC:
            context.end_transaction(client)
            if not isinstance(error, RedirectError):
                error = CommandError(f"{EXEC_REFUSED} {error.text.removeprefix('ERR ')}")
    if client.transaction is not None:
        client.transaction.refused = True
    return error_reply(context, error)


def suppress(client: Client, mode: int, reply: Reply) -> Reply:
    """Apply CLIENT REPLY, where `mode` is the mode before the command: OFF and SKIP suppress this reply or the next
    ones, ON sends its own reply.
    """
    if mode == REPLIES_SKIP_NEXT and client.reply_mode == REPLIES_SKIP_NEXT:
        client.reply_mode = REPLIES_ON
    silent = mode == REPLIES_SKIP_NEXT or client.reply_mode in (REPLIES_OFF, REPLIES_SKIP_NEXT)
    return b"" if silent and reply is not None else reply
