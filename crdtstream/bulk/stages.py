"""Rows that wait to be published: in memory only, limited over all applications, dropped when they are idle.

A *stage* is what one attempt of one task wrote: the rows of one partition of one batch of an application. A new attempt
drops the complete stages of earlier attempts for the same partition. Attempts that run at the same time have a stage
each, and the publish call names the ones that count. Names of stages begin with the origin, so a restart, which loses
all stages, never reuses a name.
"""

from __future__ import annotations

from collections.abc import Callable

from crdtstream.bulk.errors import ABORTED, INVALID_ARGUMENT, RESOURCE_EXHAUSTED, BulkError
from crdtstream.bulk.rows import EntryRows
from crdtstream.bulk.sums import RowSum

LEDGER_PREFIX = b"crdtstream:published:"
APPLICATION_CHARACTERS_MAX = 256


class Stage:
    """The rows of one attempt, in their order."""

    __slots__ = (
        "application",
        "batch",
        "byte_count",
        "complete",
        "count",
        "name",
        "partition",
        "rows",
        "sum",
        "used_ms",
    )

    def __init__(self, name: str, application: str, batch: int, partition: int, now_ms: int) -> None:
        self.name = name
        self.application = application
        self.batch = batch
        self.partition = partition
        self.rows: list[EntryRows] = []
        self.sum = RowSum()
        self.count = 0
        self.byte_count = 0
        self.complete = False
        self.used_ms = now_ms


class Stages:
    """All stages of one region."""

    __slots__ = ("_by_name", "_last", "byte_count")

    def __init__(self) -> None:
        self.byte_count = 0
        self._by_name: dict[str, Stage] = {}
        self._last = 0

    def begin(self, origin: int, application: str, batch: int, partition: int, now_ms: int) -> Stage:
        require_application(application)
        self._drop_where(
            lambda one: one.complete and (one.application, one.batch, one.partition) == (application, batch, partition)
        )
        self._last += 1
        stage = Stage(f"{origin:x}-{self._last}", application, batch, partition, now_ms)
        self._by_name[stage.name] = stage
        return stage

    def add(self, stage: Stage, rows: EntryRows, bytes_max: int, now_ms: int) -> None:
        """Keep the rows of one message; the caller validates them and adds them to the sum."""
        if self.byte_count + rows.byte_count > bytes_max:
            raise BulkError(
                RESOURCE_EXHAUSTED,
                f"all stages together would exceed bulk_stage_bytes_max = {bytes_max}: publish or discard others,"
                " make batches smaller, or raise the limit",
            )
        require_no_ledger(rows)
        if stage.name not in self._by_name:
            raise gone(stage.name)
        stage.rows.append(rows)
        stage.count += rows.count
        stage.byte_count += rows.byte_count
        stage.used_ms = now_ms
        self.byte_count += rows.byte_count

    def named(self, application: str, batch: int, names: list[str], now_ms: int) -> list[Stage]:
        """Return the complete stages with these names, and count them as used."""
        found: list[Stage] = []
        for name in names:
            stage = self._by_name.get(name)
            if stage is None or not stage.complete:
                raise gone(name)
            if (stage.application, stage.batch) != (application, batch):
                raise BulkError(
                    INVALID_ARGUMENT,
                    f"stage {name} belongs to application {stage.application!r} and batch {stage.batch}, but is"
                    f" published as {application!r} and {batch}: name the stages of this batch",
                )
            stage.used_ms = now_ms
            found.append(stage)
        partitions = [stage.partition for stage in found]
        if len(dict.fromkeys(partitions)) != len(partitions):
            raise BulkError(INVALID_ARGUMENT, "two stages have the same partition: name one of them")
        return found

    def holds_any(self, names: list[str]) -> bool:
        return any(name in self._by_name for name in names)

    def rows_of(self, names: list[str]) -> int:
        """Return how many rows the stages with these names hold."""
        return sum([self._by_name[name].count for name in names if name in self._by_name])

    def drop(self, stage: Stage) -> None:
        if self._by_name.pop(stage.name, None) is not None:
            self.byte_count -= stage.byte_count

    def drop_batch(self, application: str, batch: int) -> int:
        """Drop all stages of one batch; return their number."""
        return self._drop_where(lambda one: (one.application, one.batch) == (application, batch))

    def drop_through(self, application: str, batch: int) -> None:
        """Drop the stages of this batch and of earlier ones."""
        self._drop_where(lambda one: one.application == application and one.batch <= batch)

    def sweep(self, now_ms: int, idle_ms_max: int) -> None:
        """Drop idle stages. If the clock was set back, a stage counts as used now."""
        for stage in self._by_name.values():
            stage.used_ms = min(stage.used_ms, now_ms)
        self._drop_where(lambda one: now_ms - one.used_ms > idle_ms_max)

    def _drop_where(self, condition: Callable[[Stage], bool]) -> int:
        found = [stage for stage in self._by_name.values() if condition(stage)]
        for stage in found:
            self.drop(stage)
        return len(found)

    def __len__(self) -> int:
        return len(self._by_name)

    def check(self) -> None:
        assert self.byte_count == sum(stage.byte_count for stage in self._by_name.values()), "stages have other bytes"
        for name, stage in self._by_name.items():
            assert stage.name == name, f"stage {stage.name} under the name {name}"
            assert stage.byte_count == sum(rows.byte_count for rows in stage.rows), f"stage {name} has other bytes"
            assert stage.count == sum(rows.count for rows in stage.rows), f"stage {name} has another count"


def require_no_ledger(rows: EntryRows) -> None:
    """Reject rows for a ledger stream: they would corrupt it."""
    for _, name in rows.keys:
        if name.startswith(LEDGER_PREFIX):
            raise BulkError(INVALID_ARGUMENT, f"stream {name!r} is a ledger of this port: write to another stream")


def require_application(application: str) -> None:
    if not application or len(application) > APPLICATION_CHARACTERS_MAX:
        text = f"the application's name is empty or too long: use 1 to {APPLICATION_CHARACTERS_MAX} characters"
        raise BulkError(INVALID_ARGUMENT, text)


def gone(name: str) -> BulkError:
    return BulkError(
        ABORTED, f"stage {name} does not exist: it expired, or this region restarted; stage its rows again"
    )
