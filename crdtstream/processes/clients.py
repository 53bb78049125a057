"""Connections to a Redis port, with replies as on the wire: redis-py's own conversions differ between its releases."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.exceptions import TryAgainError
from redis.retry import Retry

from crdtstream.processes.waiting import DEADLINE_S

Inside = Callable[[], AbstractContextManager[None]]


class _Connection(redis.Connection):
    """Connects inside a context, also for the connections that a pipeline opens later."""

    def __init__(self, inside: Inside, **settings: Any) -> None:
        super().__init__(**settings)  # type: ignore[no-untyped-call]
        self._inside = inside

    def _connect(self) -> Any:
        with self._inside():
            return super()._connect()  # type: ignore[no-untyped-call]


def client_of(
    port: int,
    timeout_s: float = DEADLINE_S,
    inside: Inside = nullcontext,
    decode: bool = False,
    host: str = "localhost",
) -> Any:
    """Return a connected client, which never repeats a request; with `decode`, replies are text."""
    pool = redis.ConnectionPool(
        connection_class=_Connection,
        inside=inside,
        host=host,
        port=port,
        socket_timeout=timeout_s,
        retry=Retry(NoBackoff(), 0),
        protocol=2,
        decode_responses=decode,
    )
    client = redis.Redis(connection_pool=pool, single_connection_client=True)
    client.auto_close_connection_pool = True
    client.response_callbacks.clear()
    return client


def pairs(flat: Iterable[Any]) -> dict[Any, Any]:
    """Convert a RESP2 map: key, value, key, value."""
    items = iter(flat)
    return dict(zip(items, items, strict=True))


def creates(ask: Callable[..., Any], key: str, group: str, start: str = "0") -> bool:
    """Create the group; False if the region cannot create it yet."""
    try:
        ask("XGROUP", "CREATE", key, group, start, "MKSTREAM")
    except (TryAgainError, redis.BusyLoadingError):
        return False
    return True
