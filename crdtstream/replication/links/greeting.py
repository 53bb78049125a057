"""The greeting of two regions: the content of a Hello, and the reasons why two nodes refuse each other.

Refusals name both regions, never "here" and "there", so that one sentence reads the same in both logs and tells an
operator what to do. Older data, or two processes with one region number, are no reason to refuse: every process is an
origin of its own, so their effects never collide (membership.py decides which of them belongs to the cluster).

Each region speaks a range of versions, and two of them use the highest that both speak. A region that speaks one
version alone does not name the end of its range, as releases before protocol 3 did not.

Vectors are inclusive. Everything a peer sends is validated here before it becomes a core value; `WireError` says what
was wrong.
"""

from __future__ import annotations

from collections.abc import Iterable

from crdtstream.core.values.causality import REGION_MAX, VersionVector, no_origins, region_of
from crdtstream.core.values.room import LIMIT_MIN
from crdtstream.protocols.codec import FORMAT_VERSION, OLDEST_SENT
from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication.origins.birth import Birth
from crdtstream.replication.values.bounds import MESSAGE_PARTS, own_bounds
from crdtstream.replication.values.progress import GrownRow
from crdtstream.settings.config import LIMITS_MIN, NAME_CHARACTERS_MAX, Config

PROTOCOL_VERSION = 5
# The release before spoke this one, and a cluster is upgraded one region at a time.
OLDEST_PROTOCOL = 2
# From this version on an envelope may hold frames.
FRAMES_SINCE = 4
# From this version on parts name their batch.
PARTS_SINCE = 5
SHARD = 0
ORIGINS_MAX = 1 << 16
COUNT_MAX = (1 << 32) - 1
# The least that holds what the smallest message aims at; regions of the configuration's minimum take more.
MESSAGE_BYTES_MAX_MIN = MESSAGE_PARTS * LIMITS_MIN["message_bytes"]


class WireError(ValueError):
    """A message that no correct peer sends."""


class Versions:
    """The protocol and formats of batches that a region speaks, each from the lower number to the higher, inclusive."""

    __slots__ = ("format", "protocol")

    def __init__(
        self,
        protocol: tuple[int, int] = (OLDEST_PROTOCOL, PROTOCOL_VERSION),
        format: tuple[int, int] = (OLDEST_SENT, FORMAT_VERSION),
    ) -> None:
        self.protocol = protocol
        self.format = format


OWN_VERSIONS = Versions()


def make_hello(
    config: Config, birth: Birth, vector: VersionVector, direct_origins: list[int], versions: Versions = OWN_VERSIONS
) -> wire.Hello:
    return wire.Hello(
        protocol_version=versions.protocol[0],
        format_version=versions.format[0],
        protocol_version_max=versions.protocol[1],
        format_version_max=versions.format[1],
        cluster=config.cluster,
        name=config.name,
        region=config.region,
        shard=SHARD,
        id_mode=config.id_mode,
        origin=birth.origin,
        vector=vector_rows(vector),
        direct_slots=direct_origins,
        births=birth_rows(birth),
        predecessors=birth.predecessors(),
        replaces=config.replace,
        bounds=own_bounds(config.limits),
    )


def birth_rows(birth: Birth) -> list[wire.BirthRow]:
    founders = birth.founders_left()
    origins = sorted({*birth.counts, *founders})
    counts, bound = birth.counts, birth.bounds.of
    return [
        wire.BirthRow(
            slot=origin,
            count=counts.get(origin, 0) & COUNT_MAX,
            founder=origin in founders,
            batch_bytes_max=bound(origin),
            name=birth.name_of(region_of(origin)),
        )
        for origin in origins
    ]


def named_births(hello: wire.Hello) -> list[wire.BirthRow]:
    """What a Hello tells of origins. A region of the release before names itself alone."""
    rows = list(hello.births)
    for row in rows:
        if row.slot == hello.origin:
            row.name = hello.name
    return rows


def vector_rows(vector: VersionVector) -> list[wire.VectorRow]:
    return [wire.VectorRow(slot=origin, counter=counter) for origin, counter in vector.items()]


def to_vector(rows: Iterable[wire.VectorRow]) -> VersionVector:
    counters = {row.slot: row.counter for row in rows}
    check_origins(counters)
    return VersionVector(counters)


def to_grown(row: wire.ProgressRow) -> GrownRow:
    durable = {each.slot: each.counter for each in row.durable}
    applied = {each.slot: each.counter for each in row.applied}
    check_origins([row.slot, *durable, *applied])
    return (
        row.slot,
        VersionVector(durable) if durable else None,
        VersionVector(applied) if applied else None,
        row.life,
    )


def to_origins(origins: Iterable[int]) -> list[int]:
    """Return the origins in ascending order; their number is limited, so that a faulty peer cannot fill the memory."""
    result = sorted(set(origins))
    if len(result) > ORIGINS_MAX:
        raise WireError(f"{len(result)} origins in one list, more than {ORIGINS_MAX}")
    check_origins(result)
    return result


