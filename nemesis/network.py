"""Network namespaces, one for each region, and a switch in user space between them.

Every namespace has one interface, a TUN device whose packets the `Switch` reads and writes. So a direction can be cut
(packets vanish silently, as on a real network), slowed down or made lossy, on any Linux that has TUN and without
firewall rules. Nothing outside can reach a namespace: clients create their sockets `inside` it.

A namespace is named after the process that created it; the next run removes what a killed process left behind.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import itertools
import os
import random
import re
import selectors
import signal
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

PREFIX = "crdtstream-nemesis"
ADDRESS = "10.231.0.{}"
INTERFACE = "wire0"
PACKET_BYTES_MAX = 1 << 16
READS_MAX = 64
QUEUE_S = 1.0

TUN = "/dev/net/tun"
TUNSETIFF = 0x400454CA
IFF_TUN_NO_PI = 0x1001
CLONE_NEWNET = 0x40000000

_libc = ctypes.CDLL(None, use_errno=True)


class NetworkError(Exception):
    """Namespaces cannot be created here; the text says why."""


def run(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NetworkError(f"{' '.join(argv)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def reason_for_none() -> str:
    """Return why namespaces cannot be created here; empty if they can."""
    try:
        with Namespace("probe", 1):
            return ""
    except (NetworkError, OSError) as error:
        return str(error)


@contextmanager
def entered(name: str) -> Iterator[None]:
    """Move the calling thread into that namespace; a socket created there stays there."""
    with open("/proc/thread-self/ns/net", "rb") as outside, open(f"/run/netns/{name}", "rb") as within:
        try:
            _enter(within.fileno())
            yield
        finally:
            _enter(outside.fileno())


def _enter(descriptor: int) -> None:
    if _libc.setns(descriptor, CLONE_NEWNET):
        error = ctypes.get_errno()
        raise NetworkError(f"cannot enter a network namespace: {os.strerror(error)}")


class Namespace:
    """The namespace of one region, a context manager; `descriptor` is the other end of its only interface."""

    def __init__(self, label: str, number: int) -> None:
        self.name = f"{PREFIX}-{os.getpid()}-{label}"
        self.address = ADDRESS.format(number)
        self.descriptor = -1
        run("ip", "netns", "add", self.name)
        try:
            self._build()
        except BaseException:
            self.close()
            raise

    def _build(self) -> None:
        run("ip", "-n", self.name, "link", "set", "lo", "up")
        with entered(self.name):
            self.descriptor = os.open(TUN, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            fcntl.ioctl(self.descriptor, TUNSETIFF, struct.pack("16sH22x", INTERFACE.encode(), IFF_TUN_NO_PI))
        run("ip", "-n", self.name, "address", "add", f"{self.address}/24", "dev", INTERFACE)
        run("ip", "-n", self.name, "link", "set", INTERFACE, "up")

    def __enter__(self) -> Namespace:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
        remove(self.name)


def remove(name: str) -> None:
    """Delete a namespace and kill what still runs in it: an interrupted run may not know all processes that
    it started.
    """
    with suppress(NetworkError):  # another process may remove it at the same time
        for process_id in {int(word) for word in run("ip", "netns", "pids", name).split()} - {os.getpid()}:
            with suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGKILL)
        run("ip", "netns", "delete", name)


def remove_leftovers() -> None:
    """Remove the namespaces of dead processes, and what runs in them."""
    for line in run("ip", "netns", "list").splitlines():
        name = line.split()[0]
        found = re.fullmatch(rf"{PREFIX}-(\d+)-\w+", name)
        if found and not Path(f"/proc/{found[1]}").exists():
            remove(name)


class Direction:
    """What happens to packets from one region to another. With a `bytes_s` they pass one after another, at this rate;
    those that would wait longer than `QUEUE_S` are dropped.
    """

    __slots__ = ("bytes_s", "cut", "delay_s", "free_s", "loss")

    def __init__(self) -> None:
        self.heal()

    def heal(self) -> None:
        self.cut = False
        self.delay_s = 0.0
        self.loss = 0.0
        self.bytes_s = 0.0
        # When the packets that wait have passed.
        self.free_s = 0.0

    def passes_s(self, byte_count: int, now_s: float) -> float | None:
        """When a packet that comes now has passed; None if it is dropped."""
        if not self.bytes_s:
            return now_s + self.delay_s
        begins_s = max(now_s, self.free_s)
        if begins_s - now_s > QUEUE_S:
            return None
        self.free_s = begins_s + byte_count / self.bytes_s
        return self.free_s + self.delay_s


class Switch(threading.Thread):
    """Carries packets between namespaces, subject to the faults of each direction."""

    def __init__(self, namespaces: dict[int, Namespace], seed: int) -> None:
        super().__init__(name="switch", daemon=True)
        self.directions = {pair: Direction() for pair in itertools.permutations(namespaces, 2)}
        self._ends = {number: namespace.descriptor for number, namespace in namespaces.items()}
        self._random = random.Random(seed)
        self._late: list[tuple[float, int, int, bytes]] = []
        self._number = itertools.count()
        self._wake = os.eventfd(0)
        self._ended = False

    def heal(self) -> None:
        for direction in self.directions.values():
            direction.heal()

    def close(self) -> None:
        self._ended = True
        os.eventfd_write(self._wake, 1)
        self.join()
        os.close(self._wake)

    def run(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake, selectors.EVENT_READ, 0)
            for number, descriptor in self._ends.items():
                selector.register(descriptor, selectors.EVENT_READ, number)
            while not self._ended:
                for key, _ in selector.select(self._wait_s()):
                    if key.data:
                        self._drain(key.fd, key.data)
                self._deliver_late()

    def _wait_s(self) -> float | None:
        return max(0.0, self._late[0][0] - time.monotonic()) if self._late else None

    def _drain(self, descriptor: int, source: int) -> None:
        for _ in range(READS_MAX):
            try:
                packet = os.read(descriptor, PACKET_BYTES_MAX)
            except BlockingIOError:
                return
            if packet[0] >> 4 == 4:
                self._carry(source, packet[19], packet)

    def _carry(self, source: int, sink: int, packet: bytes) -> None:
        direction = self.directions.get((source, sink))
        if direction is None or direction.cut or (direction.loss and self._random.random() < direction.loss):
            return
        now_s = time.monotonic()
        at_s = direction.passes_s(len(packet), now_s)
        if at_s == now_s:
            self._deliver(sink, packet)
        elif at_s is not None:
            heapq.heappush(self._late, (at_s, next(self._number), sink, packet))

    def _deliver(self, sink: int, packet: bytes) -> None:
        with suppress(OSError):  # the queue is full: the packet is lost, as on a real network
            os.write(self._ends[sink], packet)

    def _deliver_late(self) -> None:
        now_s = time.monotonic()
        while self._late and self._late[0][0] <= now_s:
            _, _, sink, packet = heapq.heappop(self._late)
            self._deliver(sink, packet)


class Network:
    """A namespace for each region number, and the switch; `close` removes everything."""

    def __init__(self, labels: dict[int, str], seed: int = 0) -> None:
        self._owned = ExitStack()
        self.namespaces: dict[int, Namespace] = {}
        try:
            remove_leftovers()
            for number, label in labels.items():
                self.namespaces[number] = self._owned.enter_context(Namespace(label, number))
            self._switch = Switch(self.namespaces, seed)
            self._switch.start()
            self._owned.callback(self._switch.close)
        except BaseException:
            self.close()
            raise

    def cut(self, one: int, other: int) -> None:
        self.cut_one_way(one, other)
        self.cut_one_way(other, one)

    def cut_one_way(self, source: int, sink: int) -> None:
        self._switch.directions[source, sink].cut = True

    def slow(self, source: int, sink: int, delay_s: float) -> None:
        self._switch.directions[source, sink].delay_s = delay_s

    def narrow(self, source: int, sink: int, bytes_s: float) -> None:
        self._switch.directions[source, sink].bytes_s = bytes_s

    def lose(self, source: int, sink: int, share: float) -> None:
        self._switch.directions[source, sink].loss = share

    def heal(self) -> None:
        self._switch.heal()

    def close(self) -> None:
        self._owned.close()
