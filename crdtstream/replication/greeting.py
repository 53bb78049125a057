"""The greeting of two regions: what a Hello says, and why two nodes refuse each other.

The answers name regions, never "here" and "there": so one sentence reads alike in both logs and says what an operator
can do. A peer's Hello is as old as its way was long, so nothing is refused for what the peer lacks in it; whether a
data directory is too old is asked by its own node, whose own Hello is made at that moment.

Vectors are inclusive. Whatever a peer sent is checked here before it becomes a core value; `WireError` says what was
wrong.
"""

from __future__ import annotations

from collections.abc import Iterable

from crdtstream.config import NAME_CHARACTERS_MAX, Config
from crdtstream.core.causality import REGION_MAX, SLOTS, Origin, VersionVector, incarnation_of, region_of
from crdtstream.protocols.codec import FORMAT_VERSION
from crdtstream.replication import wire_pb2 as wire

PROTOCOL_VERSION = 1
SHARD = 0


class WireError(ValueError):
    """A message that no sound peer sends."""


def make_hello(
    config: Config, origin: Origin | None, origins: list[Origin], vector: VersionVector, direct_slots: list[int]
) -> wire.Hello:
    hello = wire.Hello(
        protocol_version=PROTOCOL_VERSION,
        format_version=FORMAT_VERSION,
        cluster=config.cluster,
        name=config.name,
        region=config.region,
        shard=SHARD,
        id_mode=config.id_mode,
        origin=None if origin is None else origin_row(origin),
        direct_slots=direct_slots,
    )
    hello.origins.extend(origin_rows(origins, vector))
    return hello


def origin_row(origin: Origin) -> wire.Origin:
    return wire.Origin(region=origin.region, incarnation=origin.incarnation, nonce=origin.nonce)


def origin_rows(origins: list[Origin], vector: VersionVector) -> list[wire.OriginRow]:
    return [wire.OriginRow(slot=known.slot, nonce=known.nonce, counter=vector.get(known.slot)) for known in origins]


def vector_rows(vector: VersionVector) -> list[wire.VectorRow]:
    return [wire.VectorRow(slot=slot, counter=counter) for slot, counter in vector.items()]


def to_origin(row: wire.Origin) -> Origin:
    try:
        return Origin(row.region, row.incarnation, row.nonce)
    except ValueError as error:
        raise WireError(str(error)) from None


def to_vector(rows: Iterable[wire.VectorRow | wire.OriginRow]) -> VersionVector:
    vector = VersionVector()
    for row in rows:
        _check_slot(row.slot)
        vector.advance(row.slot, row.counter)
    return vector


def to_origins(rows: Iterable[wire.OriginRow]) -> list[Origin]:
    return [origin_of(row.slot, row.nonce) for row in rows]


def origin_of(slot: int, nonce: int) -> Origin:
    _check_slot(slot)
    return Origin(region_of(slot), incarnation_of(slot), nonce)


def to_slots(slots: Iterable[int]) -> list[int]:
    """At most one for each region, so that a peer that is not sound fills no memory with them."""
    result = sorted(set(slots))
    for slot in result:
        _check_slot(slot)
    if len(result) > REGION_MAX:
        raise WireError(f"{len(result)} slots of {REGION_MAX} regions")
    return result


def to_regions(regions: Iterable[int]) -> list[int]:
    result = sorted(set(regions))
    for region in result:
        _check_region(region)
    return result


def _check_slot(slot: int) -> None:
    if not 0 < slot < SLOTS or region_of(slot) == 0:
        raise WireError(f"there is no slot {slot}")


def _check_region(region: int) -> None:
    if not 1 <= region <= REGION_MAX:
        raise WireError(f"there is no region {region}")


def check_hello(hello: wire.Hello) -> None:
    """Raise WireError for a greeting that contradicts itself."""
    for text in (hello.name, hello.cluster, hello.id_mode):
        if len(text) > NAME_CHARACTERS_MAX:
            raise WireError(f"a name of {len(text)} characters, where {NAME_CHARACTERS_MAX} are permitted")
    _check_region(hello.region)
    to_origins(hello.origins)
    to_slots(hello.direct_slots)
    if hello.HasField("origin") and to_origin(hello.origin).region != hello.region:
        raise WireError(f"region {hello.region} greets with an origin of region {hello.origin.region}")


