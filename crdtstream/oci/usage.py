"""What the gateway did, for metrics.

Labels are bounded by the code: operations are those of the API, and statuses those that it answers. An injected fault
may have any status, so others are counted together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Final

from prometheus_client.core import HistogramMetricFamily, Metric

from crdtstream.oci.cursors import Cursor, GroupCursor
from crdtstream.runtime.metrics.families import PREFIX, buckets_of, counter, counters, gauge
from crdtstream.runtime.metrics.histogram import SLOW_S, Histogram

STORED: Final = "stored"
STATUSES: Final = frozenset((200, 204, 400, 401, 403, 404, 405, 409, 412, 429, 500, 503))
OTHER: Final = "other"
# No operation: nothing is served at the path, or not by this method.
UNROUTED: Final = "none"


class Usage:
    """Counters since the start of the process."""

    def __init__(self) -> None:
        self.running = 0
        self.requests: Counter[tuple[str, str]] = Counter()
        self.durations: dict[str, Histogram] = {}
        self.messages_put: Counter[str] = Counter()
        self.messages_read = 0
        self.cursors: Counter[str] = Counter()
        self.cursors_refused = 0

    @contextmanager
    def timed(self, operation: str) -> Iterator[None]:
        """A request that runs; how long is noted also if its client went away."""
        self.running += 1
        began_s = perf_counter()
        try:
            yield
        finally:
            self.running -= 1
            self.durations.setdefault(operation, Histogram(SLOW_S)).observe(perf_counter() - began_s)

    def record_answer(self, operation: str, status: int) -> None:
        self.requests[operation, str(status) if status in STATUSES else OTHER] += 1

    def record_put(self, errors: Iterable[str | None]) -> None:
        """The error of each message of a request, None for one that is stored."""
        self.messages_put.update(error or STORED for error in errors)

    def record_cursor(self, cursor: Cursor) -> None:
        self.cursors["group" if isinstance(cursor, GroupCursor) else "partition"] += 1

    def families(self) -> Iterator[Metric]:
        yield counters(
            "oci_requests_total",
            "Requests of the OCI gateway that were answered.",
            ("operation", "status"),
            [(labels, float(count)) for labels, count in sorted(self.requests.items())],
        )
        times = HistogramMetricFamily(
            f"{PREFIX}oci_request_duration_seconds",
            "How long requests of the OCI gateway took, until their answer was made.",
            labels=["operation"],
        )
        for operation, taken in sorted(self.durations.items()):
            times.add_metric([operation], buckets_of(taken.bounds_s, taken.counts), taken.total_s)
        yield times
        yield gauge("oci_requests_running", "Requests of the OCI gateway that run.", self.running)
        rows = [((result,), float(count)) for result, count in sorted(self.messages_put.items())]
        meaning = "Messages of PutMessages: stored, or the error of those that failed."
        yield counters("oci_messages_put_total", meaning, ("result",), rows)
        yield counter("oci_messages_read_total", "Messages that GetMessages returned.", self.messages_read)
        rows = [((kind,), float(count)) for kind, count in sorted(self.cursors.items())]
        yield counters("oci_cursors_issued_total", "Cursors issued, by what they read.", ("kind",), rows)
        meaning = "Cursors that were expired, garbled or foreign."
        yield counter("oci_cursors_refused_total", meaning, self.cursors_refused)
