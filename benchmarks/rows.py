"""All rows by name, in the order of the table."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial

from benchmarks.appends import xadd, xadd_with_peers
from benchmarks.bench import Bench
from benchmarks.checkpoints import restart, stall
from benchmarks.figures import Result
from benchmarks.memory import memory
from benchmarks.reads import xrange, xreadgroup
from benchmarks.replication import catch_up, lag, throughput
from benchmarks.servers import NO


@dataclass(frozen=True, slots=True)
class Row:
    """Measures one thing with servers of its own; makes one or more lines of the table."""

    name: str
    measure: Callable[[Bench, str], list[Result]]


ROWS = (
    Row("xadd-1", partial(xadd, depth=1)),
    Row("xadd-16", partial(xadd, depth=16)),
    Row("xadd-128", partial(xadd, depth=128)),
    Row("xadd-1-nosync", partial(xadd, depth=1, fsync=NO)),
    Row("xadd-16-nosync", partial(xadd, depth=16, fsync=NO)),
    Row("xadd-128-nosync", partial(xadd, depth=128, fsync=NO)),
    Row("xadd-16-peers", partial(xadd_with_peers, depth=16)),
    Row("xadd-128-peers", partial(xadd_with_peers, depth=128)),
    Row("xrange", partial(xrange, regions=1)),
    Row("xrange-3", partial(xrange, regions=3)),
    Row("xreadgroup", partial(xreadgroup, regions=1)),
    Row("xreadgroup-3", partial(xreadgroup, regions=3)),
    Row("memory-16-byte", partial(memory, shape="16-byte")),
    Row("memory-sensor", partial(memory, shape="sensor")),
    Row("memory-1-KiB", partial(memory, shape="1-KiB")),
    Row("replication", throughput),
    Row("lag", lag),
    Row("catch-up", catch_up),
    Row("restart", restart),
    Row("stall", stall),
)


def matching(pattern: str) -> list[Row]:
    """Rows whose name matches one of the comma-separated shell patterns."""
    patterns = [one for one in re.split(r"[,\s]+", pattern) if one]
    return [row for row in ROWS if any(fnmatchcase(row.name, one) for one in patterns)]
