"""The regions of an audit, each asked separately: what it has applied, its streams, and what its groups have
acknowledged.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from crdtstream.spark.offsets import OffsetPosition, merged, origin_text, stream_bytes, stream_text
from crdtstream.spark.options import Options
from crdtstream.spark.sharded import ShardedClient, client_of

POLL_S = 0.1

# (stream, group, origin)
GroupFrontier = tuple[str, str, int]


class AuditError(RuntimeError):
    """The audit cannot compare; the text says what to do."""


class AuditedRegions:
    """One client for each endpoint: an audit needs the answer of every region, while a read accepts any region's."""

    def __init__(self, options: Mapping[str, str]) -> None:
        parsed = Options(options)
        parsed.check_reader(False)
        self.endpoints: tuple[str, ...] = parsed["endpoints"]
        if len(self.endpoints) < 2:
            raise AuditError(f"endpoints names one region, {self.endpoints[0]}: name the bulk ports of two or more")
        self._streams: tuple[str, ...] = parsed["streams"] or ()
        self._pattern: str = parsed["streamsPattern"] or ""
        self._clients = [client_of(Options({**options, "endpoints": endpoint})) for endpoint in self.endpoints]
        # Those of each shard, at the cut.
        self._origins: list[set[int]] = []
        self._require_alike()
        self.applied()
        self.names = [client.name for client in self._clients]

    def _require_alike(self) -> None:
        counts = [len(client.shards) for client in self._clients]
        if len(set(counts)) > 1:
            raise AuditError(
                f"the regions have {', '.join(map(str, counts))} shards, so they are not of one cluster: name those of"
                " one"
            )

    def applied(self) -> list[OffsetPosition]:
        """Return what each region has applied now."""
        return [client.ask_applied() for client in self._clients]

    def cut(self) -> OffsetPosition:
        """Return a vector that all regions have passed."""
        vectors = self.applied()
        self._origins = [set(client.applied()) for client in self._clients[0].shards]
        shared = set(vectors[0]).intersection(*vectors[1:])
        return {origin: min(vector[origin] for vector in vectors) for origin in sorted(shared)}

    def part_of(self, cut: OffsetPosition, stream: str) -> OffsetPosition:
        """The part of a cut that is about this stream: origins of other shards have none of its entries."""
        origins = self._origins[self._clients[0].shard_of(stream_bytes(stream))]
        return {origin: seq for origin, seq in cut.items() if origin in origins}

    def await_each_other(self, timeout_s: float) -> None:
        """Wait until each region has applied everything that the others had applied at the time of this call."""
        target: OffsetPosition = {}
        for vector in self.applied():
            target = merged({"": target}, {"": vector})[""]
        deadline_s = time.monotonic() + timeout_s
        while behind := self._behind(target):
            if time.monotonic() > deadline_s:
                raise AuditError(
                    f"the regions have not applied each other's effects within {timeout_s:g} s: {', '.join(behind)}."
                    " See crdtstream admin regions for links that are down, or wait longer with --settle-s"
                )
            time.sleep(POLL_S)

    def _behind(self, target: OffsetPosition) -> list[str]:
        found = []
        for name, applied in zip(self.names, self.applied(), strict=True):
            missing = [origin for origin, seq in target.items() if applied.get(origin, 0) < seq]
            if missing:
                origin = missing[0]
                found.append(f"{name} is at {applied.get(origin, 0)} of {target[origin]} of {origin_text(origin)}")
        return found

    def streams(self) -> list[str]:
        """Return the names of the selected streams that any region has, sorted."""
        found: set[str] = set()
        for client in self._clients:
            for heads in client.heads(self._streams, self._pattern):
                found.update(stream_text(head.stream) for head in heads if head.origins)
        return sorted(found)

    def frontiers(self, cut: OffsetPosition) -> list[dict[GroupFrontier, int]]:
        """Return for each region what its groups have acknowledged of each origin, limited to the cut."""
        return [self._frontiers(client, cut) for client in self._clients]

    def _frontiers(self, client: ShardedClient, cut: OffsetPosition) -> dict[GroupFrontier, int]:
        found: dict[GroupFrontier, int] = {}
        for row in client.frontiers(self._streams, self._pattern):
            stream, group = stream_text(row.stream), stream_text(row.group)
            found[stream, group, 0] = 0
            for each in row.acknowledged:
                if each.origin in cut:
                    found[stream, group, each.origin] = min(each.seq, cut[each.origin])
        return found
