"""Entries that were removed before a query had them, and how they are reported: as an error, or in the log."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from crdtstream.spark.offsets import origin_text

LOSSES_SHOWN: Final = 5
log = logging.getLogger(__name__)


class DataLoss(RuntimeError):
    """Entries that a query should have read were removed before, or are in no region any more."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Entries that were removed together before they were read: after < seq <= through. With `unsure` no region
    remembers whether there were any.
    """

    stream: str
    origin: int
    after: int
    through: int
    unsure: bool = False

    def __str__(self) -> str:
        where = f"stream {self.stream!r}, origin {origin_text(self.origin)}, seq {self.after + 1} to {self.through}"
        return (
            f"{where} (perhaps: it was deleted and written again, and no region remembers more)"
            if self.unsure
            else where
        )


def report(losses: Sequence[Loss], fail: bool, had: str = "read") -> None:
    """Raise or log; `had` is what should have happened to the entries before."""
    if not losses:
        return
    shown = "; ".join(map(str, losses[:LOSSES_SHOWN]))
    more = f"; and {len(losses) - LOSSES_SHOWN} more" if len(losses) > LOSSES_SHOWN else ""
    what = f"entries were trimmed, or deleted with their stream, before they were {had}: {shown}{more}"
    if fail:
        raise DataLoss(f"{what}. Set failOnDataLoss to false to continue without them")
    log.warning("%s", what)
