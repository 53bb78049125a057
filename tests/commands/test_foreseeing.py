"""Commands on spilled streams, beside the same commands on streams in memory: the same replies, and nobody waits for a
block once something was prepared.
"""

from __future__ import annotations

import pytest

from crdtstream.core.digest import digest_replica
from crdtstream.core.entries.block import BLOCK_ENTRIES
from simulations.cluster import Cluster
from simulations.machine import CLIENT
from tests.core.spilled_blocks import age
from tests.spilled_regions import FIRST_MS, LAST_MS, fill, formed, spill, waited

MIDDLE = FIRST_MS + BLOCK_ENTRIES + 50
LATE = FIRST_MS + 2 * BLOCK_ENTRIES + 10
TAIL = " ".join(f"{ms}-1" for ms in range(FIRST_MS + 3 * BLOCK_ENTRIES, LAST_MS + 1))

LINES = {
    "range": ["XRANGE a - +", "XREVRANGE b + - COUNT 700", f"XRANGE c {MIDDLE} {MIDDLE + 2}"],
    "read": ["XREAD STREAMS a b c 0 0 0", f"XREAD COUNT 5 STREAMS a {MIDDLE}"],
    "delete": [f"XDEL a {MIDDLE}-1 {LATE}-1", f"XDEL c {MIDDLE}-1", "XRANGE c - + COUNT 1", f"XDEL c {FIRST_MS}-1"],
    "delete the tail": [f"XDEL a {TAIL}", f"XDEL c {TAIL}", f"XADD c {LAST_MS + 1}-1 f v", "XREVRANGE a + - COUNT 1"],
    "delete with references": [f"XDELEX c DELREF IDS 2 {MIDDLE}-1 {LATE}-1", f"XDELEX a ACKED IDS 1 {MIDDLE}-1"],
    "trim": ["XTRIM a MAXLEN 300", "XTRIM b MAXLEN ~ 300", f"XTRIM c MINID {MIDDLE}", "XRANGE c - + COUNT 1"],
    "trim with references": ["XTRIM a MAXLEN 300 ACKED", "XTRIM c MAXLEN 300 DELREF"],
    "add and trim": [f"XADD a MAXLEN 300 {LAST_MS + 1}-1 f v", f"XADD c MINID {MIDDLE} {LAST_MS + 1}-1 f v"],
    "info": ["XINFO STREAM a FULL COUNT 0", "XINFO STREAM c", "XINFO GROUPS a", "XINFO GROUPS c", "XLEN a"],
    "group": ["XREADGROUP GROUP g two COUNT 300 STREAMS a >", "XREADGROUP GROUP g one STREAMS a 0", "XPENDING a g"],
    "claim": [f"XCLAIM a g two 0 {FIRST_MS}-1 {MIDDLE}-1", "XAUTOCLAIM a g three 0 0 COUNT 50"],
    "acknowledge": [f"XACK a g {FIRST_MS}-1 {MIDDLE}-1", f"XACKDEL a g IDS 1 {FIRST_MS + 1}-1", "XPENDING a g"],
    "groups that move": ["XGROUP SETID a g 0", "XGROUP DELCONSUMER a g one", "XINFO GROUPS a", "XGROUP DESTROY a g"],
    "copy": ["COPY a d", "XRANGE d - + COUNT 300", "RENAME c e", "XLEN e", "XRANGE e - + COUNT 2", "MOVE b 1"],
    "delete streams": ["DEL a", "XLEN a", "UNLINK c", f"XADD c {LAST_MS + 5}-1 f v", "XRANGE c - +"],
    "dump": ["DUMP a", "DUMP c"],
    "a transaction": ["MULTI", f"XDEL a {MIDDLE}-1", "XRANGE c - + COUNT 400", "XTRIM b MAXLEN 300", "EXEC"],
    "a transaction of works": ["MULTI", "DUMP a", "COPY c f", "EXEC", "XRANGE f - + COUNT 2"],
    "origins": ["CRDT.ENTRIES a - + COUNT 400", f"CRDT.ENTRIES c {MIDDLE} + REV COUNT 20", "XREVRANGE c + - COUNT 300"],
    "cursors": ["CRDT.XREAD COUNT 400 STREAMS a c 0 0", "CRDT.XREAD COUNT 5 STREAMS b 0"],
    "negative acknowledgements": [
        f"XNACK a g FAIL IDS 2 {FIRST_MS}-1 {MIDDLE}-1",
        f"XNACK a g FATAL IDS 1 {FIRST_MS + 3}-1",
    ],
    "exact acknowledgements": [
        "CRDT.GROUP SET a g ACKNOWLEDGE exact",
        f"XACK a g {FIRST_MS + 5}-1 {MIDDLE}-1 {LATE}-1",
        f"XACK a g {FIRST_MS + 7}-1",
        f"XDEL a {FIRST_MS + 5}-1",
        "CRDT.GROUP SHOW a g",
    ],
    "a reset": [f"CRDT.GROUP RESET a g ID {MIDDLE}-1", "XREADGROUP GROUP g two COUNT 10 STREAMS a >", "XINFO GROUPS a"],
    "dead letters": [
        "CRDT.GROUP SET a g MAXDELIVERIES 1 DEADLETTER dead",
        f"XCLAIM a g two 0 {FIRST_MS}-1 {MIDDLE}-1",
        "XAUTOCLAIM a g two 0 0 COUNT 5",
        "XLEN dead",
        "CRDT.REDRIVE a g COUNT 2",
        "XPENDING a g",
    ],
    "dead letters of readers": [
        "CRDT.GROUP SET a g MAXDELIVERIES 1 DEADLETTER dead",
        "XREADGROUP GROUP g two COUNT 2 CLAIM 0 STREAMS a >",
        "XLEN dead",
        "XREADGROUP GROUP g two COUNT 30 CLAIM 0 STREAMS c a > >",
        "XREADGROUP GROUP g two CLAIM 0 STREAMS a >",
        "XLEN dead",
    ],
    "readers of several streams": [
        "XREADGROUP GROUP g two MAXCOUNT 5 STREAMS a c > >",
        "XREADGROUP GROUP g two MAXSIZE 5000 CLAIM 0 STREAMS c a > >",
        "XREADGROUP GROUP g two MAXCOUNT 9 STREAMS a c 0 >",
        "XREADGROUP GROUP g two STREAMS c a > >",
    ],
    "readers in order": [
        "CRDT.GROUP SET a g ORDER ALL",
        "XREADGROUP GROUP g two COUNT 5 CLAIM 0 STREAMS c a > >",
        "XREADGROUP GROUP g two COUNT 500 CLAIM 0 STREAMS c a > >",
        "XREADGROUP GROUP g one COUNT 5 STREAMS c a > >",
    ],
    "ids and expiries": ["XSETID a 99999999-1", "PEXPIRE c 1", "PERSIST b", "OBJECT ENCODING a", "XSETID b 99999999-1"],
    "swapped databases": ["SWAPDB 0 1", "SELECT 1", "XLEN a", "XRANGE c - + COUNT 2", "XINFO GROUPS a"],
    "acknowledge and remove": ["MULTI", f"XACK a g {MIDDLE}-1", f"XDEL a {MIDDLE}-1", "XTRIM a MAXLEN 500", "EXEC"],
    "several in one turn": [f"XACK a g {FIRST_MS}-1", f"XDEL a {FIRST_MS}-1", "XTRIM a MAXLEN 400", "DEL a"],
    "digests": ["CRDT.DIGEST", "CRDT.STREAM SHOW a", "MEMORY USAGE a"],
}


