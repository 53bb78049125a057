"""SAVE BGSAVE LASTSAVE BGREWRITEAOF CRDT.BACKUP SHUTDOWN DEBUG: operating the process.

A save is a checkpoint, taken beside the turns, so SAVE blocks only its caller. DEBUG SLEEP too lets only the caller's
connection sleep, because a region that stood still would look dead to the others. (Redis blocks the whole process.) All
other subcommands of DEBUG are refused, as Redis refuses them by default.

CRDT.BACKUP writes a backup into a directory of the region's machine (storage/backup.py): a checkpoint, and the log up
to one moment after the request. Clients may name only what lies below `backup_directory`.

SHUTDOWN stops as SIGTERM does: the log is synced and marked, so nothing is lost with SAVE or with NOSAVE. Without
either, the runtime first takes a checkpoint if that shortens the next start and does not take too long. NOSAVE skips
that checkpoint; if the region is stopping already, it stops at once. SAVE waits for it however long it takes, and if it
fails the region goes on serving unless FORCE is given. NOW does not wait until linked peers have what they lack, as
Redis does not wait for replicas then. A SHUTDOWN that succeeds is answered by the end of the connection.

Reference: `saveCommand`, `bgsaveCommand`, `shutdownCommand` and `debugCommand` of Redis.
"""

from __future__ import annotations

import re

from crdtstream.connections.client import Client
from crdtstream.connections.command import Command, help_reply
from crdtstream.connections.context import CommandError, Context, Reply, Waiter
from crdtstream.connections.parking import NO_DEADLINE
from crdtstream.connections.saving import Backup
from crdtstream.protocols import replies

SYNTAX_ERROR = "ERR syntax error"
SECOND_MS = 1000
STOP_FAILED = "ERR Errors trying to SHUTDOWN. Check logs."
NOT_WAITED = b"UNBLOCKED the wait was ended; the checkpoint continues"
NO_BACKUPS = (
    "ERR backups are off: start the region with --backup-directory DIRECTORY, and name a directory below that one"
)
NO_DIRECTORY = "ERR the directory's name must not be empty or contain a zero byte"
BACKUP_NOT_WAITED = b"UNBLOCKED the wait was ended; the backup continues"
NO_DEBUG = (
    'ERR DEBUG command not allowed. If the enable-debug-command option is set to "local", you can run it from a local'
    " connection, otherwise you need to set this option in the configuration file, and then restart the server."
)
SHUTDOWN_WORDS = (b"SAVE", b"NOSAVE", b"NOW", b"FORCE", b"ABORT")
SECONDS = re.compile(rb"\s*\+?(\d{1,9}(?:\.\d*)?|\.\d+)")

# Saving


class SaveWaiter(Waiter):
    """A client that waits for the checkpoint with this number."""

    def __init__(self, client: Client, number: int) -> None:
        super().__init__(client, [], NO_DEADLINE)
        self.number = number

    def serve(self, context: Context) -> bytes | None:
        if not context.saving.completed(self.number):
            return None
        if context.saving.failure:
            raise CommandError(f"ERR {context.saving.failure}")
        return replies.OK

    def expired(self, context: Context) -> bytes:
        return replies.error(NOT_WAITED)


def save(context: Context, client: Client, argv: list[bytes]) -> Reply:
    context.park(SaveWaiter(client, context.saving.request()))
    return None


