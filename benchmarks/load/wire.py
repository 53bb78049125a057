"""RESP2 for the benchmarks: request encoding, and a blocking connection for everything that is not measured."""

from __future__ import annotations

import socket
from itertools import islice
from typing import Any

TIMEOUT_S = 120.0
PIPELINE = 500
ENTRY_LINES = 8  # of an entry with one field: *2 $n ID *2 $n field $n value


class ReplyError(Exception):
    """An error reply of the server."""


def command(*parts: bytes | str | int) -> bytes:
    pieces = [b"*%d\r\n" % len(parts)]
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        pieces.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return b"".join(pieces)


class Connection:
    """A client that waits for each reply; a context manager."""

    def __init__(self, port: int, timeout_s: float = TIMEOUT_S) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb")

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def ask(self, *parts: bytes | str | int) -> Any:
        self.send(*parts)
        return self.reply()

    def send(self, *parts: bytes | str | int) -> None:
        self._socket.sendall(command(*parts))

    def pipeline(self, requests: list[bytes], depth: int = PIPELINE) -> None:
        """Send requests in pipelines of this depth; an error reply is raised."""
        for begin in range(0, len(requests), depth):
            some = requests[begin : begin + depth]
            self._socket.sendall(b"".join(some))
            for _ in some:
                self.reply()

    def reply(self) -> Any:
        line = self._file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server closed the connection")
        kind, text = line[:1], line[1:-2]
        if kind == b"-":
            raise ReplyError(text.decode(errors="replace"))
        if kind == b"+":
            return text
        number = int(text)
        if kind == b":":
            return number
        if number < 0:
            return None
        if kind == b"$":
            return self._file.read(number + 2)[:-2]
        return [self.reply() for _ in range(number)]

    def entries(self) -> tuple[list[bytes], int]:
        """Read an array of entries with one field each, without line ends in the data; return its IDs and its size in
        bytes.
        """
        header = self._file.readline()
        if not header.startswith(b"*"):
            raise ReplyError(header.decode(errors="replace"))
        lines = list(islice(self._file, int(header[1:]) * ENTRY_LINES))
        return [line[:-2] for line in lines[2::ENTRY_LINES]], len(header) + sum(map(len, lines))
