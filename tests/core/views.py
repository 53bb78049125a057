"""Replicated state as plain values: what two replicas that hold the same effects must agree about."""

from __future__ import annotations

from crdtstream.core.digest import digest_replica, numbers_of_position
from crdtstream.core.effects import Key
from crdtstream.core.groups.create import Create
from crdtstream.core.groups.group import Group
from crdtstream.core.replica import Replica
from crdtstream.core.streams.origin_meta import OriginMeta
from crdtstream.core.streams.properties import property_rows
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN
from crdtstream.core.values.intervals import IntervalSet
from simulations.portrait import fields_of
from tests.core.histories import ids_of, streams_of

View = dict[object, object]


def visible(replica: Replica) -> View:
    """What does not change when something is forgotten."""
    streams = sorted(streams_of(replica).items())
    return {
        "vector": replica.applied.vector.as_dict(),
        "digest": digest_replica(replica),
        "deadlines": sorted(replica.keyspace.deadlines.times.items()),
        "retained": sorted(replica.keyspace.retained.keys),
        "streams": {key: visible_stream(stream) for key, stream in streams if stream.exists()},
    }


def visible_stream(stream: Stream) -> tuple[object, ...]:
    entries = [(row, stream.trees[row[1]].find(row[0])) for row in ids_of(stream)]
    numbers = (stream.length, stream.top, stream.entries_added(), stream.max_deleted(), stream.expiries())
    return (entries, groups_view(stream), numbers, property_rows(stream.properties))


def replicated(replica: Replica) -> View:
    """All of it, what is only remembered too."""
    remembered = {key: remembered_of(stream) for key, stream in sorted(streams_of(replica).items())}
    return {**visible(replica), "remembered": {key: found for key, found in remembered.items() if any(found)}}


def remembered_of(stream: Stream) -> tuple[object, ...]:
    empty = meta_view(OriginMeta())
    metas = {origin: meta_view(meta) for origin, meta in sorted(stream.metas.items()) if meta_view(meta) != empty}
    destroyed = {name: sorted(tombstones.items()) for name, tombstones in sorted(stream.destroyed.items())}
    return (metas, sorted(stream.deleted.items()), destroyed, property_rows(stream.properties))


def meta_view(meta: OriginMeta) -> View:
    return {name: getattr(meta, name) for name in fields_of(OriginMeta)}


def groups_view(stream: Stream) -> View:
    return {
        name: {dot: create_view(create) for dot, create in sorted(group.creates.items())}
        for name, group in sorted(stream.groups.items())
    }


def create_view(create: Create) -> tuple[object, ...]:
    return (numbers_of_position(create.start), sets_view(create.runs))


def sets_view(sets: dict[int, IntervalSet]) -> View:
    return {origin: intervals.pairs() for origin, intervals in sorted(sets.items()) if intervals}


def locals_of(replica: Replica) -> dict[tuple[Key, bytes], Group]:
    return {(key, name): group for key, stream in streams_of(replica).items() for name, group in stream.groups.items()}


def local(replica: Replica) -> View:
    """What this region alone knows of its groups, but for pending entries."""
    return {named: local_of(group) for named, group in sorted(locals_of(replica).items())}


def local_of(group: Group) -> tuple[object, ...]:
    passed, delivered = group.passed.as_dict(), group.delivered.as_dict()
    sets = [sets_view(known) for known in (passed, delivered, group.skipped, group.replay)]
    return (numbers_of_position(group.floor), sets, sorted(group.consumers))


def pending_of(group: Group) -> set[tuple[object, ...]]:
    rows = group.pending.rows(ID_MIN, ID_MAX, -1, None)
    return {(row.origin, row.entry_id, row.consumer, row.delivered_ms, row.deliveries) for row in rows}
