"""Two regions of two shards, as processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from crdtstream.processes.clients import pairs
from crdtstream.processes.sharded import ShardedRegion
from crdtstream.processes.waiting import until

SHARDS = 2


@contextmanager
def two_regions(directory: Path) -> Iterator[tuple[ShardedRegion, ShardedRegion]]:
    """Two that serve, whose shards are linked with each other and members."""
    east, west = ShardedRegion(1, directory, SHARDS), ShardedRegion(2, directory, SHARDS)
    try:
        east.start(west)
        west.start(east)
        await_linked(east, west)
        yield east, west
    finally:
        for region in (east, west):
            region.request_stop()
        for region in (east, west):
            region.stop()


def await_linked(east: ShardedRegion, west: ShardedRegion) -> None:
    """Wait until all shards serve, are members, and linked."""
    for region in (east, west):
        region.await_serving()
        until(region.is_admitted, f"all shards of {region} are members")
    until(lambda: east.open_links() == {west.name} and west.open_links() == {east.name}, "all shards are linked")


def stop_shard(region: ShardedRegion, shard: int) -> None:
    with pytest.raises(redis.ConnectionError):
        region.ask_shard(shard, "SHUTDOWN")
    text = f"event=shard-stopped region={region.name} shard={shard}"
    until(lambda: text in region.log(), "its supervisor knows it")


def await_unlinked(region: ShardedRegion, shard: int) -> None:
    def links() -> list[bytes]:
        return [pairs(row)[b"link"] for row in region.ask_shard(shard, "CRDT.REGIONS")]

    until(lambda: b"none" in links(), f"shard {shard} of {region} has lost its link")
