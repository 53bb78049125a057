"""What an error says about the command that met it."""

from __future__ import annotations

import pytest
import redis

from crdtstream.client.errors import AfterError, Behind, NoRegion, OutcomeUnknown, after_error

NO_SHARD_LEFT = redis.exceptions.RedisClusterException("Redis Cluster cannot be connected")
NO_SHARD_LEFT.__context__ = redis.ConnectionError("reset")


@pytest.mark.parametrize(
    ("error", "after"),
    [
        (redis.ConnectionError("reset"), AfterError.UNKNOWN),
        (redis.TimeoutError("timeout"), AfterError.UNKNOWN),
        (redis.BusyLoadingError("loading"), AfterError.REFUSED),
        (redis.ReadOnlyError("read only"), AfterError.REFUSED),
        (redis.OutOfMemoryError("full"), AfterError.REFUSED),
        (redis.exceptions.TryAgainError("not admitted"), AfterError.REFUSED),
        (redis.ResponseError("MISCONF disk full"), AfterError.REFUSED),
        (redis.ResponseError("UNBLOCKED starts over"), AfterError.REFUSED),
        (Behind("west:1", "is behind"), AfterError.REFUSED),
        (redis.ResponseError("WRONGTYPE"), AfterError.FAILED),
        (redis.AuthenticationError("WRONGPASS"), AfterError.FAILED),
        (redis.DataError("no"), AfterError.FAILED),
        (redis.exceptions.ClusterDownError("CLUSTERDOWN Hash slot not served"), AfterError.REFUSED),
        (redis.exceptions.ClusterError("TTL exhausted."), AfterError.REFUSED),
        (redis.exceptions.SlotNotCoveredError("slot 7"), AfterError.REFUSED),
        (redis.exceptions.ClusterCrossSlotError("CROSSSLOT"), AfterError.FAILED),
        (NO_SHARD_LEFT, AfterError.UNKNOWN),
        (redis.exceptions.RedisClusterException("No way to dispatch this command"), AfterError.FAILED),
    ],
)
def test_after_an_error(error: Exception, after: AfterError) -> None:
    assert after_error(error) is after


def test_errors_say_what_to_do() -> None:
    assert "east:1: not tried" in str(NoRegion({"east:1": None}))
    assert "repeat=True" in str(OutcomeUnknown("east:1", redis.TimeoutError("slow")))