def filled() -> Cluster:
    cluster = formed(1)
    fill(cluster, 1, "a", "b")
    fill(cluster, 1, "c")
    for key in ("a", "c"):
        cluster.execute(1, f"XGROUP CREATE {key} g 0".encode().split())
    cluster.execute(1, b"XREADGROUP GROUP g one COUNT 400 STREAMS a >".split())
    return cluster


def said(cluster: Cluster, lines: list[str]) -> list[bytes | None]:
    replies = [cluster.execute(1, line.encode().split()) for line in lines]
    cluster.sync()
    return replies


@pytest.mark.parametrize("name", LINES)
def test_replies_are_those_of_streams_in_memory(name: str) -> None:
    hot, cold = filled(), filled()
    spill(cold, 1, 9)
    replies = [said(cluster, LINES[name]) for cluster in (hot, cold)]
    assert waited(cold) == 0
    assert replies[0] == replies[1]
    assert digest_replica(hot.node(1).replica) == digest_replica(cold.node(1).replica)
    assert hot.node(1).replica.applied.vector.as_dict() == cold.node(1).replica.applied.vector.as_dict()
    cold.check()


def named() -> tuple[Cluster, list[str]]:
    """A stream of named entries, which two groups have read, and the IDs of these."""
    cluster = formed(1)
    ids: list[str] = []
    for number in range(3 * BLOCK_ENTRIES):
        reply = cluster.execute(1, f"XADD n IDMP p {number} * f v".encode().split())
        assert reply is not None
        ids.append(reply.split(b"\r\n")[1].decode())
    for group in ("g", "h"):
        cluster.execute(1, f"XGROUP CREATE n {group} 0".encode().split())
        cluster.execute(1, f"XREADGROUP GROUP {group} one COUNT {len(ids)} STREAMS n >".encode().split())
    cluster.sync()
    return cluster, ids


