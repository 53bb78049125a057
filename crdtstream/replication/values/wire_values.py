"""Values of messages: protobuf rows to core values and back, and the checks that a peer's values have to pass.

Vectors are inclusive. Everything a peer sends is validated here before it becomes a core value; `WireError` says what
was wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from crdtstream.core.values.batch_budget import LIMIT_MIN
from crdtstream.core.values.causality import REGION_MAX, VersionVector, no_origins
from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication.values.bounds import MESSAGE_PARTS
from crdtstream.replication.values.progress import GrownRow
from crdtstream.settings.config import LIMITS_MIN, NAME_CHARACTERS_MAX, is_address

ORIGINS_MAX: Final = 1 << 16
LISTENERS_MAX: Final = 16
# The least that holds what the smallest message aims at; regions of the configuration's minimum take more.
MESSAGE_BYTES_MAX_MIN: Final = MESSAGE_PARTS * LIMITS_MIN["message_bytes"]


class WireError(ValueError):
    """A message that no correct peer sends."""


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
        check_region_number(region)
    return result


def to_origin(origin: int) -> int:
    check_origins([origin])
    return origin


def check_origins(origins: Iterable[int]) -> None:
    strangers = no_origins(origins)
    if strangers:
        raise WireError(f"{strangers[0]} is not a valid origin")


def check_region_number(region: int) -> None:
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


def check_addresses(addresses: Mapping[str, str]) -> None:
    """What others are told to dial must be an address."""
    if len(addresses) > LISTENERS_MAX:
        raise WireError(f"a region announces {len(addresses)} addresses, more than {LISTENERS_MAX}")
    for listener, address in addresses.items():
        if not is_address(address):
            raise WireError(f"a region announces {address!r} for {listener}: it must be HOST:PORT")


def check_birth(row: wire.BirthRow) -> None:
    """What a Hello or a Met tells of an origin, besides its origin."""
    check_names([row.name, *row.addresses, *row.addresses.values()])
    check_addresses(row.addresses)
    check_bound("batch_bytes_max", row.batch_bytes_max, LIMIT_MIN)
