"""The load on a server under measurement, and the process that generates it: our driver, or redis-benchmark for XADD.

Both run outside this process, so that generating the load takes no time from a relay here, and a relay none from it.
"""

from __future__ import annotations

import csv
import io
import json
import os
import pickle
import resource
import shutil
import subprocess
import sys
from dataclasses import dataclass

from benchmarks.report.figures import Sample
from benchmarks.servers import ROOT, BenchmarkError, Server

CONNECTIONS = 50
RANDOM_VALUES = 2_000_000_000
LOAD_DEPTH = 128


@dataclass(frozen=True, slots=True)
class Appends:
    """`count` XADDs from one connection for each port and key, `depth` at a time; paced if there is an interval.
    `options` come before the ID. The millisecond of their IDs is that of the server's clock, or begins at `first_ms`
    and is another for each pipeline.
    """

    ports: list[int]
    keys: list[str]
    count: int
    depth: int = LOAD_DEPTH
    shape: str = "16-byte"
    interval_s: float = 0.0
    options: tuple[str, ...] = ()
    first_ms: int = 0

    @property
    def total(self) -> int:
        return self.count * len(self.ports) * len(self.keys)


@dataclass(frozen=True, slots=True)
class Exchanges:
    """For each connection its requests, one after the other, with the size of each reply in bytes, or in lines where
    numbers in it are not known in advance.
    """

    port: int
    scripts: list[list[tuple[bytes, int]]]
    operations: int
    by_lines: bool = False


@dataclass(frozen=True, slots=True)
class Deliveries:
    """Consumers of one group, each of which reads `count` entries of a stream, one at a time, and acknowledges each
    when it asks for the next.
    """

    port: int
    key: str
    group: str
    consumers: int
    count: int

    @property
    def total(self) -> int:
        return self.consumers * self.count


Load = Appends | Exchanges | Deliveries


class Driver:
    """A load that is built and connected and waits for `start`; a context manager."""

    def __init__(self, load: Load) -> None:
        self._operations = load.operations if isinstance(load, Exchanges) else load.total
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.load.driver"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self._process.stdin is not None
        pickle.dump(load, self._process.stdin)
        self._process.stdin.flush()
        self._line()

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.kill()
        self._process.communicate()

    def start(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"go\n")
        self._process.stdin.flush()

    def finish(self, cpu_s: float = 0.0) -> Sample:
        """Wait for the end. The sample lacks the server's CPU time, which the caller measures."""
        result = json.loads(self._line())
        if result["failure"]:
            raise BenchmarkError(f"the load failed: {result['failure']}")
        return Sample(self._operations, result["seconds"], cpu_s, result["cpu_s"])

    def _line(self) -> bytes:
        assert self._process.stdout is not None
        line: bytes = self._process.stdout.readline()
        if not line:
            _, errors = self._process.communicate()
            raise BenchmarkError(f"the load generator ended: {errors.decode(errors='replace')}")
        return line


def drive(server: Server, load: Load) -> Sample:
    with Driver(load) as driver:
        began_s = server.cpu_s()
        driver.start()
        sample = driver.finish()
        return Sample(sample.operations, sample.seconds, server.cpu_s() - began_s, sample.driver_cpu_s)


def append(server: Server, key: str, count: int, depth: int) -> Sample:
    """XADD of a 16-byte value from many connections, by redis-benchmark if it is installed."""
    program = shutil.which("redis-benchmark")
    if program is None:
        return drive(server, own_appends(server, key, count, depth))
    return benchmark(program, server, key, count, depth)


def own_appends(server: Server, key: str, count: int, depth: int) -> Appends:
    """The same load for our own driver."""
    return Appends([server.port] * CONNECTIONS, [key], max(1, count // CONNECTIONS), depth)


def benchmark(program: str, server: Server, key: str, count: int, depth: int) -> Sample:
    numbers = {"-p": server.port, "-n": count, "-c": CONNECTIONS, "-P": depth, "-r": RANDOM_VALUES}
    options = [text for name, number in numbers.items() for text in (name, str(number))]
    began_s, began_driver_s = server.cpu_s(), children_cpu_s()
    done = subprocess.run(
        [program, *options, "--csv", "XADD", key, "*", "f", "abcd__rand_int__"], capture_output=True, check=False
    )
    cpu_s, driver_cpu_s = server.cpu_s() - began_s, children_cpu_s() - began_driver_s
    server.check_alive()
    added = server.ask("XLEN", key)
    if done.returncode or not isinstance(added, int) or added < count:
        raise BenchmarkError(f"redis-benchmark added {added!r} of {count} entries: {done.stderr.decode()}")
    return Sample(added, added / csv_rate(done.stdout.decode()), cpu_s, driver_cpu_s)


def csv_rate(text: str) -> float:
    """Return requests per second; the first CSV row has the titles."""
    titles, figures = list(csv.reader(io.StringIO(text)))[-2:]
    return float(figures[titles.index("rps")])


def children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def generator_name() -> str:
    program = shutil.which("redis-benchmark")
    if program is None:
        return "own driver"
    text = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    return text.split(" (")[0].strip() or os.path.basename(program)
