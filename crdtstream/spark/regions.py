"""What a client knows about each region: whether it answers, and what it has applied.

A region that does not answer is *down*, with a reason, until it answers a probe. `applied` is a version vector.
"""

from __future__ import annotations

import logging
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


class Region:
    """The bulk port at one address, and what is known about the region behind it."""

    def __init__(self, address: str, access: Access) -> None:
        self.address = address
        self._access = access
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
        self.channel = self._access.channel(self.address)
        self.stub = bulk_pb2_grpc.BulkStub(self.channel)

    def renew(self) -> None:
        """Use the TLS files as they are now, if they have changed; calls that run end."""
        if self._access.stamp() != self._stamp:
            self.channel.close()
            self._open()

    @property
    def label(self) -> str:
        return f"{self.name} ({self.address})" if self.name else self.address

    def learn(self, description: bulk_pb2.Description) -> None:
        self.number, self.name, self.reason = description.region, description.name, ""
        self.applied = {row.origin: row.seq for row in description.applied}

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
