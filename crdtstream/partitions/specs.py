"""Which partitioned streams are possible."""

from __future__ import annotations

from typing import Final

from crdtstream.partitions.values import INVALID, Refused, StreamSpec

PARTITIONS_MAX: Final = 1_000
RETENTION_MS_MAX: Final = 1 << 47
ID_BYTES_MAX: Final = 255


def require_valid(spec: StreamSpec) -> None:
    if not 0 < len(spec.id.encode()) <= ID_BYTES_MAX:
        raise Refused(INVALID, f"the ID of a stream must have 1 to {ID_BYTES_MAX} bytes")
    if not 1 <= spec.partitions <= PARTITIONS_MAX:
        raise Refused(INVALID, f"{spec.partitions} partitions are not possible: use 1 to {PARTITIONS_MAX}")
    if not 0 < spec.retention_ms <= RETENTION_MS_MAX:
        raise Refused(INVALID, f"a retention of {spec.retention_ms} ms is not possible: use 1 to {RETENTION_MS_MAX}")
