"""Regions in order of distance, with a client of redis-py for each: blocking, and with asyncio."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Self, TypeVar

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from crdtstream.client.connecting import AsyncConnecting, Connecting
from crdtstream.client.failover import Failover, FailoverOptions, Region
from crdtstream.client.session import SessionTokens
from crdtstream.client.steps import drive, drive_async

T = TypeVar("T")
Text = str | bytes
CONNECT_S = 2.0
SOCKET_S = 10.0


class RegionList:
    """What both kinds of clients share: their options, and what they tell."""

    def __init__(self, failover: Failover, socket_timeout_s: float) -> None:
        self.failover = failover
        self.socket_timeout_s = socket_timeout_s
        if failover.session is not None:
            self.check_wait("await_ms", failover.options.await_ms)

    def check_wait(self, name: str, wait_ms: int) -> None:
        """Raises ValueError for a wait that the socket timeout would end."""
        if not 0 < wait_ms < 1_000 * self.socket_timeout_s:
            limit = f"{1_000 * self.socket_timeout_s:.0f}"
            raise ValueError(f"{name}={wait_ms} is not between 0 and socket_timeout_s ({limit} ms): change one of them")

    @property
    def address(self) -> str:
        """The address of the region in use, HOST:PORT; empty before the first call and after a failure."""
        current = self.failover.current
        return "" if current is None else current.address

    @property
    def tokens(self) -> tuple[bytes, ...]:
        """What stands for all that the session has seen; give it to another client as `tokens`."""
        session = self.failover.session
        return () if session is None else tuple(session.tokens)

    @property
    def repeats_elsewhere(self) -> int:
        """How many calls were repeated in another region, although the first one may have executed them."""
        return self.failover.repeats_elsewhere

    def region_at(self, address: str) -> Region:
        for region in self.failover.regions:
            if region.address == address:
                return region
        known = ", ".join(region.address for region in self.failover.regions)
        raise ValueError(f"no region has the address {address}: use one of {known}")


def connection_options(given: dict[str, Any], retry: object, socket_timeout_s: float) -> dict[str, Any]:
    """Return the options of each redis-py client; what this library relies on cannot be given."""
    for name in ("decode_responses", "protocol", "retry", "socket_timeout"):
        if name in given:
            raise ValueError(f"{name} cannot be set: replies are bytes of RESP2, and call() alone repeats")
    fixed = {"protocol": 2, "retry": retry, "socket_timeout": socket_timeout_s}
    return {"socket_connect_timeout": CONNECT_S, "socket_keepalive": True, **given, **fixed}


def sharded(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a client of several shards: one answer MOVED has it look up all of them again."""
    return {**options, "reinitialize_steps": 1}


def url_of(address: str) -> str:
    return address if "://" in address else f"redis://{address}"


def address_of(client: Any) -> str:
    """Return HOST:PORT, or the path of a socket: a URL may hold a password."""
    options = client.connection_pool.connection_kwargs
    return str(options["path"]) if "path" in options else f"{options['host']}:{options.get('port', 6379)}"


def session_of(session: bool, tokens: Sequence[bytes]) -> SessionTokens | None:
    return SessionTokens(tokens) if session or tokens else None


class Regions(RegionList):
    """Regions in order of distance; one of them is used until it fails.

    `addresses`: HOST:PORT or a URL of redis-py (`rediss://` for TLS), the nearest first. `connection` has further
    options of `redis.Redis`, for example `username`. With `session`, each call gets a token, and each move awaits it
    for up to `await_ms` milliseconds in a region; such an object is one session, so give each thread its own. `tokens`
    of an earlier session continue it, and `go_on_behind` goes on where something has not arrived. `patience_s` bounds
    how long a call looks for a region, in seconds.

    Raises ValueError for options that do not fit together. Without `session`, threads may share it.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        session: bool = False,
        tokens: Sequence[bytes] = (),
        go_on_behind: bool = False,
        await_ms: int = 5_000,
        patience_s: float = 30.0,
        pause_s_max: float = 5.0,
        socket_timeout_s: float = SOCKET_S,
        **connection: Any,
    ) -> None:
        options = connection_options(connection, Retry(NoBackoff(), 0), socket_timeout_s)
        self._doors = [
            Connecting(
                redis.Redis.from_url(url, **options), partial(redis.RedisCluster.from_url, url, **sharded(options))
            )
            for url in map(url_of, addresses)
        ]
        regions = [Region(address_of(door.plain), door.plain, door) for door in self._doors]
        chosen = FailoverOptions(patience_s, pause_s_max, await_ms, go_on_behind)
        failover = Failover(regions, chosen, session_of(session, tokens), time.monotonic, time.sleep)
        super().__init__(failover, socket_timeout_s)

    def call(self, function: Callable[[redis.Redis], T], *, repeat: bool = False) -> T:
        """Call the function with the redis-py client of a region that can be used, and return what it returns.

        It is called again, in another region if there is one, if no command was sent, or the region refused it because
        it loads, is full or has not been admitted yet. If the connection is lost after it was sent, `repeat` decides:
        True calls it again, False raises OutcomeUnknown. Give it for what reads, or may be done twice.

        Raises NoRegion, OutcomeUnknown, Behind, WritesLost, and what the function raises otherwise.
        """
        reply: T = drive(self.failover.call(function, repeat))
        return reply

    def move(self, address: str) -> bool:
        """Use the region at this address from now on; False if that fails, or it lacks what the session has seen."""
        return drive(self.failover.move(self.region_at(address)))

    def go_home(self) -> bool:
        """Move to the nearest region that can be used; False if the client stays where it is."""
        return drive(self.failover.go_home())

    def close(self) -> None:
        for door in self._doors:
            door.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class AsyncRegions(RegionList):
    """As `Regions`, with clients of `redis.asyncio`. With `session`, give each task its own."""

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        session: bool = False,
        tokens: Sequence[bytes] = (),
        go_on_behind: bool = False,
        await_ms: int = 5_000,
        patience_s: float = 30.0,
        pause_s_max: float = 5.0,
        socket_timeout_s: float = SOCKET_S,
        **connection: Any,
    ) -> None:
        options = connection_options(connection, AsyncRetry(NoBackoff(), 0), socket_timeout_s)
        many = redis.asyncio.RedisCluster.from_url
        self._doors = [
            AsyncConnecting(
                redis.asyncio.Redis.from_url(url, **options),
                partial(many, url, **sharded(options)),
                socket_timeout_s,
            )
            for url in map(url_of, addresses)
        ]
        regions = [Region(address_of(door.plain), door.plain, door) for door in self._doors]
        chosen = FailoverOptions(patience_s, pause_s_max, await_ms, go_on_behind)
        failover = Failover(regions, chosen, session_of(session, tokens), time.monotonic, asyncio.sleep)
        super().__init__(failover, socket_timeout_s)

    async def call(self, function: Callable[[redis.asyncio.Redis], Awaitable[T]], *, repeat: bool = False) -> T:
        """As `Regions.call`; the function returns an awaitable."""
        reply: T = await drive_async(self.failover.call(function, repeat))
        return reply

    async def move(self, address: str) -> bool:
        """As `Regions.move`."""
        return await drive_async(self.failover.move(self.region_at(address)))

    async def go_home(self) -> bool:
        """As `Regions.go_home`."""
        return await drive_async(self.failover.go_home())

    async def aclose(self) -> None:
        for door in self._doors:
            await door.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()
