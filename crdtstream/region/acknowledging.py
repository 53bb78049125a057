"""Acknowledgements at the end of a turn: the new runs of all groups that changed.

Where blocks may be spilled, a group whose runs need some that have to be read first acknowledges in a later turn.
"""

from __future__ import annotations

from functools import partial

from crdtstream.core.deferred_work import DeferredWork
from crdtstream.core.effects import Key
from crdtstream.core.entries.spilled import NONE_HELD, NotAtOnce
from crdtstream.core.replica import Replica


def acknowledge_all(replica: Replica, deferred_work: DeferredWork) -> None:
    """Prepare the new runs of all dirty groups; of those for which blocks have to be read, in a later turn."""
    if not replica.reads.on:
        replica.acknowledge_all()
        return
    left = -1
    while left != len(replica.changed.dirty):
        left = len(replica.changed.dirty)
        for dirty in list(replica.changed.dirty):
            if dirty in replica.changed.dirty:
                if len(deferred_work) > 0 or not _acknowledge_at_once(replica, dirty):
                    deferred_work.run(("runs", dirty), partial(replica.acknowledge, dirty))
                replica.budget.ease()


def _acknowledge_at_once(replica: Replica, dirty: tuple[Key, bytes]) -> bool:
    """Prepare the new runs of this group; false if blocks have to be read first, and nothing has changed."""
    replica.reads.begin(NONE_HELD)
    try:
        replica.acknowledge(dirty)
    except NotAtOnce:
        return False
    finally:
        replica.reads.end()
    return True
