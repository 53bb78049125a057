"""Which arguments of a request are keys, and what the command does to each: COMMAND GETKEYS, GETKEYSANDFLAGS and INFO.

A key is read (RO), changed (RW), overwritten (OW) or removed (RM). In addition its value is used (access) or changed
(update), or data is added (insert) or removed (delete). Most commands treat all their keys alike; the others have one
specification for each key.

Reference: key specifications of Redis.
"""

from __future__ import annotations

from typing import Final

from crdtstream.clients.command import Command
from crdtstream.clients.context import CommandError
from crdtstream.protocols import replies

KEYWORD: Final = b"STREAMS"
KEYWORD_FROM: Final = {"xread": 1, "xreadgroup": 4}
TEXT = {
    "RO": "exists memory|usage object|encoding object|freq object|idletime object|refcount touch type watch xlen",
    "RO access": "expiretime pexpiretime pttl ttl xinfo|consumers xinfo|groups xinfo|stream xpending xrange xread"
    " xreadgroup xrevrange",
    "RO access, OW update": "copy",
    "RW update": "expire expireat persist pexpire pexpireat xack xadd xclaim xgroup|setid xsetid",
    "RW insert": "xgroup|create xgroup|createconsumer",
    "RW delete": "xautoclaim xdel xgroup|delconsumer xgroup|destroy xtrim",
    "RW access delete, OW insert": "renamenx",
    "RW access delete, OW update": "rename",
    "RM delete": "del unlink",
}


def flags_of(text: dict[str, str]) -> dict[str, list[list[str]]]:
    """Command name -> the flags of each key specification."""
    found: dict[str, list[list[str]]] = {}
    for flags, names in text.items():
        for name in names.split():
            found[name] = [one.split() for one in flags.split(", ")]
    return found


KEY_FLAGS = flags_of(TEXT)


# Of one request


def keys_of(command: Command, request: list[bytes]) -> list[bytes]:
    if "movablekeys" in command.flags:
        return stream_names(request)
    if command.first_key == 0:
        return []
    last = command.last_key if command.last_key >= 0 else len(request) + command.last_key
    return request[command.first_key : last + 1 : command.key_step]


def stream_names(request: list[bytes]) -> list[bytes]:
    """The keys of XREAD and XREADGROUP: the first half of the arguments after STREAMS."""
    for i in range(1, len(request)):
        if request[i].upper() == KEYWORD:
            named_part = request[i + 1 :]
            return named_part[: len(named_part) // 2]
    raise CommandError("ERR Invalid arguments specified for command")


def flagged(command: Command, keys: list[bytes], protocol: int) -> bytes:
    """Each key of a request with its flags."""
    flags = KEY_FLAGS[command.name]
    rows: list[bytes] = []
    for at, key in enumerate(keys):
        own_flags = words(flags[min(at, len(flags) - 1)], protocol)
        rows.append(replies.array([replies.bulk(key), own_flags]))
    return replies.array(rows)


def words(flags: list[str], protocol: int) -> bytes:
    return replies.unordered([replies.simple(flag.encode()) for flag in flags], protocol)


# Of a command


def specifications(command: Command, protocol: int) -> bytes:
    """The key specifications of a command: where keys begin, how many there are, and their flags."""
    flags = KEY_FLAGS.get(command.name, [])
    return replies.unordered([specification(command, at, flags[at], protocol) for at in range(len(flags))], protocol)


def specification(command: Command, at: int, flags: list[str], protocol: int) -> bytes:
    items = [replies.bulk(b"flags"), words(flags, protocol)]
    items += [replies.bulk(b"begin_search"), beginning(command, at, protocol)]
    items += [replies.bulk(b"find_keys"), extent(command, protocol)]
    return replies.mapping(items, protocol)


def beginning(command: Command, at: int, protocol: int) -> bytes:
    if command.name in KEYWORD_FROM:
        keyword = [replies.bulk(b"keyword"), replies.bulk(KEYWORD)]
        return search("keyword", keyword + number(b"startfrom", KEYWORD_FROM[command.name]), protocol)
    return search("index", number(b"index", command.first_key + at), protocol)


def extent(command: Command, protocol: int) -> bytes:
    """`find_keys`: one key, or all remaining arguments, or the first half of them (`limit` 2)."""
    last, limit = (-1, 2) if command.name in KEYWORD_FROM else (min(0, command.last_key), 0)
    return search("range", number(b"lastkey", last) + number(b"keystep", 1) + number(b"limit", limit), protocol)


def search(kind: str, spec: list[bytes], protocol: int) -> bytes:
    items = [replies.bulk(b"type"), replies.bulk(kind.encode()), replies.bulk(b"spec")]
    return replies.mapping([*items, replies.mapping(spec, protocol)], protocol)


def number(name: bytes, value: int) -> list[bytes]:
    return [replies.bulk(name), replies.integer(value)]
