"""A path between two regions with a switch: a TCP relay inside the demo, so cutting it needs no root privileges.

    open    connections are relayed
    held    connections stay open and new ones are accepted, but no byte passes: a slow network
    cut     connections are dropped and new ones are rejected: a network that is down

A new link is cut. Bytes in transit when the switch changes may still arrive.
"""

from __future__ import annotations

import socket
import threading

OPEN = "open"
HELD = "held"
CUT = "cut"

CHUNK_BYTES = 1 << 16
CONNECT_TIMEOUT_S = 5.0


class Link:
    """One region dials `address`; the link forwards to the port given to `lead_to`."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._turned = threading.Condition()
        self._state = CUT
        self._port = 0
        self._sockets: set[socket.socket] = set()
        self._closed = False
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, name=f"link {self.address}", daemon=True).start()

    def lead_to(self, port: int) -> None:
        self._port = port

    def open(self) -> None:
        self._turn(OPEN)

    def hold(self) -> None:
        self._turn(HELD)

    def cut(self) -> None:
        self._turn(CUT)

    def close(self) -> None:
        self._closed = True
        self._turn(CUT)
        drop(self._listener)

    def _turn(self, state: str) -> None:
        with self._turned:
            self._state = state
            dropped = list(self._sockets) if state == CUT else []
            self._turned.notify_all()
        for end in dropped:
            drop(end)

    # Relaying, on threads

    def _accept(self) -> None:
        with self._listener:
            while not self._closed:
                try:
                    near, _ = self._listener.accept()
                except OSError:
                    return
                self._relay(near)

    def _relay(self, near: socket.socket) -> None:
        far = self._reach()
        with self._turned:
            if far is not None and self._state != CUT:
                self._sockets |= {near, far}
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()
                return
        near.close()
        if far is not None:
            far.close()

    def _reach(self) -> socket.socket | None:
        if self._state == CUT:
            return None
        try:
            far = socket.create_connection(("127.0.0.1", self._port), CONNECT_TIMEOUT_S)
        except OSError:
            return None
        far.settimeout(None)
        return far

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while (chunk := source.recv(CHUNK_BYTES)) and self._passes():
                sink.sendall(chunk)
        except OSError:
            pass
        drop(sink)
        with self._turned:
            self._sockets.discard(source)
        source.close()

    def _passes(self) -> bool:
        """Wait while the link is held; False if it was cut meanwhile."""
        with self._turned:
            self._turned.wait_for(lambda: self._state != HELD)
            return self._state == OPEN


def drop(end: socket.socket) -> None:
    """Shut a connection down while another thread waits on it: close alone would not wake that thread."""
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        end.close()