def to_regions(regions: Iterable[int]) -> list[int]:
    result = sorted(set(regions))
    for region in result:
        _check_region(region)
    return result


def to_origin(origin: int) -> int:
    check_origins([origin])
    return origin


def check_origins(origins: Iterable[int]) -> None:
    strangers = no_origins(origins)
    if strangers:
        raise WireError(f"{strangers[0]} is not a valid origin")


def _check_region(region: int) -> None:
    if not 1 <= region <= REGION_MAX:
        raise WireError(f"{region} is not a valid region number")


def check_names(names: Iterable[str]) -> None:
    for name in names:
        if len(name) > NAME_CHARACTERS_MAX:
            raise WireError(f"a name has {len(name)} characters, more than {NAME_CHARACTERS_MAX}")


def check_bound(name: str, value: int, least: int) -> None:
    """A limit that a peer tells; 0 if it does not tell it. Below the minimum nothing could be sent, or written."""
    if 0 < value < least:
        raise WireError(f"{name} = {value} is told, less than the minimum {least}")


def check_bounds(bounds: wire.Bounds) -> None:
    """A small window needs no minimum: it only holds up what its own region receives, and each batch may exceed it."""
    check_bound("message_bytes_max", bounds.message_bytes_max, MESSAGE_BYTES_MAX_MIN)
    check_bound("batch_bytes_max", bounds.batch_bytes_max, LIMIT_MIN)


def check_birth(row: wire.BirthRow) -> None:
    """What a Hello or a Met tells of an origin, besides its origin."""
    check_names([row.name])
    check_bound("batch_bytes_max", row.batch_bytes_max, LIMIT_MIN)


def check_hello(hello: wire.Hello) -> None:
    """Raise WireError for a Hello that is malformed or contradicts itself."""
    check_names([hello.name, hello.cluster, hello.id_mode])
    _check_region(hello.region)
    to_origins(hello.direct_slots)
    to_origins(row.slot for row in hello.births)
    check_bounds(hello.bounds)
    for row in hello.births:
        check_birth(row)
    for origin in [hello.origin, *to_origins(hello.predecessors)]:
        if region_of(to_origin(origin)) != hello.region:
            raise WireError(f"region {hello.region} greets with an origin of region {region_of(origin)}")


def refusal(own: wire.Hello, peer: wire.Hello) -> str | None:
    """Return why these two regions must not exchange anything, or None; `own` is the Hello that this node would send
    now.
    """
    return _other_version(own, peer) or _other_cluster(own, peer) or _itself(own, peer)


def describe(hello: wire.Hello) -> str:
    return f"region {hello.name} ({hello.region})"


def protocols_of(hello: wire.Hello) -> tuple[int, int]:
    """The protocol versions that its sender speaks."""
    return (hello.protocol_version, max(hello.protocol_version, hello.protocol_version_max))


def formats_of(hello: wire.Hello) -> tuple[int, int]:
    """The formats of batches that its sender speaks."""
    return (hello.format_version, max(hello.format_version, hello.format_version_max))


def agreed(own: tuple[int, int], peer: tuple[int, int]) -> int:
    """The highest version that both speak; 0 if there is none."""
    highest = min(own[1], peer[1])
    return highest if highest >= max(own[0], peer[0]) else 0


def _other_version(own: wire.Hello, peer: wire.Hello) -> str | None:
    if not agreed(protocols_of(own), protocols_of(peer)):
        return (
            f"{describe(own)} speaks protocol version {shown(protocols_of(own))}, {describe(peer)} speaks version"
            f" {shown(protocols_of(peer))}: run crdtstream versions that are at most one release apart"
        )
    if not agreed(formats_of(own), formats_of(peer)):
        return (
            f"{describe(own)} writes batches in format {shown(formats_of(own))}, {describe(peer)} in format"
            f" {shown(formats_of(peer))}: run crdtstream versions that are at most one release apart"
        )
    return None


def shown(versions: tuple[int, int]) -> str:
    low, high = versions
    return str(low) if low == high else f"{low} to {high}"


def _other_cluster(own: wire.Hello, peer: wire.Hello) -> str | None:
    if own.cluster != peer.cluster:
        return (
            f"{describe(own)} belongs to cluster {own.cluster!r}, {describe(peer)} to cluster {peer.cluster!r}: give"
            " both the same --cluster, or remove one from the other's peers"
        )
    if own.shard != peer.shard:
        return f"{describe(own)} serves shard {own.shard}, {describe(peer)} shard {peer.shard}: connect equal shards"
    if own.id_mode != peer.id_mode:
        return (
            f"{describe(own)} has ID mode {own.id_mode}, {describe(peer)} has {peer.id_mode}: give every region of the"
            " cluster the same --id-mode"
        )
    return None


def _itself(own: wire.Hello, peer: wire.Hello) -> str | None:
    if own.origin != peer.origin:
        return None
    return f"{describe(own)} is connected to itself: remove its own address from its peers"
