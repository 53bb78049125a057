"""The client of a cluster whose regions have several shards: a `BulkClient` for each shard, over all regions.

Shard *k* of one region replicates with shard *k* of the others alone, so these behave as the regions of a cluster of
one shard, and everything that is said of a stream goes to the client of its shard. Where there is one shard, the one
client does everything.

How many shards there are never changes; where they are is asked again whenever one does not answer (regions.py).
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from crdtstream.bulk import bulk_pb2
from crdtstream.protocols.hash_slots import shard_of
from crdtstream.spark.access import Access
from crdtstream.spark.client import Advanced, BulkClient, BulkMessage
from crdtstream.spark.offsets import OffsetPosition, Positions, stream_bytes
from crdtstream.spark.options import Options
from crdtstream.spark.regions import BulkError, Region, ShardPlaces

# What makes a client, but for access.
NAMES: Final = (
    "endpoints",
    "region",
    "database",
    "requestTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)


class ShardedClient:
    """The client of readers, writers and jobs; not for several threads at once."""

    def __init__(self, options: Options) -> None:
        self._access = Access(options)
        self._options = options
        self._shards: list[BulkClient] = []

    def _made(self, regions: Sequence[Region]) -> BulkClient:
        _, preferred, database, timeout_ms, retries, interval_ms = [self._options[name] for name in NAMES]
        return BulkClient(regions, preferred or "", database, timeout_ms, retries, interval_ms, self._access)

    @property
    def shards(self) -> list[BulkClient]:
        """The clients, by the number of the shard; the regions are asked how many there are, once."""
        if not self._shards:
            self._shards = self._found()
        return self._shards

    def _found(self) -> list[BulkClient]:
        places = [ShardPlaces(endpoint) for endpoint in self._options["endpoints"]]
        first = self._made([Region(self._access, each) for each in places])
        live = first.repeat(first.live)
        counts = {region.shards for region in live}
        if len(counts) > 1:
            shown = ", ".join(f"{region.label} has {region.shards}" for region in live)
            raise BulkError(f"the regions have different numbers of shards, so they are not of one cluster: {shown}")
        (count,) = counts
        if count == 1:
            return [first]
        first.close()
        return [self._made([Region(self._access, each, shard, count) for each in places]) for shard in range(count)]

    def shard_of(self, stream: bytes) -> int:
        return shard_of(stream, len(self.shards))

    def of(self, stream: bytes) -> BulkClient:
        return self.shards[self.shard_of(stream)]

    def _split(self, positions: Positions) -> dict[int, Positions]:
        """Positions by shard."""
        found: dict[int, Positions] = defaultdict(dict)
        for stream, position in positions.items():
            found[self.shard_of(stream_bytes(stream))][stream] = position
        return found

    # What the regions have

    @property
    def name(self) -> str:
        """The name of the region that answered first."""
        return next((f"{region.name or region.number}" for region in self.shards[0].regions if region.number), "")

    def ask_applied(self) -> OffsetPosition:
        """What the regions have applied now."""
        for client in self.shards:
            client.repeat(client.live)
        return self.applied()

    def applied(self) -> OffsetPosition:
        """What the regions that answered last have applied; an origin is one of one shard."""
        return {origin: seq for client in self.shards for origin, seq in client.applied().items()}

    def unknown(self, positions: Positions) -> list[int]:
        """Return the origins of these positions that no region has heard of in the shard of their stream."""
        found: set[int] = set()
        for shard, part in self._split(positions).items():
            origins = {origin for position in part.values() for origin in position}
            found.update(self.shards[shard].unknown(origins))
        return sorted(found)

    def heads(
        self,
        streams: Iterable[str] = (),
        pattern: str = "",
        positions: Positions | None = None,
        before_ms: int | None = None,
        deleted: bool = False,
    ) -> list[list[bulk_pb2.StreamHead]]:
        """Return the heads of these streams, or of all that match, from each region and shard that answers."""
        named, by_shard = self._named(streams), self._split(positions or {})
        found: list[list[bulk_pb2.StreamHead]] = []
        for shard, client in enumerate(self.shards):
            if not named or shard in named:
                found += client.heads(named.get(shard, ()), pattern, by_shard.get(shard), before_ms, deleted)
        return found

    def _named(self, streams: Iterable[str]) -> dict[int, list[str]]:
        found: dict[int, list[str]] = defaultdict(list)
        for stream in streams:
            found[self.shard_of(stream_bytes(stream))].append(stream)
        return found

    def frontiers(self, streams: Iterable[str], pattern: str) -> list[bulk_pb2.GroupFrontier]:
        """What the groups of these streams, or of all that match, have acknowledged, as far as one region knows."""
        named = self._named(streams)
        found: list[bulk_pb2.GroupFrontier] = []
        for shard, client in enumerate(self.shards):
            if not named or shard in named:
                found += client.frontiers(named.get(shard, ()), pattern)
        return found

    # Reading

    def by_shard(self, intervals: Iterable[bulk_pb2.Interval]) -> list[bulk_pb2.Interval]:
        """The same intervals, those of one shard after the other, so that each is read in one call."""
        return sorted(intervals, key=lambda each: self.shard_of(each.stream))

    def split(self, intervals: Sequence[bulk_pb2.Interval], entries: int, pieces: int = 0) -> list[bulk_pb2.SplitReply]:
        """Split each interval."""
        places: dict[int, list[int]] = defaultdict(list)
        for place, interval in enumerate(intervals):
            places[self.shard_of(interval.stream)].append(place)
        found: dict[int, bulk_pb2.SplitReply] = {}
        for shard, chosen in places.items():
            replies = self.shards[shard].split([intervals[place] for place in chosen], entries, pieces)
            found.update(zip(chosen, replies, strict=True))
        return [found[place] for place in range(len(intervals))]

    def read(self, intervals: Sequence[bulk_pb2.Interval]) -> Iterator[BulkMessage]:
        """Yield region, interval and entries, in the order of the intervals."""
        for shard, part in groupby(intervals, key=lambda each: self.shard_of(each.stream)):
            yield from self.shards[shard].read(list(part))

    def advance(self, group: str, positions: Positions) -> Advanced:
        """Advance the group in each stream."""
        done = Advanced()
        for shard, part in sorted(self._split(positions).items()):
            done.join(self.shards[shard].advance(group, part))
        return done

    # Writing: each shard keeps the ledger of its rows

    def publish(self, application: str, batch: int, stages: Sequence[Sequence[str]], skip_published: bool) -> bool:
        """Publish the stages of each shard, by its number, and the batch in all of them: one that is repeated with
        other rows is refused, also if they are rows of other shards. Return whether all of them had it already.
        """
        replies = [
            client.publish(application, batch, part, skip_published)
            for client, part in zip(self.shards, stages, strict=True)
        ]
        return all(reply.repeated for reply in replies)

    def discard(self, application: str, batch: int) -> None:
        for client in self.shards:
            client.discard(application, batch)

    def forget(self, application: str, batch: int) -> None:
        """Drop the ledgers of an application whose last batch is published and is never published again."""
        for client in self.shards:
            client.forget(application, batch)


_clients: dict[tuple[object, ...], ShardedClient] = {}


def client_of(options: Options) -> ShardedClient:
    """Return the client of this process for these options: what it knows of regions that are down serves the next task
    too.
    """
    access = Access(options)
    key = (os.getpid(), *[options[name] for name in NAMES], *access.key)
    if key not in _clients:
        _clients[key] = ShardedClient(options)
    return _clients[key]