def refusal(own: wire.Hello, peer: wire.Hello) -> str | None:
    """Why these two must not exchange anything, or None; `own` is what this node would say now."""
    return (
        _other_version(own, peer)
        or _other_cluster(own, peer)
        or _same_region(own, peer)
        or _slot_held_twice(own, peer)
        or _old_directory(own, peer)
    )


def describe(hello: wire.Hello) -> str:
    return f"region {hello.name} ({hello.region})"


def _other_version(own: wire.Hello, peer: wire.Hello) -> str | None:
    if own.protocol_version != peer.protocol_version:
        return (
            f"{describe(own)} speaks protocol version {own.protocol_version}, {describe(peer)} version"
            f" {peer.protocol_version}: run versions of crdtstream that share one"
        )
    if own.format_version != peer.format_version:
        return (
            f"{describe(own)} writes batches in format {own.format_version}, {describe(peer)} in format"
            f" {peer.format_version}: run versions of crdtstream that share one"
        )
    return None


def _other_cluster(own: wire.Hello, peer: wire.Hello) -> str | None:
    if own.cluster != peer.cluster:
        return (
            f"{describe(own)} is of cluster {own.cluster!r}, {describe(peer)} of cluster {peer.cluster!r}: give both"
            " the same --cluster, or take the one out of the other's peers"
        )
    if own.shard != peer.shard:
        return f"{describe(own)} serves shard {own.shard}, {describe(peer)} shard {peer.shard}: connect equal shards"
    if own.id_mode != peer.id_mode:
        return (
            f"{describe(own)} has ID mode {own.id_mode}, {describe(peer)} has {peer.id_mode}: give every region of the"
            " cluster the same --id-mode"
        )
    return None


def _same_region(own: wire.Hello, peer: wire.Hello) -> str | None:
    if own.region != peer.region:
        return None
    if own.HasField("origin") and own.origin == peer.origin:
        return (
            f"{describe(own)} met its own origin: take its own address out of its peers, or, if its data directory was"
            " copied, start the copy with an empty --data"
        )
    if own.name == peer.name and not own.HasField("origin") and not peer.HasField("origin"):
        return f"{describe(own)} met its own name and number: take its own address out of its peers"
    return f"two nodes claim region number {own.region}, {own.name} and {peer.name}: give one of them another --region"


def _slot_held_twice(own: wire.Hello, peer: wire.Hello) -> str | None:
    nonces = {row.slot: row.nonce for row in own.origins}
    for row in peer.origins:
        if nonces.get(row.slot, row.nonce) != row.nonce:
            return (
                f"slot {row.slot} (region {region_of(row.slot)}, incarnation {incarnation_of(row.slot)}) is one origin"
                f" to {describe(own)} and another to {describe(peer)}: two data directories were used under one region"
                " number; start one of them with an empty --data and a --region of its own"
            )
    return None


def _old_directory(own: wire.Hello, peer: wire.Hello) -> str | None:
    """Why this node must not go on under its origin: a peer holds more of it, so it would use counters twice."""
    if not own.HasField("origin"):
        return None
    slot = own.origin.region + 256 * own.origin.incarnation
    counter = to_vector(own.origins).get(slot)
    for row in peer.origins:
        newer = region_of(row.slot) == own.region and row.slot > slot
        if newer or (row.slot == slot and row.counter > counter):
            held = f"incarnation {incarnation_of(row.slot)}" if newer else f"its effects up to {row.counter}"
            return (
                f"{describe(own)} has incarnation {own.origin.incarnation} and effects up to {counter} of it, but"
                f" {describe(peer)} holds {held}: that data directory is older than what was replicated from it;"
                " start it with the newer one, or with an empty --data"
            )
    return None
