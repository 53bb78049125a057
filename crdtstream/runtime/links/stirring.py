"""Whether bytes still come over the connection of a link although no message is complete.

TCP passes bytes on in order: after a loss on a saturated link nothing reaches gRPC for seconds, although packets come
all the time. The kernel counts them (`tcpi_data_segs_in` of `TCP_INFO`, on Linux). gRPC does not give its sockets away,
so those of this process are looked through for the addresses of peers: once for all links of which nothing has come
for a while, and not at all if there are none. Where the system does not tell, nothing stirs. A process that hangs sends
no data, so its link ends as before.
"""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import struct
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Final

SocketAddress = tuple[str, int]

DESCRIPTORS: Final = "/proc/self/fd"
# `tcpi_data_segs_in` in `struct tcp_info`.
SEGMENTS_AT: Final = 152
SEGMENTS_END: Final = SEGMENTS_AT + 4


class Stirring:
    """Follows the connections with some addresses of one peer."""

    __slots__ = ("_addresses", "_segments")

    def __init__(self, addresses: Collection[SocketAddress], segments: Segments) -> None:
        self._addresses = addresses
        self._segments = segments.of(addresses)

    def stirs(self, segments: Segments) -> bool:
        """True if data has come since this was asked last."""
        before, self._segments = self._segments, segments.of(self._addresses)
        return self._segments > before


class Segments:
    """How many segments with data have come over the connections of this process with each of these addresses: counted
    when it is first asked.
    """

    __slots__ = ("_addresses", "_counts")

    def __init__(self, addresses: Collection[SocketAddress]) -> None:
        self._addresses = addresses
        self._counts: Counter[SocketAddress] | None = None

    def of(self, addresses: Collection[SocketAddress]) -> int:
        """Those of some of the addresses together."""
        if self._counts is None:
            self._counts = counted(self._addresses)
        counts = self._counts
        return sum([counts[one] for one in addresses])


def counted(addresses: Collection[SocketAddress]) -> Counter[SocketAddress]:
    counts: Counter[SocketAddress] = Counter()
    for one in connections():
        peer = peer_of(one)
        if peer in addresses:
            counts[peer] += segments_of(one)
    return counts


def connections() -> Iterator[socket.socket]:
    """The sockets of this process; none may be used beyond its turn, and its descriptor stays open."""
    with suppress(OSError):
        for name in os.listdir(DESCRIPTORS):
            with suppress(OSError):
                if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                    one = socket.socket(fileno=int(name))
                    try:
                        yield one
                    finally:
                        one.detach()


def peer_of(connection: socket.socket) -> SocketAddress:
    """The other end; no address where there is none."""
    if connection.family not in (socket.AF_INET, socket.AF_INET6):
        return ("", 0)
    try:
        host, port = connection.getpeername()[:2]
    except OSError:
        return ("", 0)
    return (plain(host), port)


def plain(host: str) -> str:
    """An IPv4 address that came over a socket of IPv6 is the same address."""
    return host.removeprefix("::ffff:")


def segments_of(connection: socket.socket) -> int:
    with suppress(OSError, AttributeError, struct.error):
        told = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, SEGMENTS_END)
        return int(struct.unpack_from("=I", told, SEGMENTS_AT)[0])
    return 0


async def addresses_of(host: str, port: int) -> frozenset[SocketAddress]:
    """Where a configured address may lead; nowhere if its name is not known at present."""
    with suppress(OSError):
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return frozenset((plain(str(address[0])), int(address[1])) for *_, address in found)
    return frozenset()