@pytest.mark.parametrize("effect", ["XTRIM n MAXLEN 700", "XADD n * f v", "XDEL n {last}", "RENAME n m"])
def test_the_runs_of_all_groups_of_a_key_are_foreseen_before_the_first_of_them(effect: str) -> None:
    """They are prepared before another effect on the key, one after the other, and open the blocks of named entries."""
    cluster, ids = named()
    file, node = spill(cluster, 1, 2), cluster.node(1)
    file.is_cached = True
    for line in (f"XACK n g {' '.join(ids[:10])}", f"XACK n h {' '.join(ids[:300])}"):
        cluster.command(1, CLIENT, line.encode().split())
    file.is_cached = False
    age(node.context.packing.open_blocks)
    assert len(node.replica.changed.dirty) == 2
    cluster.execute(1, effect.format(last=ids[-1]).encode().split())
    cluster.sync()
    assert waited(cluster) == 0
    assert cluster.node(1).replica.applied.counter() > len(ids) + 3
    cluster.check()


@pytest.mark.parametrize(
    "effect", ["XACKDEL n g IDS 1 {first}", "XACKDEL n g ACKED IDS 1 {first}", "XGROUP DELCONSUMER n g two"]
)
@pytest.mark.parametrize("exact", [True, False])
def test_the_runs_of_what_a_command_acknowledges_are_foreseen(effect: str, exact: bool) -> None:
    """Everything behind what it acknowledges is acknowledged, up to the middle of another block."""
    cluster, ids = named()
    cluster.execute(1, f"CRDT.GROUP SET n g ACKNOWLEDGE {'exact' if exact else 'contiguous'}".encode().split())
    cluster.execute(1, f"XCLAIM n g two 0 {ids[0]}".encode().split())
    cluster.execute(1, f"XACK n g {' '.join(ids[1:300])}".encode().split())
    cluster.sync()
    spill(cluster, 1, 2)
    cluster.execute(1, effect.format(first=ids[0]).encode().split())
    cluster.sync()
    assert waited(cluster) == 0
    cluster.check()


def test_a_forced_move_whose_time_is_over_waits_for_its_blocks() -> None:
    cluster = formed(2)
    fill(cluster, 1, "a", "b")
    cluster.live(1_000)
    cluster.execute(1, b"XGROUP CREATE a g 0 CRDT DELIVER OWNER 1 ACKNOWLEDGE EXACT".split())
    cluster.live(1_000)
    cluster.execute(1, b"XREADGROUP GROUP g one COUNT 600 STREAMS a >".split())
    cluster.execute(1, f"XACK a g {MIDDLE}-1 {LATE}-1".encode().split())
    cluster.live(500)
    assert cluster.execute(1, b"CRDT.GROUP MOVE a g 2 WAIT 300 FORCE".split()) is None
    spill(cluster, 1, 2)
    reply = None
    while reply is None:
        cluster.live(100)
        spill(cluster, 1, 2)
        reply = cluster.pop_reply(1)
    assert reply == b"+OK\r\n" and waited(cluster) == 0
