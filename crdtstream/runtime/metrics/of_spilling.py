"""The families of spilled blocks (connections/blocks/spilling.py): what is in memory, what is on disk alone, what was
read of it. All are 0 in a region that spills nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import Metric

from crdtstream.region.node import Node
from crdtstream.runtime.metrics.families import counter, counters, gauge, gauges


def spilling_families(node: Node) -> Iterator[Metric]:
    context = node.context
    walk, reads, block_reads = context.spilling.walk, context.replica.reads, context.block_reads
    yield gauge("hot_bytes", "Blocks of entries in memory, about.", walk.hot_bytes())
    yield gauge("hot_bytes_max", "hot_bytes_max; 0 to keep all in memory.", context.limits.hot_bytes_max)
    meaning = "Of these the last block of each stream and writer, and what no checkpoint has yet."
    yield gauge("hot_bytes_unspillable", meaning, walk.unspillable_bytes())
    meaning = "The parts of that, and what pending entries take besides."
    bound = walk.bound
    parts = [
        (("last-blocks",), float(bound.last)),
        (("unsaved",), float(walk.unsaved_bytes())),
        (("trimmed-blocks",), float(bound.trimmed)),
        (("pending",), float(bound.pending)),
    ]
    yield gauges("bound_bytes", meaning, ("part",), parts)
    yield gauge("spilled_blocks", "Blocks that are on disk alone, as counted now and then.", walk.spilled_blocks)
    yield gauge("spilled_bytes", "The bytes of these blocks on disk.", walk.spilled_bytes)
    yield counter("spills_total", "Blocks that left memory.", walk.spills)
    meaning = "Reads of such blocks: at once, on a thread while a request waited, or while the whole region waited."
    rows = [
        (("at-once",), float(reads.at_once)),
        (("thread",), float(block_reads.read_blocks)),
        (("waited",), float(reads.waited)),
    ]
    yield counters("cold_reads_total", meaning, ("kind",), rows)
    yield counter("cold_read_bytes_total", "What these reads returned.", block_reads.read_bytes + reads.read_bytes)
    files = Counter(place.partition(":")[0] for place in context.saving.unreadable)
    meaning = "Blocks that cannot be read now, and for which work without a client waits."
    held = [((file,), float(number)) for file, number in files.items()]
    # A rule asks for it, so there is a row where none is held up, too.
    yield gauges("blocks_unreadable", meaning, ("file",), held or [(("",), 0.0)])
    meaning = "Reads for work without a client that failed, so that it is tried again at each tick."
    deferred_work = (context.deferred_work, node.exchange.arrivals.deferred_work, node.exchange.audit.deferred_work)
    yield counter("cold_read_failures_total", meaning, sum([one.failures for one in deferred_work]))
