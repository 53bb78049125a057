"""The file that says where the shards of this region are reached: `shards.json` beside their directories.

The supervisor alone writes it, whole; shards read it at their start, and again once it has changed. Its epoch rises
with every change, so a shard never goes back to an earlier one.
"""

from __future__ import annotations

import errno
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from crdtstream.connections.shards import ShardAddress, ShardMap, map_of
from crdtstream.replication import wire_pb2 as wire
from crdtstream.runtime.tls.credentials import join_address
from crdtstream.settings.config import WILDCARDS, Config
from crdtstream.settings.sharding import SHARDS_FILE, number_of
from crdtstream.storage.disk import DiskFailed

FORMAT = 1
LOOPBACK = "127.0.0.1"
PUT_BACK = (
    "put it back from a copy, from another machine of this region, or from a restore of a backup into another"
    " directory: the supervisor corrects what differs"
)


@dataclass(frozen=True)
class ShardPlace:
    """Where clients reach a shard, and where the same shard of another region does, as HOST:PORT: empty if it is at the
    host that it knows already, at the port of shard 0 plus the number of the shard.
    """

    host: str
    port: int
    tls_port: int
    replication: str

    @property
    def address(self) -> str:
        """Where clients reach it, by which its directory knows it."""
        return join_address(self.host, self.port or self.tls_port)


# Of a restored shard: the supervisor writes it into the map at its start, because it is a setting.
UNKNOWN_PLACE = ShardPlace("", 0, 0, "")


@dataclass(frozen=True)
class RegionShards:
    """The content of the file: all shards, in the order of their numbers, as the region was founded, and the numbers of
    those that run on this machine.
    """

    cluster: str
    region: int
    epoch: int
    places: tuple[ShardPlace, ...]
    here: tuple[int, ...]

    @property
    def is_restored(self) -> bool:
        """No supervisor has started with it since it was restored."""
        return all(place == UNKNOWN_PLACE for place in self.places)

    def map_for(self, own: int, away: bool) -> ShardMap:
        addresses = [ShardAddress(place.host, place.port, place.tls_port) for place in self.places]
        return map_of(self.cluster, self.region, own, addresses, self.epoch, away)


def encoded(shards: RegionShards) -> bytes:
    content = {
        "format": FORMAT,
        "cluster": shards.cluster,
        "region": shards.region,
        "shards": len(shards.places),
        "epoch": shards.epoch,
        "addresses": [asdict(place) for place in shards.places],
        "here": list(shards.here),
    }
    return json.dumps(content, indent=1).encode() + b"\n"


def decoded(data: bytes, path: str) -> RegionShards:
    """Raises DiskError for what the supervisor did not write."""
    try:
        return checked(json.loads(data))
    except (ValueError, KeyError, TypeError) as error:
        raise DiskFailed(errno.EIO, f"{path} cannot be read: {error}; {PUT_BACK}") from error


def checked(content: dict[str, Any]) -> RegionShards:
    if content["format"] != FORMAT:
        raise ValueError(f"its format is {content['format']}, and this release reads {FORMAT}")
    places = tuple(
        ShardPlace(str(row["host"]), int(row["port"]), int(row["tls_port"]), str(row["replication"]))
        for row in content["addresses"]
    )
    if len(places) != content["shards"] or not places:
        raise ValueError(f"it names {content['shards']} shards and has {len(places)} addresses")
    here = tuple(int(number) for number in content["here"])
    return RegionShards(str(content["cluster"]), int(content["region"]), int(content["epoch"]), places, here)


class ShardMapFile:
    """The file as the process of one shard reads it."""

    def __init__(self, config: Config) -> None:
        self._path = Path(config.data).parent / SHARDS_FILE
        self._number = number_of(config)
        self._seen: tuple[int, int, int] | None = None
        self._shards = self._read()

    def _read(self) -> RegionShards:
        try:
            with self._path.open("rb") as file:
                self._seen = signature(os.fstat(file.fileno()))
                return decoded(file.read(), str(self._path))
        except FileNotFoundError as error:
            text = f"{self._path} is missing: start the supervisor of this region, crdtstream serve --shards"
            raise DiskFailed(errno.ENOENT, text) from error

    def current(self, away: bool = False) -> ShardMap:
        return self._shards.map_for(self._number, away)

    def has_changed(self) -> bool:
        """Read the file again; true if its epoch has risen since the last look. Raises DiskError."""
        if signature(os.stat(self._path)) == self._seen:
            return False
        read = self._read()
        if read.epoch <= self._shards.epoch:
            return False
        self._shards = read
        return True

    @property
    def is_here(self) -> bool:
        """False if this shard is to run on another machine."""
        return self._number in self._shards.here

    @property
    def place(self) -> ShardPlace:
        """Where this shard is reached."""
        return self._shards.places[self._number]

    def placement(self) -> wire.PlacementReply:
        """Where other regions, and other machines of this one, reach the shards."""
        return wire.PlacementReply(
            addresses=[place.replication for place in self._shards.places], epoch=self._shards.epoch
        )

    def sibling_addresses(self, config: Config) -> list[str]:
        """Where the shards of this region reach each other. Those of one machine need no name for it, but with TLS:
        then it is the one that clients use, where there is none for other regions.
        """
        base = config.replication_port - self._number
        own = self._shards.places[self._number].host
        host = config.replication_bind
        if host in WILDCARDS:
            host = own if config.tls_certificate else LOOPBACK
        return [
            place.replication
            if place.replication and (config.tls_certificate or place.host != own)
            else join_address(host.strip("[]"), base + number)
            for number, place in enumerate(self._shards.places)
        ]


def signature(stat: os.stat_result) -> tuple[int, int, int]:
    """What differs once the file was replaced."""
    return stat.st_ino, stat.st_mtime_ns, stat.st_size
