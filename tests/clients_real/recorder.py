"""A door in front of a region's Redis port that writes down which commands a client sends.

It passes the bytes unchanged and reads the requests beside. A command that the server does not know is told by its name
in `unknown`: what a library needs and does not get. When the region is down, a connection is closed as soon as it is
made.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

from crdtstream.commands.table import TABLE
from crdtstream.processes.ports import HOST
from crdtstream.protocols.requests import RequestParser

CHUNK_BYTES = 1 << 16
CONTAINERS = frozenset({b"FUNCTION", b"PUBSUB", b"SCRIPT"})


class Recorder:
    """Listens on `port`, on the way to the target; a context manager."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._listener = socket.create_server((HOST, 0))
        self._sockets: list[socket.socket] = []
        self.port: int = self._listener.getsockname()[1]
        self.known: set[str] = set()
        self.unknown: set[str] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for one in (self._listener, *self._sockets):
            end(one)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                self._serve(self._listener.accept()[0])

    def _serve(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection((HOST, self._target_port))
        except OSError:
            client.close()
            return
        self._sockets += [client, server]
        threading.Thread(target=self._pass, args=(client, server, RequestParser()), daemon=True).start()
        threading.Thread(target=self._pass, args=(server, client, None), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, parser: RequestParser | None) -> None:
        with suppress(OSError):
            while chunk := source.recv(CHUNK_BYTES):
                for argv in parser.feed(chunk) if parser else ():
                    self._note(argv)
                target.sendall(chunk)
        end(source)
        end(target)

    def _note(self, argv: list[bytes]) -> None:
        name = argv[0].upper()
        command = TABLE.get(name)
        if command is not None and (command.subcommands is None or argv[1:2] == []):
            self.known.add(command.name)
        elif command is not None and command.subcommands and argv[1].upper() in command.subcommands:
            self.known.add(command.subcommands[argv[1].upper()].name)
        else:
            words = argv[:2] if command is not None or name in CONTAINERS else argv[:1]
            self.unknown.add(b" ".join(words).upper().decode())


def end(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
