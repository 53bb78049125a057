"""Publishing staged rows exactly once, in as many turns as needed, however often it is attempted.

Each turn adds a slice of rows and updates the ledger with it (ledger.py). An interrupted attempt, even one that ended
in a crash, therefore leaves a ledger that says which rows are already added: the first rows of each partition. The next
attempt compares their sum with its own rows and continues behind them. If the sums differ, the rows of a partition have
another order or other contents, and the missing ones cannot be determined: the batch is rejected before anything is
added.

A batch that was published is *repeated* if all its partitions have the same sums: nothing is added again. With other
rows it is rejected, and so is a batch below the last one, because the ledger no longer says what that one had; a caller
may ask for both to be skipped instead.
"""

from __future__ import annotations

from typing import Final

from crdtstream.bulk.errors import FAILED_PRECONDITION, BulkError, require_serving, require_writable
from crdtstream.bulk.ledger import Ledger, attempt_of, key_of, ledger_id, read_ledger, write_ledger
from crdtstream.bulk.rows import SCATTERED_ROWS, SLICE_BYTES, SLICE_ROWS, EntryRows
from crdtstream.bulk.stages import Stage, Stages, require_application
from crdtstream.bulk.sums import RowSum
from crdtstream.bulk.writing import Added, add_slice
from crdtstream.connections.context import Context
from crdtstream.core.values.entry_id import EntryId

REMEDY: Final = (
    "Use a higher number (txnVersion) or another application (txnAppId), or set skip_published (option skipPublished)"
    " to leave such a batch out"
)


class LedgerPlace:
    """A position in the rows of a stage: `low` rows of message `at` are done, and `count` rows in total."""

    __slots__ = ("at", "count", "low", "stage", "sum")

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.at = 0
        self.low = 0
        self.count = 0
        self.sum = RowSum()

    def next(self, rows_max: int) -> tuple[EntryRows, int, int] | None:
        """Return the next slice of at most `rows_max` rows; None at the end."""
        rows = self.stage.rows
        while self.at < len(rows) and self.low == rows[self.at].count:
            self.at, self.low = self.at + 1, 0
        if self.at == len(rows):
            return None
        return rows[self.at], self.low, rows[self.at].slice_end(self.low, min(rows_max, SLICE_ROWS))

    def pass_to(self, rows: EntryRows, high: int) -> None:
        """Mark the rows of this message up to `high` as done."""
        self.sum.add(rows, self.low, high)
        self.count += high - self.low
        self.low = high


