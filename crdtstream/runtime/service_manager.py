"""What a service manager is told, where one started the region: that it serves, reads its settings again, or stops.

One datagram for each change; a state that finds no room is sent again at the next look at it. That the region has left
or moved waits for room, and is sent again, too. Until the region serves, the status is the reason why it does not.

Reference: sd_notify(3) of systemd.
"""

from __future__ import annotations

import socket
import time

import structlog

STOPPING = "STOPPING=1\nSTATUS=stopping"
# A supervisor does not start a shard again that has said so.
LEFT = "STATUS=it has left the cluster"
# One that has said so ends because its directory is handed over, and is started again if it is to run here after all.
MOVED = "STATUS=it has moved"
SERVING = "READY=1\nSTATUS=serving"
# How long that it has left or moved waits for room.
LAST_S = 1.0

logger = structlog.get_logger()


class ServiceManager:
    """`address` is the manager's socket, as the variable NOTIFY_SOCKET names it; empty for none."""

    def __init__(self, address: str) -> None:
        # The kernel writes the first byte of names that are not in the file system as 0.
        self._address = address.replace("@", "\0", 1) if address.startswith("@") else address
        self._told = ""
        # What found no room and must arrive.
        self._owed = ""

    def notify(self, loading: str, is_stopping: bool) -> None:
        """Tell the state of the region; `loading` says why it does not serve."""
        if is_stopping:
            self._send(STOPPING)
        else:
            self._send(f"STATUS={loading}" if loading else SERVING)

    def notify_left(self) -> None:
        """The region has left its cluster, and stops in a moment."""
        self._send(LEFT, must_arrive=True)

    def notify_moved(self) -> None:
        """The directory of this shard is handed over to another address."""
        self._send(MOVED, must_arrive=True)

    def notify_reload(self) -> None:
        """A reload begins; it ends with the next `notify`."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def _send(self, text: str, must_arrive: bool = False) -> None:
        if not self._address or (text == self._told and not self._owed):
            return
        if self._owed and self._has_sent(self._owed, 0.0):
            self._owed = ""
        self._told = text
        if not self._has_sent(text, LAST_S if must_arrive else 0.0):
            self._told = ""
            self._owed = text if must_arrive else self._owed

    def _has_sent(self, text: str, wait_s: float) -> bool:
        """Send this; false if there was no room for so long."""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
                # With 0 it does not wait.
                sending.settimeout(wait_s)
                sending.sendto(text.encode(), self._address)
        except OSError as error:
            logger.warning("service-manager-not-told", told=text.partition("\n")[0], reason=str(error))
            return not isinstance(error, BlockingIOError | TimeoutError)
        return True
