"""Asks a region for a backup over its Redis port: the region itself, or each of its shards."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from crdtstream.admin.access import node_problem
from crdtstream.admin.backups import BackupRefusal, BackupUnanswered
from crdtstream.migration.servers import is_cluster
from crdtstream.observing.access import Access

CONNECT_S = 5.0


@dataclass(frozen=True)
class ShardServer:
    """A shard of a region: its number, its ID, and HOST:PORT of its Redis port."""

    number: int
    node_id: str
    address: str


def shards_at(node: str, access: Access) -> list[ShardServer]:
    """The shards of the region, none if it has one only; raises BackupError."""
    # A process that is suspended would be waited for without end.
    with asked(node, access, CONNECT_S) as client:
        client.execute_command("PING")
        rows = client.execute_command("CLUSTER", "SLOTS") if is_cluster(client) else []
    own = node.rpartition(":")[0]
    return [
        ShardServer(number, node_id.decode(), f"{host_at(host) or own}:{port}")
        for number, (_, _, (host, port, node_id, *_), *_) in enumerate(rows)
    ]


def host_at(host: bytes | None) -> str:
    name = (host or b"").decode()
    return f"[{name}]" if ":" in name else name


def request_backup(node: str, access: Access, directory: str) -> str:
    """Have the region, or a shard, take a backup; return its directory as the region names it. Raises BackupError."""
    with asked(node, access, CONNECT_S) as client:
        client.execute_command("PING")
    # A backup takes as long as it takes.
    with asked(node, access, None) as client:
        fields = client.execute_command("CRDT.BACKUP", directory)
    return os.fsdecode(dict(zip(fields[::2], fields[1::2], strict=True))[b"directory"])


@contextmanager
def asked(node: str, access: Access, timeout_s: float | None) -> Iterator[Any]:
    """A client, whose failures are those of a backup."""
    # Imported only here: a region starts without it, and sooner.
    import redis

    problem = node_problem(node)
    if problem:
        raise BackupRefusal(problem)
    host, _, port = node.rpartition(":")
    try:
        with closing(client_of(host, int(port), access, timeout_s)) as client:
            yield client
    except redis.ResponseError as error:
        raise BackupRefusal(f"{node}: {error}") from error
    except redis.RedisError as error:
        raise BackupUnanswered(f"{node} did not answer: {error}") from error


def client_of(host: str, port: int, access: Access, timeout_s: float | None) -> Any:
    """Return a client that makes no second attempt."""
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    client: Any = redis.Redis(
        host=host.strip("[]"),
        port=port,
        **access.arguments(),
        socket_connect_timeout=CONNECT_S,
        socket_timeout=timeout_s,
        retry=Retry(NoBackoff(), 0),
        protocol=2,
    )
    client.response_callbacks.clear()
    return client
