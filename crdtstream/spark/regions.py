"""What a client knows about each region: whether it answers, and what it has applied.

A region that does not answer is *down*, with a reason, until it answers a probe. `applied` is a version vector.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

import grpc

from crdtstream.bulk import bulk_pb2, bulk_pb2_grpc
from crdtstream.spark.access import Access
from crdtstream.spark.offsets import OffsetPosition

# Another region, or the same one later, may answer; any other code is reported to the user.
ELSEWHERE: Final = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNKNOWN,
    }
)
# The region answered, so it is not down.
ANSWERED: Final = frozenset({grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.RESOURCE_EXHAUSTED})

log = logging.getLogger(__name__)


class BulkError(RuntimeError):
    """No region performed the call; the text says why."""


class Stranded(BulkError):
    """A `BulkError` after which a retry may succeed."""


class ShardPlaces:
    """Where the bulk ports of the shards of a region are: as one of them said last, or else beside that of shard 0."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self._addresses: list[str] = []
        self._asked = 0

    def address_of(self, shard: int) -> str:
        if shard < len(self._addresses):
            return self._addresses[shard]
        host, _, port = self.endpoint.rpartition(":")
        return f"{host}:{int(port) + shard}" if shard else self.endpoint

    def learn(self, shards: Sequence[str], asked: str) -> None:
        """What the shard at the address `asked` said; one without a host is on the machine of that shard."""
        host = asked.rpartition(":")[0]
        self._addresses = [f"{host}{each}" if each.startswith(":") else each for each in shards]

    def other(self, address: str) -> str:
        """Where to ask what became of the shard at this address: another one each time."""
        others = [each for each in dict.fromkeys([*self._addresses, self.endpoint]) if each != address]
        self._asked += 1
        return others[self._asked % len(others)] if others else address


class Region:
    """The bulk port of a region, or of one of its shards, and what is known about what is behind it."""

    def __init__(self, access: Access, places: ShardPlaces, shard: int = 0, shards: int = 1) -> None:
        self._access = access
        self._places = places
        self.shard = shard
        # How many the region has.
        self.shards = shards
        self._open()
        self.number = 0
        self.name = ""
        self.applied: OffsetPosition = {}
        self.reason = ""
        self.probe: Any = None
        self.probed_at = 0.0

    def _open(self) -> None:
        # Before the content: what changes in between is noticed the next time.
        self._stamp = self._access.stamp()
        self.address = self._places.address_of(self.shard)
        self.channel = self._access.channel(self.address)
        self.stub = bulk_pb2_grpc.BulkStub(self.channel)

    def renew(self) -> None:
        """Use the TLS files as they are now, if they have changed, and where the shard is; calls that run end."""
        if self._access.stamp() != self._stamp or self.is_moved():
            self.channel.close()
            self._open()

    def is_moved(self) -> bool:
        return self.address != self._places.address_of(self.shard)

    def ask_others(self, call: Mapping[str, Any]) -> None:
        """Ask another shard of the region where this one is by now, without waiting."""
        if self.shards == 1:
            return
        other = self._places.other(self.address)
        channel = self._access.channel(other)

        def learn(reply: Any) -> None:
            if reply.exception() is None and reply.result().shards:
                self._places.learn(reply.result().shards, other)
            channel.close()

        bulk_pb2_grpc.BulkStub(channel).Describe.future(bulk_pb2.DescribeRequest(), **call).add_done_callback(learn)

    @property
    def label(self) -> str:
        return f"{self.name} ({self.address})" if self.name else self.address

    def learn(self, description: bulk_pb2.Description) -> None:
        self.number, self.name, self.reason = description.region, description.name, ""
        self.applied = {row.origin: row.seq for row in description.applied}
        self.shards = len(description.shards) or 1
        if description.shards:
            self._places.learn(description.shards, self.address)
        if description.shard != self.shard:
            self.applied = {}
            self.reason = f"it is shard {description.shard}, not {self.shard}: name the bulk port of shard 0"

    def record_failure(self, error: grpc.RpcError) -> None:
        """Record that the region is down, or only that it could not answer this call."""
        code = error.code()
        self.applied = {}
        if code in ANSWERED:
            return
        if code not in ELSEWHERE:
            raise BulkError(f"{self.label} rejected the call: {code.name}: {error.details()}") from None
        self.reason = f"{code.name}: {error.details()}"
        log.warning("region %s is down: %s", self.label, self.reason)

    def progress(self, origin: int) -> str:
        return f"{self.label} is " + (f"down: {self.reason}" if self.reason else f"at {self.applied.get(origin, 0)}")

    def covers(self, interval: bulk_pb2.Interval) -> bool:
        return self.applied.get(interval.origin, 0) >= interval.through
