"""A path between two regions with a switch: a TCP relay on threads, so that cutting it needs no root privileges.

    open    connections are relayed
    held    connections stay open and new ones are accepted, but no byte passes, or none in one direction: a network
            that is silent
    cut     connections are dropped and new ones are rejected: a network that is down

A new relay listens on a free port unless one is given. It is open, but rejects connections until it leads somewhere.
Bytes in transit when the switch changes may still arrive.
"""

from __future__ import annotations

import socket
import threading

HOST = "127.0.0.1"
CHUNK_BYTES = 1 << 18
CONNECT_TIMEOUT_S = 5.0


class Relay:
    """One region dials `address`; the relay forwards to the port of the target. A context manager.

    `to_target` and `from_target` count the bytes that passed in each direction; `connected` is set while a connection
    has been relayed since the last cut.
    """

    def __init__(self, target_port: int = 0, port: int = 0) -> None:
        self._target_port = target_port
        self._listener = socket.create_server((HOST, port))
        self._turned = threading.Condition()
        self._cut = False
        self._held: frozenset[bool] = frozenset()  # directions; True is towards the target
        self._sockets: set[socket.socket] = set()
        self._closed = False
        self._passed = {True: 0, False: 0}
        self.connected = threading.Event()
        self.address = f"{HOST}:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, name=f"relay {self.address}", daemon=True).start()

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def is_cut(self) -> bool:
        return self._cut

    @property
    def to_target(self) -> int:
        return self._passed[True]

    @property
    def from_target(self) -> int:
        return self._passed[False]

    # The switch

    def lead_to(self, port: int) -> None:
        self._target_port = port

    def heal(self) -> None:
        self._turn(cut=False)

    def hold(self) -> None:
        """Let nothing pass, and lose nothing: what was sent meanwhile passes when the relay is healed."""
        self._turn(cut=False, held=frozenset({True, False}))

    def hold_one_way(self, to_target: bool) -> None:
        """Hold one direction as well as those that are held."""
        self._turn(cut=self._cut, held=self._held | {to_target})

    def cut(self) -> None:
        """Drop every connection and reject new ones."""
        self._turn(cut=True)

    def close(self) -> None:
        self._closed = True
        self.cut()
        drop(self._listener)

    def _turn(self, cut: bool, held: frozenset[bool] = frozenset()) -> None:
        with self._turned:
            self._cut, self._held = cut, held
            dropped = list(self._sockets) if cut else []
            if cut:
                self.connected.clear()
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
            if far is not None and not self._cut:
                self._join(near, far)
                return
        near.close()
        if far is not None:
            far.close()

    def _reach(self) -> socket.socket | None:
        if self._cut or not self._target_port:
            return None
        try:
            far = socket.create_connection((HOST, self._target_port), CONNECT_TIMEOUT_S)
        except OSError:
            return None
        far.settimeout(None)
        return far

    def _join(self, near: socket.socket, far: socket.socket) -> None:
        self._sockets |= {near, far}
        for end in (near, far):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for source, sink, to_target in ((near, far, True), (far, near, False)):
            threading.Thread(target=self._pump, args=(source, sink, to_target), daemon=True).start()
        self.connected.set()

    def _pump(self, source: socket.socket, sink: socket.socket, to_target: bool) -> None:
        try:
            while (chunk := source.recv(CHUNK_BYTES)) and self._passes(to_target, len(chunk)):
                sink.sendall(chunk)
        except OSError:
            pass
        drop(sink)
        with self._turned:
            self._sockets.discard(source)
        source.close()

    def _passes(self, to_target: bool, size: int) -> bool:
        """Wait while the direction is held; False if the relay was cut meanwhile."""
        with self._turned:
            while to_target in self._held:
                self._turned.wait()
            self._passed[to_target] += 0 if self._cut else size
            return not self._cut


def drop(end: socket.socket) -> None:
    """Shut a connection down while another thread waits on it: close alone would not wake that thread."""
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        end.close()
