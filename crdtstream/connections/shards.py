"""The shards of a region: one process each, with a range of hash slots, and where clients reach it.

A region of one shard has no map at all. The hash slots of a shard never change, its address may; then the map gets a
higher epoch. A shard without any port is one whose address is not known: its hash slots are not served. One without a
host is on the machine of this one, so a client is told the host at which it came here.

Reference: `CLUSTER SLOTS` of Redis.
"""

from __future__ import annotations

from bisect import bisect_right
from hashlib import sha1
from typing import NamedTuple

from crdtstream.protocols.hash_slots import HASH_SLOTS, hash_slot_of, slot_ranges


class ShardAddress(NamedTuple):
    """Where clients reach a shard; a port is 0 if the shard has none of its kind."""

    host: str
    port: int
    tls_port: int

    def port_for(self, encrypted: bool) -> int:
        """The port for a client whose connection is like this; one of the other kind if there is no such port."""
        return (self.tls_port or self.port) if encrypted else (self.port or self.tls_port)


class Shard(NamedTuple):
    """One shard, and the hash slots from `low` to `high`, inclusive, that it serves."""

    number: int
    node_id: str
    low: int
    high: int
    address: ShardAddress


class ShardMap:
    """All shards of a region, and which of them this process is; one that is `away` has moved, and serves nothing."""

    __slots__ = ("_firsts", "_high", "_low", "away", "epoch", "own", "shards")

    def __init__(self, epoch: int, own: int, shards: tuple[Shard, ...], away: bool = False) -> None:
        self.epoch = epoch
        self.own = own
        self.shards = shards
        self._firsts = [shard.low for shard in shards]
        self.away = away
        self._low, self._high = (HASH_SLOTS, -1) if away else (shards[own].low, shards[own].high)

    def shard_of(self, hash_slot: int) -> Shard:
        return self.shards[bisect_right(self._firsts, hash_slot) - 1]

    def own_shard(self) -> Shard:
        return self.shards[self.own]

    def serves(self, key: bytes) -> bool:
        """True if this shard has the hash slot of the key."""
        return self._low <= hash_slot_of(key) <= self._high

    def owns(self, hash_slot: int) -> bool:
        return self._low <= hash_slot <= self._high

    def check(self) -> None:
        assert 0 <= self.own < len(self.shards), f"there is no shard {self.own} among {len(self.shards)}"
        after = 0
        for number, shard in enumerate(self.shards):
            assert shard.number == number, f"shard {shard.number} stands at {number}"
            assert shard.low == after and shard.high >= shard.low, f"shard {number} has {shard.low} to {shard.high}"
            after = shard.high + 1
        assert after == HASH_SLOTS, f"the hash slots from {after} on belong to no shard"
        assert len({shard.node_id for shard in self.shards}) == len(self.shards), "two shards have the same node ID"


def node_id_of(cluster: str, region: int, shard: int) -> str:
    """The ID of a shard for cluster clients: 40 hexadecimal digits that stay the same wherever the shard runs."""
    return sha1(f"{cluster}\0{region}\0{shard}".encode(), usedforsecurity=False).hexdigest()


def map_of(
    cluster: str, region: int, own: int, addresses: list[ShardAddress], epoch: int, away: bool = False
) -> ShardMap:
    """The map of a region whose shards are reached at these addresses, in the order of their numbers."""
    ranges = slot_ranges(len(addresses))
    shards = [
        Shard(number, node_id_of(cluster, region, number), low, high, address)
        for number, ((low, high), address) in enumerate(zip(ranges, addresses, strict=True))
    ]
    return ShardMap(epoch, own, tuple(shards), away)
