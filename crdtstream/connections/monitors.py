"""MONITOR: every command that this region runs, as a line for each client that asked to see them.

As in Redis, commands for operators are not shown, a transaction is shown when it runs, with EXEC at its end, and
passwords are hidden.

Reference: `replicationFeedMonitors` and `sdscatrepr` of Redis.
"""

from __future__ import annotations

from typing import Final

from crdtstream.connections.client import Client
from crdtstream.connections.command import Command
from crdtstream.connections.context import Context
from crdtstream.connections.slow_log import redacted

ESCAPES: Final = {7: b"\\a", 8: b"\\b", 9: b"\\t", 10: b"\\n", 13: b"\\r", 34: b'\\"', 92: b"\\\\"}


def feed(context: Context, client: Client, command: Command, argv: list[bytes]) -> None:
    """Show a command that has just run."""
    if "admin" not in command.flags:
        line = line_of(context.now_ms, client, argv)
        context.pubsub.messages += [(monitor, line) for monitor in context.monitors.values()]


def line_of(now_ms: int, client: Client, argv: list[bytes]) -> bytes:
    shown = b" ".join([quoted(argument) for argument in redacted(argv)])
    return b"+%d.%03d000 [%d %b] %b\r\n" % (*divmod(now_ms, 1000), client.database, client.address.encode(), shown)


def quoted(argument: bytes) -> bytes:
    return b'"%b"' % b"".join([character(byte) for byte in argument])


def character(byte: int) -> bytes:
    known = ESCAPES.get(byte)
    if known is not None:
        return known
    return b"%c" % byte if 32 <= byte < 127 else b"\\x%02x" % byte
