"""Properties of consumer groups as arguments: `ACKNOWLEDGE EXACT`. Each property takes its own. Those of streams are
in stream_properties.py.

They are replicated, and what they select is in core/groups/properties.py. A region of the release before cannot read
them, so a command that sets one is refused, and names that region, until it is upgraded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from crdtstream.commands.fitting import require_name
from crdtstream.commands.members import known_origins, region_named
from crdtstream.connections.context import CommandError, Context, shown
from crdtstream.core.formats import PROPERTIES_FORMAT
from crdtstream.core.groups.properties import (
    ACKNOWLEDGE,
    ALL,
    ANY,
    ANY_REGION,
    CONTIGUOUS,
    DEADLETTER,
    DELIVER,
    EVERYWHERE,
    EXACT,
    MAXDELIVERIES,
    NO_LIMIT,
    ORDER,
    ORIGIN,
    OWNER,
    TAKEOVER,
    GroupRules,
    record_name,
)
from crdtstream.core.values.causality import region_of

PropertyValues = dict[bytes, bytes]
# What parses the arguments of a property from this index on: the values that it sets, and how many arguments it took.
PropertyParser = Callable[[Context, list[bytes], int], tuple[PropertyValues, int]]

TAKEOVER_MS_MIN: Final = 1_000
TAKEOVER_MS_MAX: Final = 86_400_000
DELIVERIES_MAX: Final = 1_000_000
NO_PROPERTY: Final = "ERR name at least one property: "


def parse_acknowledge(context: Context, argv: list[bytes], at: int) -> tuple[PropertyValues, int]:
    return {ACKNOWLEDGE: word_at(argv, at, "ACKNOWLEDGE", (CONTIGUOUS, EXACT))}, 1


def parse_deliver(context: Context, argv: list[bytes], at: int) -> tuple[PropertyValues, int]:
    mode = word_at(argv, at, "DELIVER", (EVERYWHERE, ORIGIN, OWNER))
    if mode != OWNER:
        return {DELIVER: mode}, 1
    if at + 1 >= len(argv):
        raise CommandError("ERR property DELIVER OWNER takes a region: its name or its number")
    return {DELIVER: mode, record_name(ANY_REGION): b"%d" % known_region(context, argv[at + 1])}, 2


def parse_takeover(context: Context, argv: list[bytes], at: int) -> tuple[PropertyValues, int]:
    text = argv[at] if at < len(argv) else b""
    if not text.isdigit() or not TAKEOVER_MS_MIN <= int(text) <= TAKEOVER_MS_MAX:
        raise CommandError(f"ERR property TAKEOVER takes milliseconds, from {TAKEOVER_MS_MIN} to {TAKEOVER_MS_MAX}")
    return {TAKEOVER: b"%d" % int(text)}, 1


def parse_order(context: Context, argv: list[bytes], at: int) -> tuple[PropertyValues, int]:
    return {ORDER: word_at(argv, at, "ORDER", (ANY, ALL))}, 1


def parse_max_deliveries(context: Context, argv: list[bytes], at: int) -> tuple[PropertyValues, int]:
    text = argv[at] if at < len(argv) else b""
    if not text.isdigit() or int(text) > DELIVERIES_MAX:
        raise CommandError(f"ERR property MAXDELIVERIES takes a number from 1 to {DELIVERIES_MAX}, or 0 for no limit")
    return {MAXDELIVERIES: b"%d" % int(text)}, 1


def parse_dead_letter(context: Context, argv: list[bytes], at: int) -> tuple[PropertyValues, int]:
    if at >= len(argv):
        raise CommandError('ERR property DEADLETTER takes the key of a stream, or "" for none')
    require_name(context, "key", argv[at])
    return {DEADLETTER: argv[at]}, 1


PARSERS: Final[dict[bytes, PropertyParser]] = {
    b"ACKNOWLEDGE": parse_acknowledge,
    b"DELIVER": parse_deliver,
    b"TAKEOVER": parse_takeover,
    b"ORDER": parse_order,
    b"MAXDELIVERIES": parse_max_deliveries,
    b"DEADLETTER": parse_dead_letter,
}


def known_region(context: Context, word: bytes) -> int:
    """The number of a region of the cluster, by its name or number."""
    peers = context.cluster.neighbours.peers()
    members = context.replica.applied.members
    known = {region_of(origin) for origin in known_origins(context, peers) if not members.is_evicted(origin)}
    known.add(context.settings.config.region)
    region = region_named(context, peers, word)
    if region not in known:
        raise CommandError(
            f"ERR unknown region {shown(word)}: give a region's name or number as listed by CRDT.REGIONS"
        )
    return region


def word_at(argv: list[bytes], at: int, name: str, words: tuple[bytes, ...]) -> bytes:
    word = argv[at].lower() if at < len(argv) else b""
    if word not in words:
        known = " or ".join([each.decode().upper() for each in words])
        raise CommandError(f"ERR property {name} takes {known}")
    return word


def parse_properties(context: Context, argv: list[bytes], at: int) -> PropertyValues:
    """All properties of a group from this argument on; raises CommandError."""
    values = parse_named(context, argv, at, PARSERS, "group")
    if values.get(DELIVER, EVERYWHERE) != EVERYWHERE:
        # A consumer that moves acknowledges in another region what it got in the first one.
        values.setdefault(ACKNOWLEDGE, EXACT)
    return values


def require_dead_letters(values: PropertyValues, key: bytes, rules: GroupRules) -> None:
    """Raise if these properties of a group of this key, which has those rules, would lose entries, or send them round
    in a circle.
    """
    letters = values.get(DEADLETTER, rules.dead_letters)
    if DEADLETTER in values and letters == key:
        raise CommandError("ERR the dead-letter key is the stream itself: give DEADLETTER another key")
    limit = int(values.get(MAXDELIVERIES, b"%d" % rules.deliveries_max))
    if limit != NO_LIMIT and not letters:
        raise CommandError(
            "ERR MAXDELIVERIES needs a dead-letter key, because nothing is dropped: set DEADLETTER too, or"
            " MAXDELIVERIES 0"
        )


def parse_named(
    context: Context, argv: list[bytes], at: int, parsers: dict[bytes, PropertyParser], owner: str
) -> PropertyValues:
    """All properties that these parsers know, from this argument on."""
    values: PropertyValues = {}
    names = ", ".join([name.decode() for name in parsers])
    if at >= len(argv):
        raise CommandError(NO_PROPERTY + names)
    while at < len(argv):
        parser = parsers.get(argv[at].upper())
        if parser is None:
            raise CommandError(f"ERR unknown property '{shown(argv[at])}' of a {owner}: use {names}")
        found, taken = parser(context, argv, at + 1)
        if any(name in values for name in found):
            raise CommandError(f"ERR {shown(argv[at].upper())} is given twice")
        values.update(found)
        at += 1 + taken
    return values


def require_properties_readable(context: Context, owners: str = "groups") -> None:
    """Raise if a region of the cluster could not read properties of groups, or of streams."""
    neighbours = context.cluster.neighbours
    old = neighbours.cannot_read(PROPERTIES_FORMAT)
    if old:
        regions = " and ".join([f"{neighbours.name_of(region)} ({region})".lstrip() for region in old])
        raise CommandError(
            f"ERR region {regions} cannot read properties of {owners}, because its release is older: upgrade it, or"
            " evict it"
        )
