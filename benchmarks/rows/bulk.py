"""Rows of the bulk port, ours only: entries added and read per second by one call, in messages of about a mebibyte.

Redis has no such port. Its counterparts are a pipeline of XADD, and XRANGE in pages, which have rows of their own.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import grpc

from benchmarks.bench import Bench
from benchmarks.report.figures import AT_LEAST, Result, Sample, Target, summarize
from benchmarks.servers import BenchmarkError, Region, Server
from crdtstream.bulk import bulk_pb2 as bulk
from crdtstream.bulk.bulk_pb2_grpc import BulkStub

STREAM = b"stream"
VALUE_BYTES = 16
MESSAGE_ROWS = 16_384
TARGET = Target(AT_LEAST, 300_000)
TIMEOUT_S = 300.0


def bulk_write(bench: Bench, name: str) -> list[Result]:
    server = bench.region(bulk=True)
    message = rows_of(MESSAGE_ROWS)
    messages = max(1, bench.scale.bulk_entries // MESSAGE_ROWS)
    with stub_of(server) as stub:

        def write(measured: Server, _repetition: int) -> Sample:
            return sample(measured, lambda: stub.Write(iter([message] * messages), timeout=TIMEOUT_S).added)

        [samples] = bench.samples((server,), write)
    return [Result(name, "bulk write, rows of one 16-byte field", "rows/s", summarize(samples), target=TARGET)]


def bulk_read(bench: Bench, name: str) -> list[Result]:
    server = bench.region(bulk=True)
    messages = max(1, bench.scale.bulk_entries // MESSAGE_ROWS)
    with stub_of(server) as stub:
        written = stub.Write(iter([rows_of(MESSAGE_ROWS)] * messages), timeout=TIMEOUT_S)
        interval = bulk.Interval(stream=STREAM, origin=written.origin, through=written.last_seq)

        def read(measured: Server, _repetition: int) -> Sample:
            call = stub.Read(bulk.ReadRequest(intervals=[interval]), timeout=TIMEOUT_S)
            found = sample(measured, lambda: sum(message.count for message in call))
            if found.operations != written.added:
                raise BenchmarkError(f"{found.operations} of {written.added} entries were read")
            return found

        [samples] = bench.samples((server,), read)
    return [Result(name, "bulk read, entries of one 16-byte field", "rows/s", summarize(samples), target=TARGET)]


def rows_of(count: int) -> bulk.Rows:
    """Return rows of equal length with different values."""
    data = b"".join(b"*2\r\n$1\r\nf\r\n$%d\r\n%0*d\r\n" % (VALUE_BYTES, VALUE_BYTES, at) for at in range(count))
    size = len(data) // count
    ends = array("I", range(size, len(data) + 1, size)).tobytes()
    return bulk.Rows(streams=[STREAM], count=count, ends=ends, data=data)


@contextmanager
def stub_of(server: Region) -> Iterator[BulkStub]:
    options = [("grpc.max_receive_message_length", -1)]
    with grpc.insecure_channel(server.bulk_address, options=options) as channel:
        yield BulkStub(channel)


def sample(server: Server, work: Callable[[], int]) -> Sample:
    began_s, cpu_s, own_s = time.monotonic(), server.cpu_s(), time.process_time()
    count = work()
    return Sample(count, time.monotonic() - began_s, server.cpu_s() - cpu_s, time.process_time() - own_s)
