"""Ports for processes that are started later, and whose peers must know them before.

A port that was found free may be taken before the process binds it. So ports come from blocks, and a process that gives
out ports owns its blocks: it listens on the first port of each until it ends, which the kernel sees to even when it is
killed. No two of them ever give out the same port. All blocks lie below the range that the kernel uses for outgoing
connections, so no dialler takes a port either, also not while its region is down.
"""

from __future__ import annotations

import os
import random
import socket

LOWEST, BLOCKS, BLOCK_PORTS = 20_000, 120, 100
HOST = "127.0.0.1"


class Ports:
    """Gives each port once. A process that was forked from another begins with a block of its own."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._left: list[int] = []
        self._guards: list[int] = []

    def allot(self) -> int:
        """Return a port that nothing listens on."""
        if self._owner != os.getpid():
            self._owner, self._left = os.getpid(), []
        while True:
            port = self._next()
            if is_free(port):
                return port

    def allot_row(self, count: int) -> int:
        """Return the first of so many ports that follow each other."""
        while True:
            first = self.allot()
            others = range(first + 1, first + count)
            if all(port in self._left and is_free(port) for port in others):
                self._left = [port for port in self._left if port not in others]
                return first

    def _next(self) -> int:
        if not self._left:
            self._left = self._own_block()
        return self._left.pop()

    def _own_block(self) -> list[int]:
        for block in random.sample(range(BLOCKS), BLOCKS):
            guard = LOWEST + block * BLOCK_PORTS
            try:
                # Only the number is kept: a socket would be closed, with a warning, when the interpreter ends.
                self._guards.append(socket.create_server((HOST, guard)).detach())
            except OSError:
                continue
            return random.sample(range(guard + 1, guard + BLOCK_PORTS), BLOCK_PORTS - 1)
        raise OSError(f"no ports are left between {LOWEST} and {LOWEST + BLOCKS * BLOCK_PORTS}")

    def release(self) -> None:
        """Leave the blocks to others."""
        for guard in self._guards:
            os.close(guard)
        self._guards, self._left = [], []


def is_free(port: int) -> bool:
    """Return whether a server could listen there, on any address."""
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


_ports = Ports()


def free_port() -> int:
    """Return a port that is free, and that no process of this kind is given again."""
    return _ports.allot()


def free_ports(count: int) -> int:
    """Return the first of so many ports that follow each other, all as those of `free_port`."""
    return _ports.allot_row(count)
