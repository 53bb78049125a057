"""Arguments shared by several stream commands: IDs, bounds of ranges, COUNT, and what is done with references.

A parser raises Redis's error text and changes only the object that it fills. An option word counts as an option only if
enough arguments come after it; otherwise it is taken as the next positional argument, as in Redis. Parsed bounds of a
range are closed: an exclusive bound `(id` has been replaced by the next or previous ID.

Reference: `streamGenericParseIDOrReply` of Redis.
"""

from __future__ import annotations

from typing import Final

from crdtstream.commands.integers import integer
from crdtstream.connections.context import CommandError
from crdtstream.core.values.entry_id import (
    ID_MAX,
    ID_MIN,
    U64_MAX,
    EntryId,
    next_id,
    parse_id,
    parse_plain,
    previous_id,
)

SYNTAX = "ERR syntax error"
INVALID_ID = "ERR Invalid stream ID specified as stream command argument"

BAD_NUMBER_OF_IDS = "ERR Number of IDs must be a positive integer"
NO_IDS = "ERR IDS option is required"

COUNT_ALL: Final = -1


# IDs


def parse_entry_id(text: bytes, missing_seq: int = 0) -> EntryId:
    """`ms-seq` or `ms`; `-` and `+` are not accepted."""
    plain = parse_plain(text)
    if plain[0] >= 0:
        return plain
    entry_id = parse_id(text, missing_seq)
    if entry_id is None:
        raise CommandError(INVALID_ID)
    return entry_id


def parse_entry_ids(argv: list[bytes], first: int) -> list[EntryId]:
    """The IDs from argument `first` on, ascending, without duplicates."""
    return ascending(parse_all(argv[first:]))


def ascending(ids: list[EntryId]) -> list[EntryId]:
    return ids if ascend(ids) else sorted(dict.fromkeys(ids))


def ascend(ids: list[EntryId]) -> bool:
    before_ms, before_seq = -1, -1
    for ms, seq in ids:
        if ms < before_ms or (ms == before_ms and seq <= before_seq):
            return False
        before_ms, before_seq = ms, seq
    return True


def parse_all(texts: list[bytes]) -> list[EntryId]:
    """These IDs, in their order."""
    return [parse_entry_id(text) for text in texts]


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


# What a removal does with the pending entries that refer to what it removes: it keeps them, it removes them too, or it
# removes only entries that no group needs.
KEEPREF: Final = 0
DELREF: Final = 1
ACKED: Final = 2
REFERENCES: Final = {b"KEEPREF": KEEPREF, b"DELREF": DELREF, b"ACKED": ACKED}


def parse_numbered_ids(argv: list[bytes], at: int) -> list[EntryId]:
    """The IDs of `IDS n id...`, with IDS at `at`; as many as are said, in their order."""
    return parse_all(numbered_texts(argv, at))


def numbered_texts(argv: list[bytes], at: int) -> list[bytes]:
    if at + 1 == len(argv):
        raise CommandError(SYNTAX)
    count = integer(argv[at + 1], BAD_NUMBER_OF_IDS)
    if count <= 0:
        raise CommandError(BAD_NUMBER_OF_IDS)
    if count > len(argv) - at - 2:
        raise CommandError("ERR The `numids` parameter must match the number of arguments")
    return argv[at + 2 : at + 2 + count]
