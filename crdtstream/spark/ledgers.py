"""The ledger of a sink that delivers exactly once: an entry of its region, which changes with each batch that is
published, and with no other. So it says whether a batch was published or left out, which Spark does not.
"""

from __future__ import annotations

from crdtstream.spark import heads as heads_of
from crdtstream.spark.heads import LEDGERS
from crdtstream.spark.offsets import Positions
from crdtstream.spark.options import Options
from crdtstream.spark.sharded import client_of


class LedgerWatch:
    """Follows the ledger of one application from now on; `sink` are the options of the sink."""

    def __init__(self, sink: Options, application: str) -> None:
        self._sink = sink
        self._name = LEDGERS + application
        self._held = self._read()

    def has_changed(self) -> bool:
        """Whether a batch was published since the last call. Raises BulkError if no region answers."""
        before, self._held = self._held, self._read()
        return before != self._held

    def _read(self) -> Positions:
        return heads_of.latest(heads_of.merge(client_of(self._sink).heads([self._name])))
