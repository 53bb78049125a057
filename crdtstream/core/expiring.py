"""Deleting keys that have expired, in the order of their times."""

from __future__ import annotations

from crdtstream.core.effects import Key
from crdtstream.core.entries.spilled import NONE_HELD, NotAtOnce
from crdtstream.core.foreseeing import foresee_runs
from crdtstream.core.replica import Replica
from crdtstream.core.values.causality import region_of


def expire_due(replica: Replica, takeover_ms: int, keys_max: int) -> None:
    """Delete at most `keys_max` expired keys: those whose expiry was set in this region or in one that was evicted
    since, and those that nobody deleted for `takeover_ms`. One for which blocks have to be read is looked at again at
    the next tick.
    """
    keyspace, applied = replica.keyspace, replica.applied
    for _ in range(keys_max):
        key = keyspace.deadlines.pop_due(keyspace.now_ms)
        if key is None:
            return
        expires_ms, origin, _ = keyspace.databases[key[0]][key[1]].expiries()[-1]
        # The region that set the winning expiry deletes the key; others do if it is gone or does not act in time.
        gone = applied.members.is_evicted(origin) or expires_ms + takeover_ms < keyspace.now_ms
        if not gone and region_of(origin) != region_of(applied.origin):
            keyspace.deadlines.look(key, expires_ms + takeover_ms)
        elif _delete_at_once(replica, key):
            replica.budget.ease()
        else:
            keyspace.deadlines.look(key, keyspace.now_ms + 1)


def _delete_at_once(replica: Replica, key: Key) -> bool:
    """Delete an expired key; false if blocks have to be read for what its groups acknowledge, which comes first."""
    if not replica.reads.on:
        replica.freshen(key)
        return True
    replica.reads.begin(NONE_HELD)
    try:
        foresee_runs(replica, key)
        replica.freshen(key)
    except NotAtOnce:
        return False
    finally:
        replica.reads.end()
    return True
