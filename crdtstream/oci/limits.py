"""The limits that OCI publishes for its service, and rates that keep to them.

A rate is a token bucket: it holds at most `burst` tokens, gains `per_s` a second, and a request takes what it needs or
is refused. Time is an argument and may stand still; if it falls, nothing is gained. Each region counts for itself.
Reference: OCI's documentation, "Streaming limits".
"""

from __future__ import annotations

from typing import Final

MESSAGE_BYTES_MAX: Final = 1 << 20
REQUEST_BYTES_MAX: Final = 1 << 20
KEY_BYTES_MAX: Final = 256
WRITE_BYTES_PER_S: Final = 1 << 20
GETS_PER_S: Final = 5
GROUPS_MAX: Final = 50
GET_MESSAGES_MAX: Final = 10_000
GET_BYTES_MAX: Final = 1 << 20
RETENTION_HOURS_MIN: Final = 24
RETENTION_HOURS_MAX: Final = 168
BUCKETS_MAX: Final = 10_000


class RateLimit:
    """One bucket for each key that was used of late."""

    def __init__(self, burst: int, per_s: int) -> None:
        self._burst = float(burst)
        self._per_ms = per_s / 1000
        # Key -> tokens, and the time at which there were so many.
        self._buckets: dict[object, tuple[float, int]] = {}

    def __len__(self) -> int:
        return len(self._buckets)

    def spend(self, key: object, amount: int, now_ms: int) -> bool:
        """Take so many tokens if there are."""
        tokens = self._tokens(key, now_ms)
        enough = amount <= tokens
        self._buckets[key] = (tokens - amount if enough else tokens, now_ms)
        if len(self._buckets) > BUCKETS_MAX:
            self._forget_full(now_ms)
        return enough

    def _tokens(self, key: object, now_ms: int) -> float:
        tokens, at_ms = self._buckets.get(key, (self._burst, now_ms))
        return min(self._burst, tokens + max(0, now_ms - at_ms) * self._per_ms)

    def _forget_full(self, now_ms: int) -> None:
        """A full bucket is as good as none."""
        self._buckets = {
            key: bucket for key, bucket in self._buckets.items() if self._tokens(key, now_ms) < self._burst
        }

    def check(self) -> None:
        for key, (tokens, _) in self._buckets.items():
            assert 0 <= tokens <= self._burst, key


class Quotas:
    """All limits; where `real` is false, those that the engine does not need are off."""

    def __init__(self, real: bool, partitions_max: int) -> None:
        self.real = real
        self.partitions_max = partitions_max if real else 0
        self.groups_max = GROUPS_MAX if real else 0
        self._writes = RateLimit(WRITE_BYTES_PER_S, WRITE_BYTES_PER_S)
        self._gets = RateLimit(GETS_PER_S, GETS_PER_S)

    def allows_write(self, stream_id: str, partition: int, byte_count: int, now_ms: int) -> bool:
        return not self.real or self._writes.spend((stream_id, partition), byte_count, now_ms)

    def allows_get(self, stream_id: str, partition: int, group: str, now_ms: int) -> bool:
        return not self.real or self._gets.spend((stream_id, partition, group), 1, now_ms)

    def allows_partitions(self, present: int, more: int) -> bool:
        return not self.partitions_max or present + more <= self.partitions_max