class Publishing:
    """One call of Publish."""

    __slots__ = (
        "_application",
        "_at",
        "_batch",
        "_key",
        "_ledger",
        "_places",
        "_skip_published",
        "_verified",
        "added",
        "repeated",
        "skipped",
    )

    def __init__(self, application: str, batch: int, skip_published: bool = False) -> None:
        require_application(application)
        self.repeated = False
        # Rows that were staged for a batch that is repeated.
        self.skipped = 0
        self._skip_published = skip_published
        self.added = Added()
        self._application = application
        self._batch = batch
        self._key = key_of(application)
        self._ledger = Ledger(batch)
        self._places: list[LedgerPlace] = []
        self._verified = False
        self._at = 0

    def begin(self, context: Context, stages: Stages, names: list[str]) -> bool:
        """Prepare; False if there is nothing to do, because this batch was published, or may be skipped."""
        require_serving(context)
        known = read_ledger(context, self._key)
        if self._batch < known.batch or (self._batch == known.batch and known.done):
            if not self._skip_published:
                self._require_repeated(context, stages, names, known)
            self.repeated = True
            self.skipped = stages.rows_of(names)
            stages.drop_through(self._application, self._batch)
            return False
        self._ledger.attempt = attempt_of(names)
        self._places = [
            LedgerPlace(stage) for stage in stages.named(self._application, self._batch, names, context.now_ms)
        ]
        for place in self._places:
            for rows in place.stage.rows:
                rows.bound(context.replica.budget)
        if known.batch == self._batch:
            self._ledger = known
            self._ledger.attempt = attempt_of(names)
            self._require_partitions()
        return True

    def _require_repeated(self, context: Context, stages: Stages, names: list[str], known: Ledger) -> None:
        """Reject a batch whose rows are not those that were published, as far as the ledger says what these were."""
        what = f"batch {self._batch} of application {self._application!r}"
        if self._batch < known.batch:
            raise BulkError(
                FAILED_PRECONDITION, f"{what}: its rows were not added, because batch {known.batch} was begun. {REMEDY}"
            )
        if known.attempt == attempt_of(names) or (not known.attempt and names and not stages.holds_any(names)):
            return  # The same call again, whose reply was lost.
        staged = stages.named(self._application, self._batch, names, context.now_ms)
        rows = {stage.partition: (stage.count, text_of(stage.sum)) for stage in staged if stage.count}
        if rows != known.rows:
            raise BulkError(
                FAILED_PRECONDITION, f"{what}: its rows were not added, because it was published with others. {REMEDY}"
            )

    def _require_partitions(self) -> None:
        staged = {place.stage.partition: place.stage.count for place in self._places}
        for partition, (count, _) in sorted(self._ledger.rows.items()):
            if count > staged.get(partition, 0):
                raise self._differs(partition)

    def step(self, context: Context, stages: Stages) -> bool:
        """Compare or add the next rows; False when everything is published."""
        if not self._verified:
            self._verify()
            return True
        self._add(context)
        if self._ledger.done:
            stages.drop_through(self._application, self._batch)
        return not self._ledger.done

    # What an earlier attempt added

    def _verify(self) -> None:
        """Compare the next slice of rows that an earlier attempt added."""
        left = SLICE_BYTES
        while self._at < len(self._places) and left > 0:
            place = self._places[self._at]
            count, sum_text = self._ledger.rows.get(place.stage.partition, (0, b""))
            part = place.next(count - place.count) if place.count < count else None
            if part is not None:
                rows, low, high = part
                place.pass_to(rows, high)
                left -= rows.start_of(high) - rows.start_of(low) + 1
                continue
            if count and text_of(place.sum) != sum_text:
                raise self._differs(place.stage.partition)
            self._at += 1
        if self._at == len(self._places):
            self._verified, self._at = True, 0

    def _differs(self, partition: int) -> BulkError:
        count, _ = self._ledger.rows[partition]
        return BulkError(
            FAILED_PRECONDITION,
            f"batch {self._batch} of application {self._application!r}: an earlier attempt added {count} rows of"
            f" partition {partition}, which are not the first rows of this attempt. A shuffle between source and sink"
            " makes the rows of a partition differ between attempts: write without one, or sort within partitions",
        )

    # Rows

    def _add(self, context: Context) -> None:
        """Add the rows of one turn, from one partition or several small ones, and write the ledger even if adding fails
        midway.
        """
        require_writable(context)
        entry_id = ledger_id(context, self._key)
        before = self.added.added + self.added.skipped
        budget = context.replica.budget
        # The rows and the ledger are recovered together, so they are in one batch.
        budget.allow(budget.bytes_max)
        budget.whole = True
        try:
            self._add_rows(context)
        except BulkError:
            if self.added.added + self.added.skipped > before:
                self._write(context, entry_id)
            raise
        finally:
            budget.whole = False
        self._ledger.done = self._at == len(self._places)
        self._write(context, entry_id)

    def _add_rows(self, context: Context) -> None:
        rows_left, bytes_left = SLICE_ROWS, min(SLICE_BYTES, context.replica.budget.cut_bytes // 4)
        while self._at < len(self._places) and rows_left > 0 and bytes_left > 0:
            place = self._places[self._at]
            part = place.next(rows_left)
            if part is None:
                self._at += 1
                continue
            rows, low, high = part
            add_slice(context, rows, low, high, self.added)
            place.pass_to(rows, high)
            self._ledger.rows[place.stage.partition] = (place.count, text_of(place.sum))
            # A row of many streams may need a block of its own, so it counts as several.
            rows_left -= (high - low) * (SLICE_ROWS // SCATTERED_ROWS if rows.is_scattered() else 1)
            bytes_left -= rows.start_of(high) - rows.start_of(low)

    def _write(self, context: Context, entry_id: EntryId) -> None:
        write_ledger(context, self._key, entry_id, self._ledger)


def text_of(row_sum: RowSum) -> bytes:
    return row_sum.value().hex().encode()
