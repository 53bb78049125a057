"""What an error says about the command that met it."""

from __future__ import annotations

import pytest
import redis

from crdtstream.client.errors import AfterError, Behind, NoRegion, OutcomeUnknown, after_error, shards_in_doubt

MOVED = redis.exceptions.MovedError("7 127.0.0.1:7002")
CLUSTER_DOWN = redis.exceptions.ClusterDownError("CLUSTERDOWN Hash slot not served")


def no_shard_left(before: Exception | None, text: str = "Redis Cluster cannot be connected. Please") -> Exception:
    error = redis.exceptions.RedisClusterException(text)
    error.__context__ = before
    return error


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
        (CLUSTER_DOWN, AfterError.REFUSED),
        (redis.exceptions.ClusterError("TTL exhausted."), AfterError.REFUSED),
        (redis.exceptions.SlotNotCoveredError("slot 7"), AfterError.REFUSED),
        (redis.exceptions.ClusterCrossSlotError("CROSSSLOT"), AfterError.FAILED),
        (MOVED, AfterError.REFUSED),
        (no_shard_left(redis.ConnectionError("reset")), AfterError.UNKNOWN),
        (no_shard_left(redis.TimeoutError("slow"), "no slots"), AfterError.UNKNOWN),
        (no_shard_left(None), AfterError.UNKNOWN),
        (no_shard_left(MOVED), AfterError.REFUSED),
        (no_shard_left(CLUSTER_DOWN), AfterError.REFUSED),
        (redis.exceptions.RedisClusterException("No way to dispatch this command"), AfterError.FAILED),
    ],
)
def test_after_an_error(error: Exception, after: AfterError) -> None:
    assert after_error(error) is after


@pytest.mark.parametrize(
    ("error", "doubt"),
    [
        (None, False),
        (redis.OutOfMemoryError("full"), False),
        (redis.BusyLoadingError("loading"), False),
        (redis.ReadOnlyError("read only"), False),
        (Behind("west:1", "is behind"), False),
        (redis.ConnectionError("reset"), True),
        (redis.TimeoutError("slow"), True),
        (no_shard_left(None), True),
        (CLUSTER_DOWN, True),
        (MOVED, True),
    ],
)
def test_shards_are_looked_for_again_after_what_may_have_moved_them(error: Exception | None, doubt: bool) -> None:
    assert shards_in_doubt(error) is doubt


def test_errors_say_what_to_do() -> None:
    assert "east:1: not tried" in str(NoRegion({"east:1": None}))
    assert "repeat=True" in str(OutcomeUnknown("east:1", redis.TimeoutError("slow")))
