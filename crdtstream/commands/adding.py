"""The arguments of XADD and XTRIM: the ID of the new entry, and how a stream is trimmed.

A parser changes only the object that it fills; what is wrong is raised in the order in which Redis finds it.

Reference: `streamParseAddOrTrimArgsOrReply` of Redis.
"""

from __future__ import annotations

from crdtstream.commands.arguments import INVALID_ID, REFERENCES, SYNTAX, parse_entry_id
from crdtstream.commands.integers import integer
from crdtstream.connections.context import CommandError
from crdtstream.core.values.entry_id import EntryId, parse_part

TWO_STRATEGIES = "ERR syntax error, MAXLEN and MINID options at the same time are not compatible"
LIMIT_ALONE = "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy"
LIMIT_EXACT = "ERR syntax error, LIMIT cannot be used without the special ~ option"

LIMIT_NODES = 100
LIMIT_DEFAULT_MIN = 10_000
LIMIT_DEFAULT_MAX = 1_000_000

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
        ms = parse_part(text[:-2])
        if ms is None:
            raise CommandError(INVALID_ID)
        return NewId(AUTO_SEQ, ms, 0)
    ms, seq = parse_entry_id(text)
    return NewId(FULL if b"-" in text else MS_ONLY, ms, seq)


class TrimOptions:
    """`MAXLEN|MINID [=|~] threshold [LIMIT n] [KEEPREF|DELREF|ACKED]`: `keep` or `min_id` is set, or neither; `limit`
    and `references` are None if absent.
    """

    __slots__ = ("approximate", "keep", "limit", "min_id", "references")

    def __init__(self) -> None:
        self.keep: int | None = None
        self.min_id: EntryId | None = None
        self.approximate = False
        self.limit: int | None = None
        self.references: int | None = None

    def given(self) -> bool:
        return self.keep is not None or self.min_id is not None

    def parse(self, argv: list[bytes], at: int) -> int:
        """Parse the option at `at`; returns how many arguments it takes, or 0 if it is not one of these."""
        word = argv[at].upper()
        if self.references is None and word in REFERENCES:
            self.references = REFERENCES[word]
            return 1
        if at + 1 == len(argv):
            return 0
        if word == b"MAXLEN" or word == b"MINID":
            return self._parse_threshold(word, argv, at)
        if word == b"LIMIT":
            self.limit = integer(argv[at + 1])
            if self.limit < 0:
                raise CommandError("ERR The LIMIT argument must be >= 0.")
            return 2
        return 0

    def _parse_threshold(self, word: bytes, argv: list[bytes], at: int) -> int:
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

    __slots__ = ("automatic", "fields_at", "name", "new_id", "no_mkstream", "producer", "trim")

    def __init__(self) -> None:
        self.no_mkstream = False
        # IDMP and IDMPAUTO: no producer is the empty one; with `automatic` the name comes from the content.
        self.producer = b""
        self.name = b""
        self.automatic = False
        self.trim = TrimOptions()
        self.new_id = NewId(AUTO, 0, 0)
        self.fields_at = 0

    def parse(self, argv: list[bytes], at: int) -> int:
        """Parse the option at `at`; returns how many arguments it takes, or 0 if there is none."""
        word = argv[at].upper()
        if word == b"NOMKSTREAM":
            self.no_mkstream = True
            return 1
        width = 3 if word == b"IDMP" else 2 if word == b"IDMPAUTO" else 0
        if width and at + width <= len(argv):
            self._parse_producer(word.decode(), argv[at + 1 : at + width])
            return width
        return self.trim.parse(argv, at)

    def _parse_producer(self, word: str, values: list[bytes]) -> None:
        if self.producer:
            raise CommandError("ERR syntax error, IDMP/IDMPAUTO specified multiple times")
        self.producer = values[0]
        self.automatic = len(values) == 1
        if not self.producer:
            raise CommandError(f"ERR syntax error, {word} requires a non-empty producer ID")
        if not self.automatic:
            self.name = values[1]
            if not self.name:
                raise CommandError(f"ERR syntax error, {word} requires a non-empty idempotent ID")


def parse_add(argv: list[bytes]) -> AddOptions:
    options = AddOptions()
    at = 2
    while at < len(argv) and argv[at] != b"*":
        width = options.parse(argv, at)
        if width == 0:
            options.new_id = parse_new_id(argv[at])
            break
        at += width
    options.trim.finish()
    options.fields_at = at + 1
    fields = len(argv) - options.fields_at
    if fields < 2 or fields % 2 == 1:
        raise CommandError("ERR wrong number of arguments for 'xadd' command")
    if options.producer and options.new_id.kind != AUTO:
        raise CommandError("ERR syntax error, IDMP/IDMPAUTO can be used only with auto-generated IDs")
    return options


def parse_trim(argv: list[bytes]) -> TrimOptions:
    options = TrimOptions()
    at = 2
    while at < len(argv):
        width = options.parse(argv, at)
        if width == 0:
            raise CommandError(SYNTAX)
        at += width
    if not options.given() and not options.limit:
        raise CommandError("ERR syntax error, XTRIM must be called with a trimming strategy")
    options.finish()
    return options
