"""A path between two regions that counts bytes and can be cut: a TCP relay, without root privileges."""

from __future__ import annotations

import contextlib
import socket
import threading

CHUNK_BYTES = 1 << 18


class Relay:
    """A region dials `address`; `to_target` and `from_target` count the bytes in each direction. A context manager."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._cut = False
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.to_target = 0
        self.from_target = 0
        self.connected = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *exception: object) -> None:
        self.cut()
        end(self._listener)

    def cut(self) -> None:
        """Drop every connection and reject new ones."""
        with self._lock:
            self._cut = True
            self.connected.clear()
            for one in self._sockets:
                end(one)

    def heal(self) -> None:
        with self._lock:
            self._cut = False

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                self._listener.close()
                return
            self._join(near)

    def _join(self, near: socket.socket) -> None:
        with self._lock:
            if self._cut:
                near.close()
                return
            try:
                far = socket.create_connection(("127.0.0.1", self._target_port))
            except OSError:
                near.close()
                return
            self._sockets |= {near, far}
            for one in (near, far):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(source, sink, source is near), daemon=True).start()
        self.connected.set()

    def _pump(self, source: socket.socket, sink: socket.socket, outward: bool) -> None:
        with contextlib.suppress(OSError):
            while chunk := source.recv(CHUNK_BYTES):
                # With one connection each counter has one writer, so no lock is needed.
                if outward:
                    self.to_target += len(chunk)
                else:
                    self.from_target += len(chunk)
                sink.sendall(chunk)
        end(sink)
        with self._lock:
            self._sockets.discard(source)
        source.close()


def end(one: socket.socket) -> None:
    """Shut a socket down, which wakes a thread that waits on it; close alone would not."""
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
