"""Arguments shared by several stream commands: IDs, range bounds, COUNT, trimming, and the streams that XREAD reads.

A parser raises Redis's error text and changes only the object that it fills. An option word counts as an option only if
enough arguments come after it; otherwise it is taken as the next positional argument, as in Redis. Parsed bounds of a
range are closed: an exclusive bound `(id` has been replaced by the next or previous ID.

Reference: `streamGenericParseIDOrReply`, `streamParseAddOrTrimArgsOrReply` and `xreadCommand` of Redis.
"""

from __future__ import annotations

from crdtstream.clients.context import CommandError
from crdtstream.commands.integers import deadline, integer
from crdtstream.core.entry_id import ID_MAX, ID_MIN, U64_MAX, EntryId, next_id, parse_id, parse_u64, previous_id

SYNTAX = "ERR syntax error"
INVALID_ID = "ERR Invalid stream ID specified as stream command argument"
TWO_STRATEGIES = "ERR syntax error, MAXLEN and MINID options at the same time are not compatible"
LIMIT_ALONE = "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy"
LIMIT_EXACT = "ERR syntax error, LIMIT cannot be used without the special ~ option"

COUNT_ALL = -1
LIMIT_NODES = 100
LIMIT_DEFAULT_MIN = 10_000
LIMIT_DEFAULT_MAX = 1_000_000


# IDs


def parse_entry_id(text: bytes, missing_seq: int = 0) -> EntryId:
    """`ms-seq` or `ms`; `-` and `+` are not accepted."""
    entry_id = parse_id(text, missing_seq)
    if entry_id is None:
        raise CommandError(INVALID_ID)
    return entry_id


def parse_entry_ids(argv: list[bytes], first: int) -> list[EntryId]:
    """The IDs from argument `first` on, ascending, without duplicates."""
    ids: list[EntryId] = []
    ascending = True
    before = (-1, -1)
    for at in range(first, len(argv)):
        entry_id = parse_entry_id(argv[at])
        ascending = ascending and before < entry_id
        before = entry_id
        ids.append(entry_id)
    return ids if ascending else sorted(dict.fromkeys(ids))


def parse_range_start(text: bytes) -> EntryId:
    if text[:1] == b"(" and len(text) > 1:
        start = next_id(parse_entry_id(text[1:]))
        if start is None:
            raise CommandError("ERR invalid start ID for the interval")
        return start
    return parse_bound(text, 0)


def parse_range_end(text: bytes) -> EntryId:
    if text[:1] == b"(" and len(text) > 1:
        end = previous_id(parse_entry_id(text[1:], U64_MAX))
        if end is None:
            raise CommandError("ERR invalid end ID for the interval")
        return end
    return parse_bound(text, U64_MAX)


def parse_bound(text: bytes, missing_seq: int) -> EntryId:
    """`-`, `+` or an ID."""
    if text == b"-":
        return ID_MIN
    return ID_MAX if text == b"+" else parse_entry_id(text, missing_seq)


AUTO = 0
AUTO_SEQ = 1
MS_ONLY = 2
FULL = 3


class NewId:
    """The ID argument of XADD: `*`, `ms-*`, `ms` or `ms-seq`."""

    __slots__ = ("kind", "ms", "seq")

    def __init__(self, kind: int, ms: int, seq: int) -> None:
        self.kind = kind
        self.ms = ms
        self.seq = seq


def parse_new_id(text: bytes) -> NewId:
    if text == b"*":
        return NewId(AUTO, 0, 0)
    if text.endswith(b"-*"):
        ms = parse_u64(text[:-2])
        if ms is None:
            raise CommandError(INVALID_ID)
        return NewId(AUTO_SEQ, ms, 0)
    ms, seq = parse_entry_id(text)
    return NewId(FULL if b"-" in text else MS_ONLY, ms, seq)


# Options