def save_beside(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """BGSAVE [SCHEDULE]."""
    if len(argv) > 2 or (len(argv) == 2 and argv[1].upper() != b"SCHEDULE"):
        raise CommandError(SYNTAX_ERROR)
    under_way = context.saving.running
    context.saving.request()
    return replies.simple(b"Background saving scheduled" if under_way else b"Background saving started")


def rewrite_log(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """BGREWRITEAOF: a checkpoint has the purpose of Redis's rewrite, which is to shorten the log."""
    context.saving.request()
    return replies.simple(b"Background append only file rewriting started")


def last_save(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return replies.integer(context.saved_ms() // SECOND_MS)


class BackupWaiter(Waiter):
    """A client that waits for a backup."""

    def __init__(self, client: Client, backup: Backup) -> None:
        super().__init__(client, [], NO_DEADLINE)
        self.backup = backup

    def serve(self, context: Context) -> bytes | None:
        backup = self.backup
        if not backup.done:
            return None
        if backup.failure:
            raise CommandError(f"ERR {backup.failure}")
        items = [
            replies.bulk(b"directory"),
            replies.bulk(backup.directory.encode("utf-8", "surrogateescape")),
            replies.bulk(b"files"),
            replies.integer(backup.files),
            replies.bulk(b"bytes"),
            replies.integer(backup.byte_count),
            replies.bulk(b"position"),
            replies.integer(backup.position),
        ]
        return replies.mapping(items, self.client.protocol)

    def expired(self, context: Context) -> bytes:
        return replies.error(BACKUP_NOT_WAITED)


def back_up(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """CRDT.BACKUP directory."""
    if not context.settings.config.backup_directory:
        raise CommandError(NO_BACKUPS)
    if not argv[1] or b"\0" in argv[1]:
        raise CommandError(NO_DIRECTORY)
    context.park(BackupWaiter(client, context.saving.back_up(argv[1])))
    return None


# Stopping


class StopWaiter(Waiter):
    """A SHUTDOWN; with a number it first waits for that checkpoint. With `at_once` the stop takes no further one, and
    `alone` it waits for no peer.
    """

    def __init__(self, client: Client, number: int, forced: bool, at_once: bool, alone: bool) -> None:
        super().__init__(client, [], NO_DEADLINE)
        self.number = number
        self.forced = forced
        self.at_once = at_once
        self.alone = alone

    def serve(self, context: Context) -> bytes | None:
        if self.number and not context.saving.completed(self.number):
            return None
        if self.number and context.saving.failure and not self.forced:
            raise CommandError(STOP_FAILED)
        requests = context.requests
        requests.stop = True
        requests.stop_at_once = requests.stop_at_once or self.at_once
        requests.stop_alone = requests.stop_alone or self.alone
        return None

    def expired(self, context: Context) -> bytes:
        return replies.error(STOP_FAILED.encode())


def shutdown(context: Context, client: Client, argv: list[bytes]) -> Reply:
    words = [word.upper() for word in argv[1:]]
    aborts = b"ABORT" in words
    if any(word not in SHUTDOWN_WORDS for word in words) or (aborts and len(words) > 1):
        raise CommandError(SYNTAX_ERROR)
    if b"SAVE" in words and b"NOSAVE" in words:
        raise CommandError(SYNTAX_ERROR)
    if aborts:
        return abort_shutdown(context)
    number = context.saving.request() if b"SAVE" in words else 0
    waiter = StopWaiter(client, number, b"FORCE" in words, number > 0 or b"NOSAVE" in words, b"NOW" in words)
    context.park(waiter)
    waiter.serve(context)
    return None


def abort_shutdown(context: Context) -> bytes:
    """End the wait of each SHUTDOWN SAVE; a stop that has begun cannot be aborted."""
    waiting = [waiter for waiter in context.parking.keyless() if isinstance(waiter, StopWaiter)]
    if not waiting or context.requests.stop:
        raise CommandError("ERR No shutdown in progress.")
    for waiter in waiting:
        context.unpark(waiter.client)
        context.outbox.append((waiter.client, waiter.expired(context)))
    return replies.OK


# DEBUG


class Sleeper(Waiter):
    """A client that sleeps."""

    def serve(self, context: Context) -> bytes | None:
        return None

    def expired(self, context: Context) -> bytes:
        return replies.OK


def debug(context: Context, client: Client, argv: list[bytes]) -> Reply:
    name = argv[1].upper()
    if name == b"HELP" and len(argv) == 2:
        return help_reply(DEBUG.name, DEBUG.help)
    if name != b"SLEEP" or len(argv) != 3:
        raise CommandError(NO_DEBUG)
    number = SECONDS.match(argv[2])
    sleep_ms = int(float(number[1]) * SECOND_MS) if number else 0
    if sleep_ms == 0:
        return replies.OK
    context.park(Sleeper(client, [], context.now_ms + sleep_ms))
    return None


DEBUG = Command(
    "debug",
    debug,
    arity=-2,
    flags="admin noscript loading stale",
    since="1.0.0",
    group="server",
    summary="Makes a connection sleep.",
    syntax="SLEEP seconds",
    help=(
        "SLEEP <seconds>",
        "    Let this connection sleep for <seconds>; the region goes on. Decimals allowed.",
        "HELP",
        "    Print this help.",
    ),
)
COMMANDS: list[Command] = [
    Command(
        "save",
        save,
        arity=1,
        flags="admin noscript no_multi no_async_loading",
        since="1.0.0",
        group="server",
        summary="Takes a checkpoint and waits for it.",
    ),
    Command(
        "bgsave",
        save_beside,
        arity=-1,
        flags="admin noscript no_async_loading",
        since="1.0.0",
        group="server",
        summary="Takes a checkpoint in the background.",
        syntax="[SCHEDULE@3.2.2]",
    ),
    Command(
        "bgrewriteaof",
        rewrite_log,
        arity=1,
        flags="admin noscript no_async_loading",
        since="1.0.0",
        group="server",
        summary="Takes a checkpoint, so that the log can be truncated.",
    ),
    Command(
        "lastsave",
        last_save,
        arity=1,
        flags="loading stale fast",
        categories="admin dangerous",
        since="1.0.0",
        group="server",
        summary="Returns the Unix timestamp of the last checkpoint.",
    ),
    Command(
        "crdt.backup",
        back_up,
        arity=2,
        flags="admin noscript no_multi",
        since="0.1.0",
        group="server",
        summary="Writes a backup into a directory on the region's machine and waits for it.",
        syntax="directory",
    ),
    Command(
        "shutdown",
        shutdown,
        arity=-1,
        flags="admin noscript loading stale no_multi allow_busy",
        since="1.0.0",
        group="server",
        summary="Stops the region cleanly.",
        syntax="[save-selector:<NOSAVE | SAVE>] [NOW@7.0.0] [FORCE@7.0.0] [ABORT@7.0.0]",
    ),
    DEBUG,
]
