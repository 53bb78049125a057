"""CRDT.STREAM SET GET: properties of a stream, which are replicated (core/streams/properties.py).

MAXAGE, MAXBYTES and MAXLEN take a number, and 0 or NONE for no limit; ACKED takes YES, which may be left out, or NO.
"""

from __future__ import annotations

from typing import Final

from crdtstream.commands.properties import (
    PropertyParser,
    PropertyValues,
    parse_named,
    require_properties_readable,
)
from crdtstream.commands.stream_info import found_stream
from crdtstream.connections.client import Client
from crdtstream.connections.command import Command, keys_at
from crdtstream.connections.context import CommandError, Context, Reply
from crdtstream.core.streams.properties import (
    ACKED_ONLY,
    MAX_AGE,
    MAX_BYTES,
    MAX_LENGTH,
    NO,
    OFF,
    YES,
    RetentionLimits,
)
from crdtstream.protocols import replies

# A tick comes ten times a second.
MAX_AGE_MS_MIN: Final = 1_000
# A hundred years.
MAX_AGE_MS_MAX: Final = 3_153_600_000_000
NUMBER_MAX: Final = 1 << 62
NONE: Final = b"NONE"
NO_STREAM: Final = (
    "ERR CRDT.STREAM SET requires the key to exist, because properties keep no key alive: add an entry first, or create"
    " a group with XGROUP CREATE and MKSTREAM"
)


def parse_max_age(_context: Context, argv: list[bytes], at: int) -> tuple[PropertyValues, int]:
    return {MAX_AGE: limit_at(argv, at, "MAXAGE takes milliseconds", MAX_AGE_MS_MIN, MAX_AGE_MS_MAX)}, 1


def parse_max_bytes(_context: Context, argv: list[bytes], at: int) -> tuple[PropertyValues, int]:
    return {MAX_BYTES: limit_at(argv, at, "MAXBYTES takes bytes", 1, NUMBER_MAX)}, 1


def parse_max_length(_context: Context, argv: list[bytes], at: int) -> tuple[PropertyValues, int]:
    return {MAX_LENGTH: limit_at(argv, at, "MAXLEN takes entries", 1, NUMBER_MAX)}, 1


def parse_acked(_context: Context, argv: list[bytes], at: int) -> tuple[PropertyValues, int]:
    word = argv[at].lower() if at < len(argv) else b""
    return {ACKED_ONLY: NO if word == NO else YES}, 1 if word in (YES, NO) else 0


PARSERS: Final[dict[bytes, PropertyParser]] = {
    b"MAXAGE": parse_max_age,
    b"MAXBYTES": parse_max_bytes,
    b"MAXLEN": parse_max_length,
    b"ACKED": parse_acked,
}


def limit_at(argv: list[bytes], at: int, takes: str, lowest: int, highest: int) -> bytes:
    """A number within these bounds, as text; `OFF` for no limit."""
    text = argv[at] if at < len(argv) else b""
    if text.upper() in (OFF, NONE):
        return OFF
    if not text.isdigit() or len(text) > len(str(highest)) or not lowest <= int(text) <= highest:
        raise CommandError(f"ERR property {takes}, from {lowest} to {highest}, or 0 or NONE for no limit")
    return b"%d" % int(text)


def set_stream_properties(context: Context, client: Client, argv: list[bytes]) -> Reply:
    key = (client.database, argv[2])
    if context.replica.keyspace.find(key) is None:
        raise CommandError(NO_STREAM)
    values = parse_named(context, argv, 3, PARSERS, "stream")
    require_properties_readable(context, "streams")
    context.replica.set_stream_properties(key, values)
    return replies.OK


def get_stream_properties(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """All properties of a stream, also those that nobody set."""
    properties = found_stream(context, client, argv[2]).properties
    limits = RetentionLimits({}) if properties is None else properties.limits
    found = [
        (MAX_AGE, replies.integer(limits.max_age_ms)),
        (MAX_BYTES, replies.integer(limits.max_bytes)),
        (MAX_LENGTH, replies.integer(limits.entries_max)),
        (ACKED_ONLY, replies.bulk(YES if limits.acked else NO)),
    ]
    return replies.mapping([item for name, value in found for item in (replies.bulk(name), value)], client.protocol)


SUBCOMMANDS: list[Command] = [
    Command(
        "crdt.stream|set",
        set_stream_properties,
        arity=-4,
        flags="write",
        keys=keys_at(2, "RW update"),
        since="0.2.0",
        summary="Sets properties of a stream, in all regions: how long its entries are kept.",
        syntax="key property:(name [value])...",
        help=(
            "SET <key> <property> [<value>] [...]",
            "    Set MAXAGE (ms), MAXBYTES, MAXLEN or ACKED (YES or NO) in all regions; 0 or NONE for no limit.",
        ),
    ),
    Command(
        "crdt.stream|get",
        get_stream_properties,
        arity=3,
        flags="readonly",
        counts_itself=True,
        keys=keys_at(2, "RO access"),
        since="0.2.0",
        summary="Returns the properties of a stream.",
        syntax="key",
        help=("GET <key>", "    Return the properties of the stream."),
    ),
]
