"""Everything that a node knows, as plain values: two nodes with equal portraits behave alike.

Classes are walked by their fields, so a field that is added later is compared too, compiled or not. Trees are shown as
their entries and pending entries as rows, because their layout in blocks and spans may differ. Times of consumers and
the last use of a stream are kept in memory only. Redundant structures that `check()` verifies are left out: chains and
other indexes of the same trees and metadata, what a group remembers to avoid work, and what each read works out again:
which entries another region delivers.
"""

from __future__ import annotations

from array import array
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any

from crdtstream.core.entries.block import Block
from crdtstream.core.entries.entry_tree import EntryTree
from crdtstream.core.groups.consumer import Consumer
from crdtstream.core.groups.group import Group
from crdtstream.core.groups.pending import PendingEntries
from crdtstream.core.groups.spans import Span
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.by_origin import ByOrigin
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN
from crdtstream.core.values.intervals import IntervalSet
from crdtstream.region.node import Node


def portrait(node: Node) -> dict[str, Any]:
    assert node.replica.is_settled()
    return {
        "vector": node.replica.applied.vector.as_dict(),
        "origin": node.replica.applied.origin,
        "contexts": {origin: context.as_dict() for origin, context in node.replica.applied.contexts.items()},
        "founders": dict(node.birth.founders),
        "members": node.replica.applied.members.lasting_rows(),
        "databases": [
            {name: plain(stream) for name, stream in database.items()} for database in node.replica.keyspace.databases
        ],
        "deadlines": dict(node.replica.keyspace.deadlines.times),
        "position": node.turn.last_position,
    }


def lasting(node: Node) -> dict[str, Any]:
    """As `portrait`, without anything that was or may be collected, because a replay restores it for a while. The same
    holds for the contexts of ended origins, and for ended founders.
    """
    held = portrait(node)
    ended = node.replica.applied.members.is_evicted
    for part in ("contexts", "founders"):
        held[part] = {origin: known for origin, known in held[part].items() if not ended(origin)}
    for index, database in enumerate(held["databases"]):
        names = node.replica.keyspace.known_keys(index)
        held["databases"][index] = {name: uncollected(database[name]) for name in names}
    return held


def uncollected(stream: dict[str, Any]) -> dict[str, Any]:
    """Return a stream's portrait without what may be forgotten (core/collection.py, core/names/register.py), and
    without empty trees.
    """
    kept = {part: value for part, value in stream.items() if part not in ("deleted", "destroyed", "producers")}
    lost = {"trimmed_to": 0, "dropped_counter": 0}
    gone = {**lost, "first": 0, "added": 0, "voided": 0}
    metas = {
        origin: {**meta, **gone} if meta["added"] == meta["voided"] else {**meta, **lost}
        for origin, meta in stream["metas"].items()
    }
    registers = ("add_counter", "set_counter", "removed_counter", "offset_counter", "expiry_counter")
    kept["trees"] = {origin: entries for origin, entries in stream["trees"].items() if entries}
    kept["metas"] = {origin: meta for origin, meta in metas.items() if any(meta[name] for name in registers)}
    return kept


def plain(value: Any) -> Any:
    if isinstance(value, EntryTree):
        return entries_of(value)
    if isinstance(value, PendingEntries):
        rows = value.rows(ID_MIN, ID_MAX, -1, None)
        return [(row.entry_id, row.origin, row.consumer, row.delivered_ms, row.deliveries) for row in rows]
    if isinstance(value, IntervalSet):
        return value.pairs()
    if isinstance(value, Consumer):
        return "a consumer"
    if isinstance(value, dict | ByOrigin):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    names = fields_of(type(value))
    if not names or isinstance(value, array | Block):
        return value
    return {name: plain(getattr(value, name)) for name in names if name not in LEFT_OUT.get(type(value), ())}


def fields_of(kind: type[object]) -> list[str]:
    """Return the instance attributes of a class of this project; other objects are compared as they are."""
    name = f"{kind.__module__}.{kind.__qualname__}"
    if name not in _FIELDS:
        members = [member for parent in kind.__mro__ for member in vars(parent).items()]
        found = {key for key, member in members if isinstance(member, FIELD) and not key.startswith("__")}
        _FIELDS[name] = sorted(found) if name.startswith("crdtstream.") else []
    return _FIELDS[name]


LEFT_OUT: dict[type[object], tuple[str, ...]] = {
    Stream: ("used_ms", "chains", "writers", "_counters", "_expiring"),
    Group: ("_acknowledged", "_last_unsettled", "_read_cursor", "_unsettled", "deliveries", "withheld"),
    Span: ("newest_ms", "oldest_ms"),
}
FIELD = (GetSetDescriptorType, MemberDescriptorType)
_FIELDS: dict[str, list[str]] = {}


def entries_of(tree: EntryTree) -> list[tuple[Any, int, bytes]]:
    slices = tree.slices(ID_MIN, ID_MAX, -1, False)
    return [(s.block.id_at(i), s.block.counter_at(i), s.block.entry(i)) for s in slices for i in range(s.low, s.high)]
