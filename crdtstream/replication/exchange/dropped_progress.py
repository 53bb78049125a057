"""Progress of members that peers tell, bounded over all links by `progress_rows_max`.

Of a member that takes too much nothing more is heard over that link, whose rows say what has grown since the last ones:
less than a member has done is safe, and batches go on. A new link tells all of it. So once there is room, because a
member has left or the limit is higher, the link ends, and the next one is heard. Until then the event is repeated.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from crdtstream.replication.links.session import Session
from crdtstream.replication.values.progress import ProgressTable
from crdtstream.status.events import Notice

# How often a link is looked at whose progress was dropped, and the event repeated.
REPEATED_MS: Final = 60_000


def progress_dropped(session: Session, rows_max: int) -> Notice:
    peer = f"region {session.peer_name} ({session.peer_region})"
    text = f"{peer} sends more progress than progress_rows_max = {rows_max} rows allow: raise the limit"
    return Notice("progress-dropped", text)


def tick_unheard(sessions: Iterable[Session], progress: ProgressTable, rows_max: int, now_ms: int) -> list[Notice]:
    """Hear of all members again where there is room for them; returns what to report of the other links."""
    due = [one for one in sessions if one.is_open and one.unheard.is_due(now_ms, REPEATED_MS)]
    dropped: list[Notice] = []
    for session in due:
        if progress.row_count + session.unheard.row_count() <= rows_max:
            session.leave("there is room for the progress of members again, which a new link tells")
        else:
            dropped.append(progress_dropped(session, rows_max))
    return dropped


def unheard_count(sessions: Iterable[Session]) -> int:
    """How many members are unheard over some open link."""
    unheard: set[int] = set()
    for session in sessions:
        unheard.update(session.unheard.rows if session.is_open else ())
    return len(unheard)
