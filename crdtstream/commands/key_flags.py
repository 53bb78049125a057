"""Which arguments of a request are keys, and what the command does to each: COMMAND GETKEYS, GETKEYSANDFLAGS and INFO.

A row tells it by its `Keys`. Most commands treat all their keys alike; the others have one specification for each key.

Reference: key specifications of Redis.
"""

from __future__ import annotations

from crdtstream.connections.command import Command, Keys
from crdtstream.connections.context import CommandError
from crdtstream.protocols import replies

# Of one request


def keys_of(command: Command, request: list[bytes]) -> list[bytes]:
    positions = command.keys.positions(request)
    if command.keys.keyword and not positions:
        raise CommandError("ERR Invalid arguments specified for command")
    return [request[at] for at in positions]


def flagged(command: Command, keys: list[bytes], protocol: int) -> bytes:
    """Each key of a request with its flags."""
    flags = command.keys.flags
    rows: list[bytes] = []
    for at, key in enumerate(keys):
        own_flags = words(flags[min(at, len(flags) - 1)], protocol)
        rows.append(replies.array([replies.bulk(key), own_flags]))
    return replies.array(rows)


def words(flags: list[str], protocol: int) -> bytes:
    return replies.unordered([replies.simple(flag.encode()) for flag in flags], protocol)


# Of a command


def specifications(keys: Keys, protocol: int, note: str) -> bytes:
    """The key specifications of a command: where keys begin, how many there are, their flags, and a note if any."""
    return replies.unordered([specification(keys, at, protocol, note) for at in range(len(keys.flags))], protocol)


def specification(keys: Keys, at: int, protocol: int, note: str) -> bytes:
    items = [replies.bulk(b"notes"), replies.bulk(note.encode())] if note else []
    items += [replies.bulk(b"flags"), words(keys.flags[at], protocol)]
    items += [replies.bulk(b"begin_search"), beginning(keys, at, protocol)]
    items += [replies.bulk(b"find_keys"), extent(keys, protocol)]
    return replies.mapping(items, protocol)


def beginning(keys: Keys, at: int, protocol: int) -> bytes:
    if keys.keyword:
        keyword = [replies.bulk(b"keyword"), replies.bulk(keys.keyword)]
        return search("keyword", keyword + number(b"startfrom", keys.keyword_from), protocol)
    return search("index", number(b"index", keys.first + at), protocol)


def extent(keys: Keys, protocol: int) -> bytes:
    """`find_keys`: one key, or all remaining arguments, or the first half of them (`limit` 2)."""
    last, limit = (-1, 2) if keys.keyword else (min(0, keys.last), 0)
    return search("range", number(b"lastkey", last) + number(b"keystep", 1) + number(b"limit", limit), protocol)


def search(kind: str, spec: list[bytes], protocol: int) -> bytes:
    items = [replies.bulk(b"type"), replies.bulk(kind.encode()), replies.bulk(b"spec")]
    return replies.mapping([*items, replies.mapping(spec, protocol)], protocol)


def number(name: bytes, value: int) -> list[bytes]:
    return [replies.bulk(name), replies.integer(value)]
