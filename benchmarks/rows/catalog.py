"""All rows by name, in the order of the table."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from importlib.util import find_spec

from benchmarks.bench import Bench
from benchmarks.report.figures import Result
from benchmarks.rows.appends import xadd, xadd_large, xadd_retained, xadd_trimmed, xadd_with_peers
from benchmarks.rows.blocked import blocked
from benchmarks.rows.bulk import bulk_read, bulk_write
from benchmarks.rows.checkpoints import planned_restart, restart, restarts, stall
from benchmarks.rows.curves import depths, entries
from benchmarks.rows.gateway import oci_get, oci_put
from benchmarks.rows.latency import xadd_latency
from benchmarks.rows.loop_stalls import digest, pipelines, scan
from benchmarks.rows.memory import memory, replayed, small_stream
from benchmarks.rows.property_bytes import property_bytes
from benchmarks.rows.reads import xrange, xrange_cold, xreadgroup
from benchmarks.rows.recovery import recover
from benchmarks.rows.redis8_commands import claim, idmp, xackdel, xdelex
from benchmarks.rows.replication import catch_up, lag, throughput
from benchmarks.rows.shards import sharded
from benchmarks.rows.spark import batch_read, batch_write, many_streams, micro_batches
from benchmarks.rows.spilling import cold_ranges, cold_scan, spilling_consumers, spilling_tails, spilling_xadd
from benchmarks.rows.xread_tails import consumers, tails
from benchmarks.servers import ALWAYS, NO


@dataclass(frozen=True, slots=True)
class Row:
    """Measures one thing with its own servers and produces one or more lines of the table. `needs` is the package of an
    extra: without it the row is measured only if its name was requested, and then says what to install. A row that is
    `whole` takes no samples that could be repeated, and is short, so it is measured repeatedly as a whole. A row that
    is `counted` runs its load by `rounds`, so that its instructions can be counted. Those of XADD with peers would not
    be steady: in how many messages the entries are sent depends on timing.
    """

    name: str
    measure: Callable[[Bench, str], list[Result]]
    needs: str = ""
    counted: bool = False
    whole: bool = False

    def is_meant(self, pattern: str) -> bool:
        asked = fnmatchcase(self.name, pattern)
        return asked and (pattern != "*" or not self.needs or find_spec(self.needs) is not None)


ROWS = (
    Row("xadd-1", partial(xadd, depth=1), counted=True),
    Row("xadd-16", partial(xadd, depth=16), counted=True),
    Row("xadd-128", partial(xadd, depth=128), counted=True),
    Row("xadd-1-nosync", partial(xadd, depth=1, fsync=NO), counted=True),
    Row("xadd-16-nosync", partial(xadd, depth=16, fsync=NO), counted=True),
    Row("xadd-128-nosync", partial(xadd, depth=128, fsync=NO), counted=True),
    Row("xadd-16-peers", partial(xadd_with_peers, depth=16)),
    Row("xadd-128-peers", partial(xadd_with_peers, depth=128)),
    Row("xadd-16-always", partial(xadd, depth=16, fsync=ALWAYS)),
    Row("xadd-16-1-KiB", partial(xadd_large, depth=16)),
    Row("xadd-16-maxlen", partial(xadd_trimmed, depth=16)),
    Row("xadd-16-retained-length", partial(xadd_retained, depth=16, limits="MAXLEN 100000")),
    Row("xadd-16-retained-bytes", partial(xadd_retained, depth=16, limits="MAXBYTES 10000000")),
    Row("xadd-p99", xadd_latency, whole=True),
    Row("xrange", partial(xrange, regions=1), counted=True),
    Row("xrange-cold", partial(xrange_cold, regions=1)),
    Row("xrange-3", partial(xrange, regions=3), counted=True),
    Row("xrange-3-cold", partial(xrange_cold, regions=3)),
    Row("xreadgroup", partial(xreadgroup, regions=1), counted=True),
    Row("xreadgroup-3", partial(xreadgroup, regions=3), counted=True),
    Row("xreadgroup-each", consumers, counted=True),
    Row("xreadgroup-each-exact", partial(consumers, properties="ACKNOWLEDGE EXACT"), counted=True),
    Row("xreadgroup-each-owner", partial(consumers, properties="DELIVER OWNER 1"), counted=True),
    Row("xread-tails", tails),
    Row("xdelex", xdelex, counted=True),
    Row("xackdel", xackdel, counted=True),
    Row("xreadgroup-claim", claim, counted=True),
    Row("xadd-idmp", idmp, counted=True),
    Row("spilling-xadd-16", partial(spilling_xadd, depth=16)),
    Row("spilling-xadd-128", partial(spilling_xadd, depth=128)),
    Row("spilling-tails", spilling_tails),
    Row("spilling-xreadgroup-each", spilling_consumers),
    Row("cold-xrange-random", cold_ranges),
    Row("cold-scan", cold_scan),
    Row("shards-1", partial(sharded, shards=1)),
    Row("shards-2", partial(sharded, shards=2)),
    Row("shards-4", partial(sharded, shards=4)),
    Row("blocked", blocked),
    Row("bulk-write", bulk_write),
    Row("bulk-read", bulk_read),
    Row("oci-put", oci_put, needs="fastapi"),
    Row("oci-get", oci_get, needs="fastapi"),
    Row("memory-16-byte", partial(memory, shape="16-byte"), whole=True),
    Row("memory-sensor", partial(memory, shape="sensor"), whole=True),
    Row("memory-1-KiB", partial(memory, shape="1-KiB"), whole=True),
    Row("memory-stream", small_stream, whole=True),
    Row("replication", throughput),
    Row("wire", property_bytes, whole=True),
    Row("lag", lag, whole=True),
    Row("catch-up", catch_up, whole=True),
    Row("restart", restart),
    Row("start-log", partial(recover, saved=False)),
    Row("start-checkpoint", partial(recover, saved=True)),
    Row("stall", stall, whole=True),
    Row("planned-restart", planned_restart, whole=True),
    Row("scan", scan),
    Row("pipelines", pipelines),
    Row("digest", digest),
    Row("replay-memory", replayed),
    Row("restarts", restarts),
    Row("depths", depths),
    Row("entries", entries),
    Row("spark-read", batch_read, "pyspark"),
    Row("spark-write", batch_write, "pyspark"),
    Row("spark-batch", micro_batches, "pyspark"),
    Row("spark-streams", many_streams, "pyspark"),
)


def matching(pattern: str) -> list[Row]:
    """Return the rows whose name matches one of the comma-separated shell patterns."""
    patterns = [one for one in re.split(r"[,\s]+", pattern) if one]
    return [row for row in ROWS if any(row.is_meant(one) for one in patterns)]
