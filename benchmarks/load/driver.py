"""The load generator: a separate process that runs one prebuilt `Load` and counts replies without parsing them.

Protocol with the parent: the pickled load on stdin; `ready` on stdout when everything is built and connected; a line on
stdin to start; one line of JSON on stdout. Started by `benchmarks.load.loads`.
"""

from __future__ import annotations

import heapq
import json
import pickle
import random
import select
import socket
import sys
import time

from benchmarks.load.loads import Appends, Deliveries, Exchanges, Load
from benchmarks.load.wire import command

RECEIVE_BYTES = 1 << 18
SILENCE_S = 60.0
# *1 *2 $n key *1 *2 $n ID *2 $n field $n value
DELIVERY_LINES = 13
ID_LINE = 7

Step = tuple[bytes, int]


class Talker:
    """One connection: it sends a step, waits until its reply is complete, and sends the next."""

    def __init__(self, port: int, steps: list[Step]) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.steps = steps
        self.step = 0
        self.missing = 0
        self.begun = False

    @property
    def done(self) -> bool:
        return self.step == len(self.steps)

    def send(self) -> None:
        request, self.missing = self.steps[self.step]
        self.step += 1
        self.begun = False
        self.socket.sendall(request)

    def receive(self, by_lines: bool) -> bool:
        """Receive; return whether the reply to the step is complete. Only its first piece shows an error by its first
        byte.
        """
        data = self.socket.recv(RECEIVE_BYTES)
        if not data or (data.startswith(b"-") and not self.begun):
            raise ConnectionError(data.decode(errors="replace") or "the server closed the connection")
        self.begun = True
        self.received_piece(data)
        self.missing -= data.count(b"\n") if by_lines else len(data)
        if self.missing < 0:
            raise ConnectionError(f"an unexpected reply: {data[:200]!r}")
        return self.missing == 0

    def received_piece(self, data: bytes) -> None:
        """Look at a piece of a reply; what is only counted needs no look."""


class Consumer(Talker):
    """A consumer of a group: a request for the next entry brings the acknowledgement of the one before."""

    def __init__(self, load: Deliveries, number: int) -> None:
        super().__init__(load.port, [])
        self.load = load
        self.read = command(
            "XREADGROUP", "GROUP", load.group, f"consumer-{number}", "COUNT", 1, "STREAMS", load.key, ">"
        )
        self.received = b""

    @property
    def done(self) -> bool:
        return self.step > self.load.count

    def send(self) -> None:
        last = self.step == self.load.count
        self.steps = [(self.acknowledgement() + (b"" if last else self.read), self.lines_after(last))]
        request, self.missing = self.steps[0]
        self.step += 1
        self.begun = False
        self.received = b""
        self.socket.sendall(request)

    def lines_after(self, last: bool) -> int:
        return (1 if self.step else 0) + (0 if last else DELIVERY_LINES)

    def acknowledgement(self) -> bytes:
        if not self.step:
            return b""
        entry_id = self.received.split(b"\r\n")[ID_LINE - DELIVERY_LINES - 1]
        return command("XACK", self.load.key, self.load.group, entry_id)

    def received_piece(self, data: bytes) -> None:
        self.received += data


def run(talkers: list[Talker], by_lines: bool, interval_s: float) -> None:
    """Run all talkers at once; with an interval each starts its steps that far apart, or later if replies are late."""
    poll = select.epoll()
    by_file = {talker.socket.fileno(): talker for talker in talkers}
    for number in by_file:
        poll.register(number, select.EPOLLIN)
    began_s = time.monotonic()
    offset_s = {number: began_s + interval_s * i / len(talkers) for i, number in enumerate(by_file)}
    due = [(at_s, number) for number, at_s in offset_s.items()]
    busy = 0
    while due or busy:
        now_s = time.monotonic()
        while due and due[0][0] <= now_s:
            by_file[heapq.heappop(due)[1]].send()
            busy += 1
        found = poll.poll(max(0.0, due[0][0] - now_s) if due else SILENCE_S)
        if not found and not due:
            raise ConnectionError(f"no reply for {SILENCE_S:g} s")
        for number, _ in found:
            talker = by_file[number]
            if not talker.receive(by_lines):
                continue
            if talker.done:
                busy -= 1
            elif interval_s:
                heapq.heappush(due, (offset_s[number] + interval_s * talker.step, number))
                busy -= 1
            else:
                talker.send()


def append_steps(load: Appends, key: str, seed: int) -> list[Step]:
    generator = random.Random(seed)
    steps = []
    for begin in range(0, load.count, load.depth):
        count = min(load.depth, load.count - begin)
        entry_id = f"{load.first_ms + begin // load.depth}-*" if load.first_ms else "*"
        requests = [command("XADD", key, *load.options, entry_id, *fields(load.shape, generator)) for _ in range(count)]
        steps.append((b"".join(requests), 2 * count))
    return steps


def fields(shape: str, generator: random.Random) -> list[str]:
    """Draw fields whose values differ from entry to entry, so that repetition does not help compression."""
    if shape == "sensor":
        values = (generator.uniform(-10, 35), generator.uniform(20, 90), generator.uniform(980, 1040))
        named = [
            part
            for name, value in zip(("temperature", "humidity", "pressure"), values, strict=True)
            for part in (name, f"{value:.2f}")
        ]
        return [*named, "battery", str(generator.randrange(101))]
    value_bytes = {"16-byte": 16, "1-KiB": 1024}[shape]
    return ["f", generator.randbytes(value_bytes // 2).hex()]


def talkers_of(load: Load) -> list[Talker]:
    if isinstance(load, Exchanges):
        return [Talker(load.port, steps) for steps in load.scripts]
    if isinstance(load, Deliveries):
        return [Consumer(load, number) for number in range(load.consumers)]
    return [
        Talker(port, append_steps(load, key, seed))
        for seed, (port, key) in enumerate((port, key) for key in load.keys for port in load.ports)
    ]


def main() -> None:
    load: Load = pickle.load(sys.stdin.buffer)
    talkers = talkers_of(load)
    print("ready", flush=True)
    sys.stdin.buffer.readline()
    began_s, began_cpu_s = time.monotonic(), time.process_time()
    try:
        by_lines = load.by_lines if isinstance(load, Exchanges) else True
        run(talkers, by_lines, load.interval_s if isinstance(load, Appends) else 0.0)
        failure = ""
    except OSError as error:
        failure = str(error)
    seconds, cpu_s = time.monotonic() - began_s, time.process_time() - began_cpu_s
    print(json.dumps({"seconds": seconds, "cpu_s": cpu_s, "failure": failure}), flush=True)


if __name__ == "__main__":
    main()
