"""The part of `serve --check` about addresses: ports that cannot be listened on, and peers that cannot be resolved, or
are this region itself.

Each port is bound for a moment, as a start would bind it, and not listened on, so that nobody connects meanwhile.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator

from crdtstream.settings.config import Config, Listener, listeners_of, split_address

# An address of the system: a host, a port, and for IPv6 two numbers more.
Address = tuple[str, int] | tuple[str, int, int, int]
WILDCARDS = ("0.0.0.0", "::")


def port_problems(config: Config) -> Iterator[str]:
    """Yield a line for each port that cannot be listened on."""
    taken: dict[Address, Listener] = {}
    for each in listeners_of(config):
        try:
            for family, address in resolved(each.bind, each.port):
                other = taken.setdefault(address, each) if each.port else each
                if other is not each:
                    yield f"{each.setting} and {other.setting} are both {address[0]}:{each.port}: give two ports"
                else:
                    try_to_bind(family, address)
        except OSError as error:
            yield f"cannot listen on {each.bind}:{each.port}: {why(error, each)}"


def try_to_bind(family: int, address: Address) -> None:
    with socket.socket(family, socket.SOCK_STREAM) as trial:
        # As a server does: what is left of closed connections is no obstacle.
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            trial.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        trial.bind(address)


def why(error: OSError, listener: Listener) -> str:
    """Say why the address cannot be used and which setting to change."""
    if isinstance(error, socket.gaierror):
        return f"{error.strerror}; choose another --{listener.bind_setting}"
    setting = listener.bind_setting if error.errno == errno.EADDRNOTAVAIL else listener.setting
    return f"{os.strerror(error.errno or errno.EIO)}; choose another --{setting}"


def peer_problems(config: Config) -> Iterator[str]:
    """Yield a line for each peer whose name cannot be resolved, or that is this region."""
    own = next(each for each in listeners_of(config) if each.setting == "replication-port")
    for peer in config.peers:
        host, port = split_address(peer)
        try:
            found = resolved(host, port)
        except OSError as error:
            yield f"the peer {peer} cannot be resolved: {error.strerror or error}"
            continue
        if port == own.port and any(is_at(own.bind, address) for _, address in found):
            yield f"the peer {peer} is this region itself: leave out its own address, and name the other regions"


def is_at(bind: str, address: Address) -> bool:
    """Return whether a port that is bound there is reached at this address."""
    try:
        bound = {one[0] for _, one in resolved(bind, 0)}
    except OSError:
        # It is told as a problem of the port.
        return False
    return address[0] in bound or (not bound.isdisjoint(WILDCARDS) and is_local(address))


def is_local(address: Address) -> bool:
    """Return whether it is an address of this machine."""
    family = socket.AF_INET6 if len(address) == 4 else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as trial:
        try:
            trial.bind((address[0], 0, *address[2:]))
        except OSError:
            return False
    return True


def resolved(host: str, port: int) -> list[tuple[int, Address]]:
    """Return the family and address of everything that a host name stands for; raises OSError."""
    found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    return [(family, address) for family, _, _, _, address in found]  # type: ignore[misc]
