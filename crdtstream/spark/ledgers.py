"""The ledger of a sink that delivers exactly once: an entry of its region, which changes with each batch that is
published, and with no other. So it says whether a batch was published or left out, which Spark does not.
"""

from __future__ import annotations

import logging

from crdtstream.spark import heads as heads_of
from crdtstream.spark.heads import LEDGERS
from crdtstream.spark.offsets import Positions
from crdtstream.spark.options import Options
from crdtstream.spark.regions import BulkError
from crdtstream.spark.sharded import client_of

log = logging.getLogger(__name__)


class LedgerWatch:
    """Follows the ledger of one application from now on; `sink` are the options of the sink. It is for figures, so a
    ledger that cannot be read costs these alone.
    """

    def __init__(self, sink: Options, application: str) -> None:
        self._sink = sink
        self._name = LEDGERS + application
        self._held: Positions | None = {}
        self._held = self._read()

    def has_changed(self) -> bool | None:
        """Whether a batch was published since the last call; None if the ledger could not be read now, or then."""
        before, self._held = self._held, self._read()
        return None if before is None or self._held is None else before != self._held

    def _read(self) -> Positions | None:
        try:
            return heads_of.latest(heads_of.merge(client_of(self._sink).heads([self._name])))
        except BulkError as error:
            if self._held is not None:
                log.warning("which rows were published before is not known until the ledger can be read: %s", error)
            return None
