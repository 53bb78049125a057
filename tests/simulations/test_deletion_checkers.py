"""The checker of what readers by position are told of deletions: what it passes, and what it names."""

from __future__ import annotations

import pytest

from crdtstream.core.values.entry_id import STRICT
from simulations.cluster import Cluster
from simulations.deletion_checkers import DeletionsAreTold
from simulations.history import Violation


def test_a_deletion_that_a_region_does_not_tell() -> None:
    cluster = Cluster(2, STRICT, checked=("deletions",))
    for words in ([b"XADD", b"x", b"*", b"f", b"v"], [b"DEL", b"x"]):
        cluster.execute(1, words)
        cluster.sync()
    for number in (1, 2):
        DeletionsAreTold().look(cluster, number)
    stream = cluster.node(2).replica.keyspace.databases[0][b"x"]
    for meta in stream.metas.values():
        meta.trimmed_to = 0
    DeletionsAreTold().look(cluster, 1)
    with pytest.raises(Violation, match=r"deletions: region 2, b'x': entry \d+:\d+ is gone, but 0 is the last noted"):
        DeletionsAreTold().look(cluster, 2)
