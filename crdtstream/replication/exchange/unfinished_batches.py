"""The unfinished batches of all links of a region, bounded together: each link may be within the limits alone.

Those whose parts arrive count in `batch_bytes_max`; what was kept when a link was lost counts with the waiting batches
in `inbox_bytes_max`.

If the parts that arrive take too much together, one link goes on, and the others stall: their parts are not counted as
consumed, so the windows of their peers close until the first batch is whole. While memory is short all of them stall
(holding.py), for `parts_keep_ms`: then a batch that is not whole is dropped with its link, because it may be what the
memory is short of.
"""

from __future__ import annotations

from collections.abc import Collection

from crdtstream.replication.links.parts import Assembly
from crdtstream.replication.links.session import Refusal, Session
from crdtstream.replication.links.view import View
from crdtstream.status.availability import MEMORY


def bound_unfinished(sessions: Collection[Session], view: View, waiting_bytes: int) -> None:
    """Drop what is kept beyond the limit, and stall links; Refusal if peers send parts beyond their windows."""
    limits = view.settings.limits
    view.assemblies.bound(_used(sessions), limits.inbox_bytes_max - waiting_bytes)
    if _stall(sessions, view):
        raise Refusal(f"incomplete batches exceed batch_bytes_max = {limits.batch_bytes_max} bytes")


def tick_unfinished(sessions: Collection[Session], view: View, passed_ms: int) -> None:
    """Drop what has been kept long enough, and what came by another route."""
    keep_ms = view.settings.limits.parts_keep_ms
    view.assemblies.tick(_used(sessions), passed_ms, keep_ms, view.replica.applied.vector)
    _stall(sessions, view)
    for session in sessions if view.lack[0] == MEMORY else ():
        if session.is_open and session.intake.stalls_for(passed_ms, keep_ms):
            session.intake.drop_parts()
            session.leave("there is no memory for a batch that arrives in parts")


def _stall(sessions: Collection[Session], view: View) -> bool:
    """Say which links stall; true if one of those brings more than its window and the message that filled it. What it
    brought before, or another link did, may be as much as a batch.
    """
    opened = [each for each in sessions if each.is_open]
    excess = sum([one.held_bytes for one in _used(sessions)]) - view.settings.limits.batch_bytes_max
    excess += sum([each.intake.numbered.held_bytes for each in opened])
    above, goes_on, overrun = excess > 0, view.lack[0] != MEMORY, False
    for session in opened:
        has_parts = session.intake.has_parts
        stalls = has_parts and (above or view.lack[0] == MEMORY) and not goes_on
        goes_on = goes_on and not has_parts
        session.intake.stall(stalls)
        window_bytes = session.bounds.window_bytes + view.settings.limits.message_bytes_max
        overrun = overrun or (above and session.intake.owed_bytes > window_bytes)
    return overrun


def _used(sessions: Collection[Session]) -> set[Assembly]:
    used = [each.intake.assembly for each in sessions if each.is_open]
    return {one for one in used if one is not None}
