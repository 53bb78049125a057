"""The options of XREAD and XREADGROUP.

An option word counts as an option only if enough arguments come after it; otherwise it is a syntax error, as in Redis.

Reference: `xreadCommand` of Redis.
"""

from __future__ import annotations

from typing import Final

from crdtstream.commands.arguments import COUNT_ALL, SYNTAX
from crdtstream.commands.integers import deadline, integer
from crdtstream.connections.context import CommandError

NO_MAXIMUM: Final = -1
NO_CLAIM: Final = -1
# The smallest entry: `*2 $3 0-1 *2 $0 "" $0 ""`.
ENTRY_BYTES_MIN: Final = 29
LOWER_A: Final = 97
LOWER_Z: Final = 122


# The options, and how many values each has: those of a request stand before its keys, and take their words.
READ_OPTIONS: Final = {
    b"BLOCK": 1,
    b"CLAIM": 1,
    b"COUNT": 1,
    b"GROUP": 2,
    b"MAXCOUNT": 1,
    b"MAXSIZE": 1,
    b"NOACK": 0,
}


class ReadOptions:
    """The options of XREAD and XREADGROUP: `ids` are unparsed, one for each of `keys`; `count` is COUNT_ALL if absent
    or 0, `count_max` and `bytes_max` (of the whole reply) are NO_MAXIMUM and `claim_ms` is NO_CLAIM if absent.
    """

    __slots__ = (
        "blocking",
        "bytes_max",
        "claim_ms",
        "consumer",
        "count",
        "count_max",
        "deadline_ms",
        "group",
        "grouped",
        "ids",
        "keys",
        "noack",
    )

    def __init__(self) -> None:
        self.count = COUNT_ALL
        self.count_max = NO_MAXIMUM
        self.bytes_max = NO_MAXIMUM
        self.claim_ms = NO_CLAIM
        self.blocking = False
        self.deadline_ms = 0
        self.grouped = False
        self.group = b""
        self.consumer = b""
        self.noack = False
        self.keys: list[bytes] = []
        self.ids: list[bytes] = []

    def parse(self, argv: list[bytes], at: int, now_ms: int, command: str) -> int:
        """Parse the option at `at`; returns how many arguments it takes."""
        more = len(argv) - at - 1
        word = capitals(argv[at])
        if word == b"GROUP" and more >= 2:
            require_grouped(command, "GROUP")
            self.grouped = True
            self.group, self.consumer = argv[at + 1], argv[at + 2]
            return 3
        if word == b"COUNT" and more:
            self.count = integer(argv[at + 1])
            if self.count <= 0:
                self.count = COUNT_ALL
            return 2
        if word == b"STREAMS" and more:
            self._parse_streams(argv, at + 1, command)
            return more + 1
        if word == b"BLOCK" and more:
            self.deadline_ms = deadline(argv[at + 1], now_ms)
            self.blocking = True
            return 2
        if (word == b"MAXCOUNT" or word == b"MAXSIZE") and more:
            self._parse_maximum(word, argv[at + 1])
            return 2
        if word == b"CLAIM" and more:
            require_grouped(command, "CLAIM")
            self.claim_ms = integer(argv[at + 1], "ERR min-idle-time is not an integer or out of range")
            if self.claim_ms < 0:
                raise CommandError("ERR min-idle-time must be a positive integer")
            return 2
        if word == b"NOACK":
            require_grouped(command, "NOACK")
            self.noack = True
            return 1
        raise CommandError(SYNTAX)

    def _parse_maximum(self, word: bytes, value: bytes) -> None:
        refusal = f"ERR {word.decode()} must be a positive integer"
        number = integer(value, refusal)
        if number <= 0:
            raise CommandError(refusal)
        if word == b"MAXCOUNT":
            self.count_max = number
        else:
            self.bytes_max = number

    def _parse_streams(self, argv: list[bytes], first: int, command: str) -> None:
        count = (len(argv) - first) // 2
        if first + 2 * count != len(argv):
            special = "an ID or '>'" if command == "xreadgroup" else "an ID, '+', or '$'"
            raise CommandError(
                f"ERR Unbalanced '{command}' list of streams: for each stream key {special} must be specified."
            )
        self.keys = argv[first : first + count]
        self.ids = argv[first + count :]


def capitals(word: bytes) -> bytes:
    """The word in capitals; most are written so."""
    for at in range(len(word)):
        if LOWER_A <= word[at] <= LOWER_Z:
            return word.upper()
    return word


def require_grouped(command: str, option: str) -> None:
    if command != "xreadgroup":
        raise CommandError(f"ERR The {option} option is only supported by XREADGROUP. You called XREAD instead.")


def parse_read(argv: list[bytes], now_ms: int, command: str) -> ReadOptions:
    """Parse XREAD or XREADGROUP; `command` is `xread` or `xreadgroup`."""
    options = ReadOptions()
    at = 1
    while at < len(argv):
        at += options.parse(argv, at, now_ms, command)
    if not options.keys:
        raise CommandError(SYNTAX)
    if command == "xreadgroup" and not options.grouped:
        raise CommandError("ERR Missing GROUP option for XREADGROUP")
    if NO_MAXIMUM < options.count_max < options.count:
        raise CommandError("ERR MAXCOUNT must be greater than or equal to COUNT")
    return options


class ReplyBudget:
    """What one reply may still hold of MAXCOUNT and MAXSIZE, in all streams together. The first entry fits whatever its
    size, so that a reader gets on.
    """

    __slots__ = ("_bytes", "_count", "_empty")

    def __init__(self, options: ReadOptions) -> None:
        self._count = options.count_max
        self._bytes = options.bytes_max
        self._empty = True

    def is_full(self) -> bool:
        return self._count == 0 or (not self._empty and self._bytes == 0)

    def limit(self, count: int) -> int:
        """At most how many entries to look for; a negative `count` means all."""
        if self._count >= 0:
            count = fewer(count, self._count)
        return count if self._bytes < 0 else fewer(count, self._bytes // ENTRY_BYTES_MIN + 1)

    def is_measured(self) -> bool:
        """True if the size of the reply is limited."""
        return self._bytes >= 0

    def bytes_left(self, overhead: int) -> int:
        """How many bytes entries may have beside the `overhead` of their stream; negative for any number."""
        return self._bytes if self._bytes < 0 else max(self._bytes - overhead, 0)

    def fits(self, size: int) -> bool:
        """True if one more entry of this size may come."""
        return self._count != 0 and (self._empty or self._bytes < 0 or size <= self._bytes)

    def at_least(self) -> int:
        """How many entries fit in any case."""
        return 1 if self._empty else 0

    def close(self) -> None:
        """Let nothing more in: an entry was left out."""
        self._bytes, self._empty = 0, False

    def spend(self, entries: int, size: int) -> None:
        self._empty = self._empty and entries == 0
        if self._count >= 0:
            self._count -= entries
        if self._bytes >= 0:
            self._bytes = max(self._bytes - size, 0)


def fewer(count: int, limit: int) -> int:
    """The smaller number; a negative `count` means all."""
    return limit if count < 0 or limit < count else count
