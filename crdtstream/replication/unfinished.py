"""The unfinished batches of all links of a region, bounded together: each link may be within the limits alone.

Those whose parts arrive count in `batch_bytes_max`; what was kept when a link was lost counts with the waiting batches
in `inbox_bytes_max`.
"""

from __future__ import annotations

from collections.abc import Collection

from crdtstream.replication.parts import Assembly
from crdtstream.replication.session import Refusal, Session
from crdtstream.replication.view import View


def bound_unfinished(sessions: Collection[Session], view: View, waiting_bytes: int) -> None:
    """Drop what is kept beyond the limit; Refusal if the parts that arrive take too much."""
    limits, used = view.settings.limits, _used(sessions)
    view.assemblies.bound(used, limits.inbox_bytes_max - waiting_bytes)
    numbered_bytes = sum([each.intake.numbered.held_bytes for each in sessions if each.is_open])
    if numbered_bytes + sum([one.held_bytes for one in used]) > limits.batch_bytes_max:
        raise Refusal(f"incomplete batches exceed batch_bytes_max = {limits.batch_bytes_max} bytes")


def tick_unfinished(sessions: Collection[Session], view: View, passed_ms: int) -> None:
    """Drop what has been kept long enough, and what came by another route."""
    view.assemblies.tick(_used(sessions), passed_ms, view.settings.limits.parts_keep_ms, view.replica.applied.vector)


def _used(sessions: Collection[Session]) -> set[Assembly]:
    used = [each.intake.assembly for each in sessions if each.is_open]
    return {one for one in used if one is not None}
