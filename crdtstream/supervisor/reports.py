"""What the processes of shards say of themselves, as to a service manager: that they serve, or why they do not.

All write to one socket, whose name is in NOTIFY_SOCKET. The kernel adds which process wrote, so nobody else can speak
for a shard.

Reference: sd_notify(3); SCM_CREDENTIALS in unix(7).
"""

from __future__ import annotations

import os
import secrets
import socket
import struct

from crdtstream.runtime.service_manager import LEFT, MOVED, STOPPING

BYTES_MAX = 4096
CREDENTIALS = struct.Struct("3i")


class ShardReport:
    """One message: whether its sender serves, stops, has left the cluster or has moved, and its status in words."""

    __slots__ = ("has_left", "has_moved", "process", "serves", "status", "stops")

    def __init__(self, process: int, text: str) -> None:
        lines = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
        self.process = process
        self.serves = lines.get("READY") == "1"
        self.stops = text == STOPPING
        self.has_left = text == LEFT
        self.has_moved = text == MOVED
        self.status = lines.get("STATUS", "")


class Reports:
    """The socket; `address` is what NOTIFY_SOCKET says to the processes."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        name = f"crdtstream-{os.getpid()}-{secrets.token_hex(8)}"
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._socket.setblocking(False)
        # A name that is not in the file system goes with its socket.
        self._socket.bind(f"\0{name}")
        self.address = f"@{name}"

    def fileno(self) -> int:
        return self._socket.fileno()

    def read(self) -> list[ShardReport]:
        """All that came since the last time."""
        found: list[ShardReport] = []
        while True:
            try:
                data, ancillary, _, _ = self._socket.recvmsg(BYTES_MAX, socket.CMSG_SPACE(CREDENTIALS.size))
            except BlockingIOError:
                return found
            for level, kind, content in ancillary:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
                    process, _, _ = CREDENTIALS.unpack(content[: CREDENTIALS.size])
                    found.append(ShardReport(process, data.decode("utf-8", "replace")))

    def close(self) -> None:
        self._socket.close()
