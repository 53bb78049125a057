"""What a client over several regions raises beside redis-py's own errors, and what an error says about a command."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import redis

# A region that is there, and did nothing: it has just started, is full, or begins again.
REFUSALS = ("LOADING", "READONLY", "TRYAGAIN", "MISCONF", "OOM", "UNBLOCKED")
REFUSAL_ERRORS = (
    redis.BusyLoadingError,
    redis.ReadOnlyError,
    redis.OutOfMemoryError,
    redis.exceptions.TryAgainError,
    # Of a region of several shards: each of them refused, or none is known to have the key.
    redis.exceptions.ClusterError,
    redis.exceptions.SlotNotCoveredError,
    redis.exceptions.MovedError,
)
# What redis-py raises; that of a cluster is no RedisError.
CLIENT_ERRORS = (redis.RedisError, redis.exceptions.RedisClusterException)
LOST_CONNECTIONS = (redis.ConnectionError, redis.TimeoutError)
# A shard answered so, and did nothing; redis-py looked for the shards after that.
ELSEWHERE = (redis.exceptions.MovedError, redis.exceptions.ClusterDownError)
# What redis-py says when it has looked for the shards and found none. With asyncio that is at the next command, so the
# error does not say what went before.
NO_SHARD = "Redis Cluster cannot be connected"
# redis-py derives them from ConnectionError, but no other region would answer otherwise.
DENIALS = (redis.AuthenticationError, redis.exceptions.AuthorizationError)


class NoRegion(redis.ConnectionError):
    """No region could be used in `patience_s` seconds.

    `reasons` has the last error of each by its address.
    """

    def __init__(self, reasons: Mapping[str, Exception | None]) -> None:
        shown = "; ".join(f"{address}: {error or 'not tried'}" for address, error in reasons.items())
        super().__init__(f"no region can be used ({shown}): start one, or wait longer with patience_s")
        self.reasons = dict(reasons)


class OutcomeUnknown(redis.ConnectionError):
    """The connection was lost after a command was sent, so it may have been executed, and `repeat` was not given."""

    def __init__(self, address: str, error: Exception) -> None:
        super().__init__(
            f"the connection to {address} was lost, and the command may have been executed ({error}): look whether it "
            "was, or call with repeat=True what may be executed twice"
        )
        self.address = address


class Behind(redis.RedisError):
    """What the session has seen cannot be found in any region that could be reached, not within `await_ms` each.

    The session keeps its tokens, so a later call awaits them again. `reply` is the reply of the call, if the region was
    lost after it and before it gave a token; None if the command was not sent.
    """

    def __init__(self, address: str, what: str, reply: object = None) -> None:
        super().__init__(f"{address} {what}: call again later, or go on with less by go_on_behind=True")
        self.address = address
        self.reply = reply


class WritesLost(redis.RedisError):
    """Some of what the session has seen is gone in every region. It is raised once; the next call goes on without."""

    def __init__(self, address: str, reply: str) -> None:
        super().__init__(f"{address} replied {reply}: read what is there, and write again what is missing")
        self.address = address


class AfterError(Enum):
    """What is known of a command after an error."""

    UNKNOWN = "it may have been executed"
    REFUSED = "it was not executed, and another region, or a later time, may do"
    FAILED = "the error is the answer, in any region"


def after_error(error: Exception) -> AfterError:
    """Return what an error of redis-py, or of a session, says about the command."""
    if isinstance(error, (Behind, *REFUSAL_ERRORS)):
        return AfterError.REFUSED
    if isinstance(error, DENIALS):
        return AfterError.FAILED
    if isinstance(error, LOST_CONNECTIONS):
        return AfterError.UNKNOWN
    if isinstance(error, redis.exceptions.RedisClusterException):
        return _after_cluster_error(error)
    refused = isinstance(error, redis.ResponseError) and str(error).startswith(REFUSALS)
    return AfterError.REFUSED if refused else AfterError.FAILED


def _after_cluster_error(error: redis.exceptions.RedisClusterException) -> AfterError:
    if isinstance(error.__context__, ELSEWHERE):
        return AfterError.REFUSED
    is_lost = isinstance(error.__context__, LOST_CONNECTIONS) or NO_SHARD in str(error)
    return AfterError.UNKNOWN if is_lost else AfterError.FAILED


def shards_in_doubt(error: Exception | None) -> bool:
    """Return whether a region may have its shards elsewhere after this error, not only one that refused a command."""
    if isinstance(error, redis.BusyLoadingError):
        # redis-py derives it from ConnectionError, but the shard is there.
        return False
    cluster_errors = (redis.exceptions.RedisClusterException, redis.exceptions.ClusterError, *ELSEWHERE)
    return isinstance(error, (*LOST_CONNECTIONS, *cluster_errors))