def parse_count(argv: list[bytes], at: int) -> int:
    """Parse `[COUNT n]`, the only option from `at` on: COUNT_ALL if it is absent; a negative count becomes 0."""
    count = COUNT_ALL
    while at < len(argv):
        if argv[at].upper() != b"COUNT" or at + 1 == len(argv):
            raise CommandError(SYNTAX)
        count = max(integer(argv[at + 1]), 0)
        at += 2
    return count


class TrimOptions:
    """`MAXLEN|MINID [=|~] threshold [LIMIT n]`: `keep` or `min_id` is set, or neither; `limit` is None if absent."""

    __slots__ = ("approximate", "keep", "limit", "min_id")

    def __init__(self) -> None:
        self.keep: int | None = None
        self.min_id: EntryId | None = None
        self.approximate = False
        self.limit: int | None = None

    def given(self) -> bool:
        return self.keep is not None or self.min_id is not None

    def take(self, argv: list[bytes], at: int) -> int:
        """Parse the option at `at`; returns how many arguments it takes, or 0 if it is not one of these."""
        if at + 1 == len(argv):
            return 0
        word = argv[at].upper()
        if word == b"MAXLEN" or word == b"MINID":
            return self._take_threshold(word, argv, at)
        if word == b"LIMIT":
            self.limit = integer(argv[at + 1])
            if self.limit < 0:
                raise CommandError("ERR The LIMIT argument must be >= 0.")
            return 2
        return 0

    def _take_threshold(self, word: bytes, argv: list[bytes], at: int) -> int:
        if self.given():
            raise CommandError(TWO_STRATEGIES)
        width = 2
        if at + 2 < len(argv) and (argv[at + 1] == b"~" or argv[at + 1] == b"="):
            self.approximate = argv[at + 1] == b"~"
            width = 3
        threshold = argv[at + width - 1]
        if word == b"MINID":
            self.min_id = parse_entry_id(threshold)
        else:
            self.keep = integer(threshold)
            if self.keep < 0:
                raise CommandError("ERR The MAXLEN argument must be >= 0.")
        return width

    def finish(self) -> None:
        """Call after the last option: reject a LIMIT that has nothing to limit."""
        if self.limit and not self.given():
            raise CommandError(LIMIT_ALONE)
        if self.limit is not None and not self.approximate:
            raise CommandError(LIMIT_EXACT)

    def removals_max(self, node_entries: int) -> int | None:
        """How many entries one approximate trim may remove; None for all."""
        if self.limit is not None:
            return self.limit or None
        if node_entries <= 0:
            return LIMIT_DEFAULT_MIN
        return min(LIMIT_NODES * node_entries, LIMIT_DEFAULT_MAX)


class AddOptions:
    """The arguments of XADD between its key and its fields."""

    __slots__ = ("fields_at", "new_id", "no_mkstream", "trim")

    def __init__(self) -> None:
        self.no_mkstream = False
        self.trim = TrimOptions()
        self.new_id = NewId(AUTO, 0, 0)
        self.fields_at = 0


def parse_add(argv: list[bytes]) -> AddOptions:
    options = AddOptions()
    at = 2
    while at < len(argv) and argv[at] != b"*":
        width = options.trim.take(argv, at)
        if width == 0:
            if argv[at].upper() != b"NOMKSTREAM":
                options.new_id = parse_new_id(argv[at])
                break
            options.no_mkstream = True
            width = 1
        at += width
    options.trim.finish()
    options.fields_at = at + 1
    fields = len(argv) - options.fields_at
    if fields < 2 or fields % 2 == 1:
        raise CommandError("ERR wrong number of arguments for 'xadd' command")
    return options


def parse_trim(argv: list[bytes]) -> TrimOptions:
    options = TrimOptions()
    at = 2
    while at < len(argv):
        width = options.take(argv, at)
        if width == 0:
            raise CommandError(SYNTAX)
        at += width
    if not options.given() and not options.limit:
        raise CommandError("ERR syntax error, XTRIM must be called with a trimming strategy")
    options.finish()
    return options


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
