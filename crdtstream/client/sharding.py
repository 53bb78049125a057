"""Commands without a key in a region of several shards: each shard is asked by itself."""

from __future__ import annotations

from typing import Any

import redis
import redis.asyncio

CLUSTERS = (redis.RedisCluster, redis.asyncio.RedisCluster)


def shards_of(client: Any) -> list[dict[str, Any]]:
    """Return for each shard what such a command needs besides its words."""
    return [{"target_nodes": node} for node in client.get_primaries()] if isinstance(client, CLUSTERS) else [{}]
