"""Properties of consumer groups as arguments: `ACKNOWLEDGE EXACT`. Each property takes its own.

They are replicated, and what they select is in core/groups/properties.py. A region of the release before cannot read
them, so a command that sets one is refused, and names that region, until it is upgraded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from crdtstream.connections.context import CommandError, Context, shown
from crdtstream.core.applying import PROPERTIES_FORMAT
from crdtstream.core.groups.properties import ACKNOWLEDGE, CONTIGUOUS, EXACT

PropertyValues = dict[bytes, bytes]
# What parses the arguments of a property from this index on: the values that it sets, and how many arguments it took.
PropertyParser = Callable[[Context, list[bytes], int], tuple[PropertyValues, int]]

NO_PROPERTY: Final = "ERR name at least one property: "


def parse_acknowledge(context: Context, argv: list[bytes], at: int) -> tuple[PropertyValues, int]:
    return {ACKNOWLEDGE: word_at(argv, at, "ACKNOWLEDGE", (CONTIGUOUS, EXACT))}, 1


PARSERS: Final[dict[bytes, PropertyParser]] = {b"ACKNOWLEDGE": parse_acknowledge}


def word_at(argv: list[bytes], at: int, name: str, words: tuple[bytes, ...]) -> bytes:
    word = argv[at].lower() if at < len(argv) else b""
    if word not in words:
        known = " or ".join([each.decode().upper() for each in words])
        raise CommandError(f"ERR property {name} takes {known}")
    return word


def parse_properties(context: Context, argv: list[bytes], at: int) -> PropertyValues:
    """All properties from this argument on; raises CommandError."""
    values: PropertyValues = {}
    names = ", ".join([name.decode() for name in PARSERS])
    if at >= len(argv):
        raise CommandError(NO_PROPERTY + names)
    while at < len(argv):
        parser = PARSERS.get(argv[at].upper())
        if parser is None:
            raise CommandError(f"ERR unknown property '{shown(argv[at])}' of a group: use {names}")
        found, taken = parser(context, argv, at + 1)
        if any(name in values for name in found):
            raise CommandError(f"ERR {shown(argv[at].upper())} is given twice")
        values.update(found)
        at += 1 + taken
    return values


def require_properties_readable(context: Context) -> None:
    """Raise if a region of the cluster could not read properties of groups."""
    neighbours = context.cluster.neighbours
    old = neighbours.cannot_read(PROPERTIES_FORMAT)
    if old:
        regions = " and ".join([f"{neighbours.name_of(region)} ({region})".lstrip() for region in old])
        raise CommandError(
            f"ERR region {regions} cannot read properties of groups, because its release is older: upgrade it, or"
            " evict it"
        )
