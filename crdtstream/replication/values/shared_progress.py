"""What both sides of a link know about the progress of other members, so that each tells only what grew."""

from __future__ import annotations

from typing import Final

from crdtstream.core.values.causality import VersionVector
from crdtstream.replication.values.progress import ProgressRow

# What an origin takes in a message with its counter.
ROW_BYTES: Final = 24


class Shared:
    """What both sides of the link know about one member other than the two."""

    __slots__ = ("applied", "durable", "life")

    def __init__(self) -> None:
        self.durable = VersionVector()
        self.applied = VersionVector()
        self.life = 0

    def add(self, durable: VersionVector | None, applied: VersionVector | None, life: int) -> None:
        if durable is not None:
            self.durable.merge(durable)
        if applied is not None:
            self.applied.merge(applied)
        self.life = max(self.life, life)


NOTHING: Final = Shared()


def rows_that_fit(rows: list[ProgressRow], told_before: int, bytes_max: int) -> list[ProgressRow]:
    """Return as many rows as a message takes. The region's own one, the last, says what the batches with it cover, so
    it is always told; the others take turns where they are too many.
    """
    told, others = rows[-1:], rows[:-1]
    first = told_before % len(others) if others else 0
    for row in others[first:] + others[:first]:
        bytes_max -= ROW_BYTES * (1 + row[1].origin_count() + row[2].origin_count())
        if bytes_max < 0 and len(told) > 1:
            break
        told.append(row)
    return told
