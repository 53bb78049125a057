"""Whether clients should be sent to a region, and why not: for all clients, and for those that write."""

from __future__ import annotations

from crdtstream.connections.admission import NOT_ADMITTED
from crdtstream.connections.context import Context
from crdtstream.status.availability import DISK_FULL

MEMORY_SHORT = "the process uses more memory than memory_bytes_max: writes are refused until data is removed"


def reads_refused(context: Context, is_stopping: bool) -> str:
    """Why the region serves nobody; empty if it serves."""
    return "the region stops" if is_stopping else context.standing.loading


def writes_refused(context: Context, is_stopping: bool) -> str:
    """Why the region refuses writes, or some of them; empty if it takes all."""
    standing, admission = context.standing, context.cluster.admission
    if is_stopping or standing.loading:
        return reads_refused(context, is_stopping)
    if standing.departing:
        return standing.departing
    if not standing.writable:
        return without_code(DISK_FULL)
    if standing.memory_short:
        return MEMORY_SHORT
    return "" if admission is None or admission.admitted else without_code(NOT_ADMITTED)


def without_code(text: str) -> str:
    """The text of an error reply, which begins with a code for programs."""
    return text.partition(" ")[2]
