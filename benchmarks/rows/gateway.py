"""Rows of the OCI gateway, ours only: messages put and read per second over HTTP, one connection, 100 at a time.

There is no other server of this API to compare with. The details have what the same region does with the same amounts
over its Redis port: XADD in a pipeline of 100, and XREADGROUP COUNT 100 with XACK.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.bench import Bench
from benchmarks.load.loads import Appends, drive
from benchmarks.report.figures import Result, Sample, summarize
from benchmarks.rows.bulk import sample
from benchmarks.servers import BenchmarkError, Region, Server
from crdtstream.processes.ports import free_port
from nemesis.gateway_client import GatewayClient

PAGE = 100
PARTITIONS = 4
VALUE = b"abcd__1234567890"
TIMEOUT_MS = 30_000


class Gateway:
    """A region with its gateway, and one client of it."""

    def __init__(self, bench: Bench) -> None:
        port = free_port()
        self.region: Region = bench.region(oci_port=port)
        self.client = GatewayClient(port)
        self.stream = self.client.create_stream("load", PARTITIONS)

    def put(self, count: int) -> int:
        for _ in range(count // PAGE):
            failed = [row for row in self.client.put(self.stream, [VALUE] * PAGE) if "error" in row]
            if failed:
                raise BenchmarkError(f"a message was not taken: {failed[0]}")
        return count

    def get(self, group: str, count: int) -> int:
        """Read everything as one instance, which commits with each call."""
        cursor, found = self.client.group_cursor(self.stream, group, "reader", TIMEOUT_MS), 0
        while found < count:
            answer = self.client.get(self.stream, cursor, PAGE)
            if not answer.next_cursor:
                raise BenchmarkError(f"a read failed: {answer.status} {answer.body}")
            found, cursor = found + len(answer.body), answer.next_cursor
        return found


def oci_put(bench: Bench, name: str) -> list[Result]:
    gateway, count = Gateway(bench), bench.scale.gateway_messages
    samples = measured(bench, gateway, lambda _: gateway.put(count))
    engine = drive(gateway.region, Appends([gateway.region.port], ["engine"], count, PAGE))
    title = "PutMessages, 100 messages of 16 bytes"
    return [Result(name, title, "messages/s", summarize(samples), details={"engine_xadd": engine.rate})]


def oci_get(bench: Bench, name: str) -> list[Result]:
    gateway, count = Gateway(bench), bench.scale.gateway_messages
    gateway.put(count)
    samples = measured(bench, gateway, lambda repetition: gateway.get(f"g{repetition}", count))
    drive(gateway.region, Appends([gateway.region.port], ["engine"], count, PAGE))
    engine = sample(gateway.region, lambda: read_group(gateway.region, count))
    title = "GetMessages of a group, limit 100, commit on get"
    return [Result(name, title, "messages/s", summarize(samples), details={"engine_xreadgroup": engine.rate})]


def measured(bench: Bench, gateway: Gateway, work: Callable[[int], int]) -> list[Sample]:
    def one(server: Server, repetition: int) -> Sample:
        return sample(server, lambda: work(repetition))

    [samples] = bench.samples((gateway.region,), one)
    gateway.client.close()
    return samples


def read_group(region: Region, count: int) -> int:
    region.create_group("engine", "g")
    found = 0
    with region.client() as client:
        while found < count:
            [[_, rows]] = client.xreadgroup("g", "c", {"engine": ">"}, PAGE)
            client.xack("engine", "g", *[row[0] for row in rows])
            found += len(rows)
    return found
