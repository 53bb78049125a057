"""The options of XREAD and XREADGROUP.

An option word counts as an option only if enough arguments come after it; otherwise it is a syntax error, as in Redis.

Reference: `xreadCommand` of Redis.
"""

from __future__ import annotations

from crdtstream.clients.context import CommandError
from crdtstream.commands.arguments import COUNT_ALL, SYNTAX
from crdtstream.commands.integers import deadline, integer


class ReadOptions:
    """The options of XREAD and XREADGROUP: `ids` are unparsed, one for each of `keys`; `count` is COUNT_ALL if absent
    or 0.
    """

    __slots__ = ("blocking", "consumer", "count", "deadline_ms", "group", "grouped", "ids", "keys", "noack")

    def __init__(self) -> None:
        self.count = COUNT_ALL
        self.blocking = False
        self.deadline_ms = 0
        self.grouped = False
        self.group = b""
        self.consumer = b""
        self.noack = False
        self.keys: list[bytes] = []
        self.ids: list[bytes] = []

    def take(self, argv: list[bytes], at: int, now_ms: int, command: str) -> int:
        """Parse the option at `at`; returns how many arguments it takes."""
        more = len(argv) - at - 1
        word = argv[at].upper()
        if word == b"BLOCK" and more:
            self.deadline_ms = deadline(argv[at + 1], now_ms)
            self.blocking = True
            return 2
        if word == b"COUNT" and more:
            self.count = integer(argv[at + 1])
            if self.count <= 0:
                self.count = COUNT_ALL
            return 2
        if word == b"STREAMS" and more:
            self._take_streams(argv, at + 1, command)
            return more + 1
        if word == b"GROUP" and more >= 2:
            require_grouped(command, "GROUP")
            self.grouped = True
            self.group, self.consumer = argv[at + 1], argv[at + 2]
            return 3
        if word == b"NOACK":
            require_grouped(command, "NOACK")
            self.noack = True
            return 1
        raise CommandError(SYNTAX)

    def _take_streams(self, argv: list[bytes], first: int, command: str) -> None:
        count, odd = divmod(len(argv) - first, 2)
        if odd:
            special = "an ID or '>'" if command == "xreadgroup" else "an ID, '+', or '$'"
            raise CommandError(
                f"ERR Unbalanced '{command}' list of streams: for each stream key {special} must be specified."
            )
        self.keys = argv[first : first + count]
        self.ids = argv[first + count :]


def require_grouped(command: str, option: str) -> None:
    if command != "xreadgroup":
        raise CommandError(f"ERR The {option} option is only supported by XREADGROUP. You called XREAD instead.")


def parse_read(argv: list[bytes], now_ms: int, command: str) -> ReadOptions:
    """Parse XREAD or XREADGROUP; `command` is `xread` or `xreadgroup`."""
    options = ReadOptions()
    at = 1
    while at < len(argv):
        at += options.take(argv, at, now_ms, command)
    if not options.keys:
        raise CommandError(SYNTAX)
    if command == "xreadgroup" and not options.grouped:
        raise CommandError("ERR Missing GROUP option for XREADGROUP")
    return options
