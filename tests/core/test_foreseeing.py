"""What is read before pending entries are dropped is all that the runs need which follow from it."""

from __future__ import annotations

import pytest

from crdtstream.core.foreseeing import foresee_dropped
from crdtstream.core.groups.runs import EXACT_INTERVALS_MAX
from crdtstream.core.local_facts import PendingDropped
from crdtstream.core.values.entry_id import id_below
from crdtstream.core.values.origin_intervals import OriginIntervals
from tests.spilled_regions import fill, formed, say, spill, waited


@pytest.mark.parametrize("every", [1, 7, 100, 255, 256])
@pytest.mark.parametrize("dropped", [0, 1, 2])
def test_a_group_that_has_become_exact(every: int, dropped: int) -> None:
    """All that it was ever delivered is looked at, between all that is pending."""
    cluster = formed(1)
    fill(cluster, 1, "s")
    say(cluster, 1, "XGROUP CREATE s g 0")
    say(cluster, 1, "CRDT.GROUP SET s g ACKNOWLEDGE EXACT")
    read = say(cluster, 1, "XREADGROUP GROUP g one COUNT 700 STREAMS s >")
    assert isinstance(read, list)
    rest = [one[0] for at, one in enumerate(read[0][1]) if at % every]
    for at in range(0, len(rest), 100):
        say(cluster, 1, f"XACK s g {' '.join(rest[at : at + 100])}")
    spill(cluster, 1)
    node = cluster.node(1)
    replica, stream = node.replica, node.replica.keyspace.databases[0][b"s"]
    group = stream.groups[b"g"]
    origin = replica.applied.origin
    pending = list(group.pending.ids(origin, None))
    gone = pending[min(dropped, len(pending) - 1)]
    group.acked = {}
    group.acknowledge_delivered()
    done: list[int] = []

    def drop() -> None:
        foresee_dropped(stream, group, {gone})
        replica.record(PendingDropped((0, b"s"), b"g", OriginIntervals(origin, id_below(gone), gone)))
        group.look_for_runs(stream.trees, EXACT_INTERVALS_MAX)
        done.append(1)

    rounds = 0
    while not done:
        node.context.deferred_work.run(("drop", b"s"), drop)
        cluster.tick(100)
        rounds += 1
        assert rounds < 20
    assert waited(cluster) == 0
