"""One request: find its command, refuse what cannot run now, run it, answer, count.

The order of refusals is Redis's: unknown, number of arguments, authentication, transaction, memory, disk, loading. A
refusal leaves everything as it was and counts as rejected. After MULTI, what could run is queued instead.

After a write the client's `written_counter` covers all that the write made here, so that WAIT knows what to wait for;
a group that it left dirty may still add one acknowledgement at the end of the turn.

Reference: `processCommand` of Redis.
"""

from __future__ import annotations

from typing import Final

from crdtstream.commands.calling import call, error_reply
from crdtstream.commands.command import Command
from crdtstream.commands.context import (
    REPLIES_OFF,
    REPLIES_ON,
    REPLIES_SKIP_NEXT,
    Client,
    CommandError,
    Context,
    Reply,
    shown,
)
from crdtstream.commands.table import TABLE
from crdtstream.commands.watching import Transaction
from crdtstream.protocols import replies

SHOWN_BYTES: Final = 128
EXEC: Final = "exec"
NOAUTH = "NOAUTH Authentication required."
NO_MULTI = "ERR Command not allowed inside a transaction"
OOM = "OOM command not allowed when used memory > 'maxmemory'."
EXEC_REFUSED = "EXECABORT Transaction discarded because of:"
DISK_FULL = "MISCONF The disk of this region takes no more: writes are refused until there is room, reads go on"


def dispatch(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """The reply; None when the client was parked, empty when it wants none."""
    client.last_ms = context.replica.now_ms = context.now_ms
    mode = client.reply_mode
    command: Command | None = None
    try:
        command = find(argv)
        if (
            client.transaction is not None
            or context.memory_short
            or context.loading
            or not context.writable
            or not client.authenticated
            or not command.accepts(len(argv))
        ):
            admit(context, client, command, len(argv))
    except CommandError as error:
        reply: Reply = refused(context, client, command, error)
    else:
        if client.transaction is not None and command.queued:
            reply = queued(context, client.transaction, command, argv)
        else:
            reply = call(context, client, command, argv)
            if command.writes:
                client.written_counter = context.replica.written()
    return reply if mode == REPLIES_ON and client.reply_mode == REPLIES_ON else muted(client, mode, reply)


def find(argv: list[bytes]) -> Command:
    """The command, or the subcommand, that a request names."""
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
    """As Redis: the name and as many arguments as begin within 128 bytes."""
    arguments = b""
    for argument in argv[1:]:
        if len(arguments) >= SHOWN_BYTES:
            break
        arguments += b"'%b' " % argument.partition(b"\0")[0][: SHOWN_BYTES - len(arguments)]
    return f"ERR unknown command '{shown(argv[0][:SHOWN_BYTES])}', with args beginning with: {shown(arguments)}"


def admit(context: Context, client: Client, command: Command, count: int) -> None:
    """Raise what keeps this command from running, or from being queued, now. EXEC needs what its commands need, and
    after MULTI nothing is queued while memory is short.
    """
    if not command.accepts(count):
        raise CommandError(f"ERR wrong number of arguments for '{command.name}' command")
    if not client.authenticated and command.auth_needed:
        raise CommandError(NOAUTH)
    writes, denies_oom = command.writes, command.denies_oom
    transaction = client.transaction
    if transaction is not None:
        if not command.multi_allowed:
            raise CommandError(NO_MULTI)
        denies_oom = command.queued
        if command.name == EXEC:
            writes, denies_oom = transaction.writes, transaction.denies_oom
    if context.memory_short and denies_oom:
        raise CommandError(OOM)
    if not context.writable and writes:
        raise CommandError(DISK_FULL)
    if context.loading and not command.loading_allowed:
        raise CommandError(f"LOADING {context.loading}")


def queued(context: Context, transaction: Transaction, command: Command, argv: list[bytes]) -> bytes:
    """What waits for EXEC is bounded as one request is."""
    transaction.queue(command, argv)
    limit = context.limits.query_bytes_max
    if transaction.byte_count <= limit:
        return replies.QUEUED
    transaction.requests.clear()
    transaction.refused = True
    return error_reply(context, CommandError(f"ERR a transaction of more than query_bytes_max ({limit}) bytes"))


def refused(context: Context, client: Client, command: Command | None, error: CommandError) -> bytes:
    """The reply to what was not let in; an open transaction fails with it, at once if it is EXEC that is refused."""
    if command is not None:
        context.statistics.tally(command.name).rejected += 1
        if command.name == EXEC:
            context.end_transaction(client)
            error = CommandError(f"{EXEC_REFUSED} {error.text.removeprefix('ERR ')}")
    if client.transaction is not None:
        client.transaction.refused = True
    return error_reply(context, error)


def muted(client: Client, mode: int, reply: Reply) -> Reply:
    """CLIENT REPLY: `mode` held when the command began; OFF and SKIP hide what follows them, ON shows its own reply."""
    if mode == REPLIES_SKIP_NEXT and client.reply_mode == REPLIES_SKIP_NEXT:
        client.reply_mode = REPLIES_ON
    silent = mode == REPLIES_SKIP_NEXT or client.reply_mode in (REPLIES_OFF, REPLIES_SKIP_NEXT)
    return b"" if silent and reply is not None else reply
