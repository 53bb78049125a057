"""Streams that a gateway creates when it starts: `NAME:PARTITIONS[,NAME:PARTITIONS...]`.

The ID follows from the name: `ocid1.stream.oc1..NAME`. A stream that exists is left as it is. They belong to the
compartment `ocid1.compartment.oc1..init`.
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from crdtstream.oci import streams
from crdtstream.oci.errors import OciError
from crdtstream.oci.gateway import Gateway
from crdtstream.oci.resources import ACTIVE, CreateStreamDetails
from crdtstream.partitions.values import RETRYABLE, Refused
from crdtstream.settings.config import ConfigError

COMPARTMENT: Final = "ocid1.compartment.oc1..init"
PAUSE_S: Final = 0.2

logger = structlog.get_logger()


def init_streams(text: str) -> list[CreateStreamDetails]:
    """Raises ConfigError."""
    return [details_of(word.strip()) for word in text.split(",")] if text else []


def details_of(word: str) -> CreateStreamDetails:
    name, _, count = word.rpartition(":")
    if not (name and count.isascii() and count.isdigit() and len(count) < 10):
        raise ConfigError(f"init-streams {word!r} must be NAME:PARTITIONS, with commas between streams")
    details = CreateStreamDetails(name=name, partitions=int(count), compartment_id=COMPARTMENT)
    try:
        streams.validate(details)
    except OciError as error:
        raise ConfigError(f"init-streams {word!r}: {error.message}") from error
    return details


def id_of(name: str) -> str:
    return f"ocid1.stream.oc1..{name}"


async def create_all(gateway: Gateway, wanted: list[CreateStreamDetails], pause_s: float = PAUSE_S) -> None:
    for details in wanted:
        try:
            while not await is_created(gateway, details):
                await asyncio.sleep(pause_s)
        except (Refused, OciError) as error:
            logger.error("oci-stream-failed", stream=details.name, reason=str(error))


async def is_created(gateway: Gateway, details: CreateStreamDetails) -> bool:
    """False while the region does not take writes, which it does not before it is admitted."""
    id = id_of(details.name)
    if any(record.id == id and record.lifecycle_state == ACTIVE for record in gateway.registry.streams()):
        return True
    try:
        pool = await gateway.registry.default_pool(COMPARTMENT)
        record = await streams.created(gateway, details, pool, id)
    except Refused as refusal:
        if refusal.code in RETRYABLE:
            return False
        raise
    logger.info("oci-stream-created", stream=details.name, id=id, state=record.lifecycle_state)
    return True
