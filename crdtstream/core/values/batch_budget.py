"""The budget of the open batch: how many bytes were prepared since it was begun, and how many fit into it.

A batch is applied as a whole, so every member must be able to take it: `limit` is the smallest `batch_bytes_max` of the
regions of the cluster, and `region` is the one that has it. A region does nothing else while it writes a batch, or
applies one, so `write_bytes_max` may be less; `name` says which of the two limits it is. What was prepared is counted
by upper bounds of its encoded size (core/sizes.py), so a batch that is within the budget when it is counted is
within the limit when it is encoded.

A batch ends early: `ease`, which is called between commands and between the parts of a large one, ends it once it has
`cut_bytes`. A command that is one piece asks whether it fits before it changes anything (`allow`), and is refused if
it does not. While `whole` is true the batch is not ended: a transaction runs, or something else that is recovered as
one. Then `promised` is what its commands so far may have taken at most: acknowledgements are prepared after the
command. What commands write besides what was measured, as dead letters, leaves room for `measured`, what all commands
of the transaction may take.

Names take part of what each effect needs, so those that are longer than `name_bytes_max` are not created.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

# The most that a batch may have, whatever the settings: records of the log and rows of a state stay below 2 GiB.
BATCH_BYTES_MAX: Final = (2 << 30) - (16 << 20)
# A batch below this limit could not hold the acknowledgements, names and versions of an ordinary turn.
BATCH_BYTES_MIN: Final = 64 << 10
# A region takes at least this, whatever is said of it: entries of 1 KiB can still be written. Simulated
# regions have little more.
LIMIT_MIN: Final = 4 << 10
# A batch ends early at this size, whatever the limit: a larger one is applied later and holds up others.
CUT_BYTES_MAX: Final = 4 << 20
NAME_SHARE: Final = 8
# The limits that may bound a batch.
BATCH_LIMIT: Final = "batch_bytes_max"
WRITE_LIMIT: Final = "write_bytes_max"
# Of the header of a batch, and of each origin in its context.
HEADER_BYTES: Final = 256
CONTEXT_ROW_BYTES: Final = 16


def cut_nothing() -> None:
    """Nobody takes batches: commands are tested alone."""


class BatchBudget:
    """What is prepared, and the bounds that follow from the limit. `cutter` turns what is prepared into a batch."""

    __slots__ = (
        "bytes_max",
        "cut_bytes",
        "cutter",
        "limit",
        "measured",
        "name",
        "name_bytes_max",
        "open_bytes",
        "promised",
        "region",
        "small_bytes",
        "whole",
    )

    def __init__(self) -> None:
        self.open_bytes = 0
        self.whole = False
        self.promised = 0
        self.measured = 0
        self.cutter: Callable[[], None] = cut_nothing
        self.limit = 0
        self.name = BATCH_LIMIT
        self.region = 0
        self.bytes_max = self.cut_bytes = self.small_bytes = self.name_bytes_max = 0
        self.fit(BATCH_BYTES_MAX, 0, 0)

    def fit(self, limit: int, region: int, origins: int, name: str = BATCH_LIMIT) -> None:
        """From now on batches have at most `limit` bytes, because of this region, whose limit has this name; `origins`
        may be in a context. A limit below `LIMIT_MIN` would end all writes, and counts as that.
        """
        self.limit, self.region, self.name = limit, region, name
        reserved = HEADER_BYTES + CONTEXT_ROW_BYTES * origins
        most = min(max(limit, LIMIT_MIN), BATCH_BYTES_MAX)
        self.bytes_max = max(most - reserved, most // 2)
        self.cut_bytes = min(self.bytes_max // 2, CUT_BYTES_MAX)
        # What is this small always fits between two commands, together with the names of its effects.
        self.small_bytes = self.name_bytes_max = self.bytes_max // NAME_SHARE

    def ease(self) -> None:
        """End the batch if it is large."""
        if self.open_bytes >= self.cut_bytes and not self.whole:
            self.cutter()

    def allow(self, byte_count: int) -> bool:
        """True if effects of so many bytes, which belong together, fit into the batch, which is ended for that."""
        if self.open_bytes + byte_count > self.bytes_max and not self.whole:
            self.cutter()
        return max(self.open_bytes, self.promised) + byte_count <= self.bytes_max

    def allow_besides(self, byte_count: int) -> bool:
        """As `allow`, for what a command writes besides what was measured of it."""
        return self.allow(byte_count + self.measured)

    def bound(self) -> str:
        """The limit for people: its name, its value and the region that has it."""
        return f"{self.name} = {self.limit} of region {self.region}" if self.region else f"{self.limit} bytes"

    def check(self) -> None:
        assert self.open_bytes >= 0, "less than nothing is prepared"
        assert self.cut_bytes > 0 and self.cut_bytes + self.small_bytes <= self.bytes_max, "what is small does not fit"


# Texts of errors about what does not fit


def excess(budget: BatchBudget, what: str, byte_count: int, advice: str) -> str:
    """What is wrong with something that takes more bytes than a batch may have."""
    most = budget.bound()
    return f"{what} takes {byte_count} bytes, and no batch may have more than {most}: {advice}, {raising(budget)}"


def name_excess(budget: BatchBudget, what: str, name: bytes) -> str:
    """What is wrong with the name of a key or a group that is to be created, since each of its effects carries it;
    empty if it is short enough.
    """
    if len(name) <= budget.name_bytes_max:
        return ""
    return (
        f"the name of the {what} has {len(name)} bytes, more than {budget.name_bytes_max}, a share of"
        f" {budget.bound()}: use a shorter name, {raising(budget)}"
    )


def raising(budget: BatchBudget) -> str:
    return f"or raise {budget.name} there and restart that region"
