"""The slow log: commands that ran for `slow_command_us` or longer, the last `slow_log_entries_max` of them.

As in Redis, an entry keeps 32 arguments of 128 bytes each and says how many more there were; passwords are hidden; and
lowering the limit takes effect with the next entry. The time of a command that waited is the time it ran.

Reference: `slowlog.c` of Redis.
"""

from __future__ import annotations

from collections import deque
from typing import Final

ARGUMENTS_MAX: Final = 32
ARGUMENT_BYTES_MAX: Final = 128
REDACTED: Final = b"(redacted)"
OFF: Final = -1
SECRET_SETTING: Final = b"requirepass"
SECRET_SUBCOMMANDS: Final = (b"SETUSER", b"GETUSER", b"DELUSER")
NEVER_NS: Final = 1 << 61


class SlowCommand:
    __slots__ = ("address", "arguments", "client_name", "number", "time_s", "took_us")

    def __init__(
        self, number: int, time_s: int, took_us: int, arguments: list[bytes], address: str, client_name: bytes
    ) -> None:
        self.number = number
        self.time_s = time_s
        self.took_us = took_us
        self.arguments = arguments
        self.address = address
        self.client_name = client_name


class SlowLog:
    """The entries, oldest first; a command is slow from `least_ns` on (inclusive)."""

    __slots__ = ("_entries_max", "_next", "entries", "least_ns")

    def __init__(self) -> None:
        self.entries: deque[SlowCommand] = deque()
        self.least_ns = NEVER_NS
        self._entries_max = 0
        self._next = 0

    def limit(self, least_us: int, entries_max: int) -> None:
        self._entries_max = entries_max
        self.least_ns = NEVER_NS if least_us == OFF else min(least_us * 1000, NEVER_NS)

    def add(self, argv: list[bytes], took_ns: int, now_ms: int, address: str, client_name: bytes) -> None:
        entry = SlowCommand(self._next, now_ms // 1000, took_ns // 1000, kept(argv), address, client_name)
        self._next += 1
        self.entries.append(entry)
        while len(self.entries) > self._entries_max:
            self.entries.popleft()

    def newest(self, count: int) -> list[SlowCommand]:
        """The newest entries first; all if `count` is negative."""
        entries = list(reversed(self.entries))
        return entries if count < 0 else entries[:count]


def kept(argv: list[bytes]) -> list[bytes]:
    """The arguments as the slow log keeps them: passwords hidden, and shortened."""
    shown = redacted(argv)
    more = len(shown) - ARGUMENTS_MAX + 1
    if more > 1:
        shown = [*shown[: ARGUMENTS_MAX - 1], b"... (%d more arguments)" % more]
    return [shortened(argument) for argument in shown]


def shortened(argument: bytes) -> bytes:
    more = len(argument) - ARGUMENT_BYTES_MAX
    return b"%b... (%d more bytes)" % (argument[:ARGUMENT_BYTES_MAX], more) if more > 0 else argument


def redacted(argv: list[bytes]) -> list[bytes]:
    """The arguments with the credentials of AUTH, HELLO AUTH, CONFIG SET and ACL replaced."""
    secret = secrets_of(argv)
    return [REDACTED if at in secret else argument for at, argument in enumerate(argv)]


def secrets_of(argv: list[bytes]) -> list[int]:
    """The indexes of passwords and of their users' names."""
    name = argv[0].upper()
    if name == b"AUTH":
        return list(range(1, len(argv)))
    if name == b"ACL" and len(argv) > 1 and argv[1].upper() in SECRET_SUBCOMMANDS:
        return list(range(2, len(argv)))
    if name == b"CONFIG" and argv[1].upper() == b"SET":
        return [at + 1 for at in range(2, len(argv), 2) if argv[at].lower() == SECRET_SETTING]
    if name == b"HELLO":
        return [secret for at in range(2, len(argv)) if argv[at].upper() == b"AUTH" for secret in (at + 1, at + 2)]
    return []
