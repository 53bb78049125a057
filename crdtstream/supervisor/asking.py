"""Asks the other machines of a region where its shards run, before any are founded here.

A machine without `shards.json` founds the shards that its settings name. If they run elsewhere, two processes would
serve each of them. Nobody may answer, because all machines are founded at the same time, or are down: then founding
goes on.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import grpc.aio

from crdtstream.runtime.links.routes import placement_of
from crdtstream.runtime.shard_place import LOSES
from crdtstream.runtime.tls.certificates import Certificates
from crdtstream.runtime.tls.credentials import read_credentials
from crdtstream.settings.config import Config, ConfigError, is_address, split_address
from crdtstream.settings.sharding import SHARDS_FILE, here, own_host, ranges_of, replaced, replication_host
from crdtstream.supervisor.founding import places_of

# The epoch of a map that nobody has changed.
FOUNDED = 1


async def require_unfounded(config: Config) -> None:
    """Raise ConfigError if shards that would be founded here run elsewhere."""
    if not to_found(config) or os.path.exists(Path(config.data) / SHARDS_FILE):
        return
    places, certificates = places_of(config), read_credentials(config)
    others = [places[number].replication for number in set(range(config.shards)).difference(here(config))]
    answers = await asyncio.gather(*(placement_of(channel_to(address, certificates)) for address in others))
    for address, answer in zip(others, answers, strict=True):
        if len(answer.addresses) == config.shards:
            refuse_elsewhere(config, address, list(answer.addresses))
            refuse_lost(config, address, answer.epoch)


def to_found(config: Config) -> list[int]:
    """The shards that run here, and do not take over."""
    return sorted(set(here(config)).difference(replaced(config)))


def channel_to(address: str, certificates: Certificates | None) -> grpc.aio.Channel:
    if certificates is None:
        return grpc.aio.insecure_channel(address)
    return grpc.aio.secure_channel(address, certificates.channel())


def refuse_elsewhere(config: Config, asked: str, answer: list[str]) -> None:
    """An address that is empty is that of a shard at the machine that answered."""
    own = {own_host(config), replication_host(config)}
    for number in to_found(config):
        address = answer[number] or asked
        if is_address(address) and split_address(address)[0] not in own:
            raise ConfigError(
                f"shard {number} runs at {address} already, as {asked} says, and {config.data} has no {SHARDS_FILE}:"
                ' start with shard = "none", and move it here; if that is this machine, give it as --announce-host;'
                f" {LOSES}"
            )


def refuse_lost(config: Config, asked: str, epoch: int) -> None:
    """A map that has changed is older than this founding: the shards that it places here were brought here, or have
    run here.
    """
    if epoch > FOUNDED:
        raise ConfigError(
            f"the map of {asked} has shards {ranges_of(to_found(config))} at this machine, and has changed since"
            f" the region was founded, and {config.data} has no {SHARDS_FILE}: mount the volume that has it; {LOSES}"
        )
