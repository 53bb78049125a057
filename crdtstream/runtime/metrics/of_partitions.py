"""The families of partitioned streams: sums over all of them, because their number is not bounded."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from crdtstream.partitions.streams import PartitionedStreams
from crdtstream.runtime.metrics.families import counter, gauge


def partition_families(streams: PartitionedStreams, region: int) -> Iterator[Metric]:
    """Groups and instances are known to the home of their stream alone."""
    homes = [row for row in streams.rows() if row.region == region]
    memberships = [one for row in homes for one in streams.memberships(row.stream).values()]
    instances = sum(len(one.ownership.instances) for one in memberships)
    yield gauge("partitioned_streams", "Partitioned streams of the cluster.", len(streams.ids()))
    yield gauge("partitioned_streams_homed", "Those that have their home here.", len(homes))
    yield gauge("partition_groups", "Groups in use of streams that have their home here.", len(memberships))
    yield gauge("partition_instances", "Live instances of these groups.", instances)
    meaning = "Messages that this process has numbered again, after another home had numbered them."
    yield counter("partition_messages_renumbered", meaning, streams.renumbered)
