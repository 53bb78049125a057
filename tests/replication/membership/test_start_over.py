"""A region whose state is in doubt takes another's in its place, and nothing that a client was told of is lost."""

from __future__ import annotations

import random
from collections.abc import Collection
from typing import Any

import pytest

from crdtstream.core.values.causality import Dot, VersionVector
from crdtstream.core.values.entry_id import LIBERAL, STRICT
from crdtstream.protocols import codec
from crdtstream.protocols.codec import CodecError
from crdtstream.protocols.transfer_rows import TransferReader
from crdtstream.region.node import Ready
from crdtstream.replication.log.screening import screen_state
from crdtstream.replication.transfer.snapshot import Snapshot
from crdtstream.scenarios.reply import ReplyError, read_reply
from crdtstream.settings.config import Limits
from simulations.cluster import Cluster

# Memory is cloned with `copy.deepcopy`, which compiled classes do not take.
CLONES = pytest.mark.interpreted

LIMITS = Limits(segment_bytes_max=1 << 14, audit_interval_ms=1_000, heartbeat_ms=500, peer_timeout_ms=2_000)
TICK_MS = 100
TICKS_MAX = 400


def cluster_of(regions: int = 3, id_mode: str = STRICT, fsync: str = "everysec") -> Cluster:
    return Cluster(regions, id_mode, fsync, limits=LIMITS)


def run(cluster: Cluster, number: int, text: str) -> object:
    cluster.now_ms += 1
    return read_reply(cluster.execute(number, text.encode().split()) or b"")


def are_peers(cluster: Cluster, low: int, high: int) -> bool:
    """Both are there, and no two processes of one region."""
    found = {cluster.machines[number].config.region for number in (low, high) if number in cluster.machines}
    return len(found) == 2


def pass_time(cluster: Cluster, ticks: int = 30, cut: Collection[tuple[int, int]] = ()) -> None:
    """As in production: links that were closed are dialled again, but for those that are cut."""
    for _ in range(ticks):
        cluster.tick(TICK_MS)
        for region in cluster.machines.values():
            region.sync()
        for pair in cluster.pairs:
            if pair not in cut and are_peers(cluster, *pair):
                cluster.heal(*pair)
        cluster.sync()
    cluster.check()


def rows_of(reply: bytes | None) -> list[Any]:
    found = read_reply(reply or b"")
    assert isinstance(found, list), found
    return found


def entries(cluster: Cluster, number: int, key: str = "x") -> list[tuple[str, str]]:
    found = rows_of(cluster.execute(number, f"XRANGE {key} - +".encode().split()))
    return [(entry_id, fields[1]) for entry_id, fields in found]


def info(cluster: Cluster, number: int) -> list[str]:
    reply = cluster.execute(number, [b"INFO", b"replication"]) or b""
    return reply.decode().splitlines()


def digests(cluster: Cluster) -> list[object]:
    return [read_reply(cluster.execute(number, [b"CRDT.DIGEST"]) or b"") for number in cluster.machines]


def is_done(cluster: Cluster, number: int) -> bool:
    node = cluster.node(number)
    return not node.start_over.source and not node.context.standing.loading


def start_over(cluster: Cluster, number: int, source: int) -> None:
    assert run(cluster, number, f"CRDT.STARTOVER {source}") == "OK"
    for _ in range(TICKS_MAX):
        pass_time(cluster, 1)
        if is_done(cluster, number):
            return
    raise AssertionError(f"region {number} never starts over: {cluster.node(number).start_over.state()}")


def cloned() -> Cluster:
    """Two processes of one origin: region 2 took what the original did, region 3 what its clone, called 4, did."""
    cluster = cluster_of()
    run(cluster, 1, "XADD x * f both")
    pass_time(cluster)
    cluster.clone(4, 1)
    cluster.cut(1, 3)
    cluster.cut(2, 3)
    cluster.heal(3, 4)
    for value in ("a", "b"):
        run(cluster, 1, f"XADD x * f original-{value}")
        run(cluster, 4, f"XADD x * f clone-{value}")
    cluster.sync()
    return cluster


VALUES = ["both", "clone-a", "clone-b", "original-a", "original-b"]


def values(cluster: Cluster, number: int) -> list[str]:
    return sorted(value for _, value in entries(cluster, number))


@CLONES
def test_the_audit_names_the_dot_and_the_remedy() -> None:
    cluster = cloned()
    pass_time(cluster, 100)
    for number in (2, 3):
        texts = [notice.text for notice in cluster.node(number).notices]
        assert any("different effects under one dot, 1.0:" in text for text in texts), texts
        assert all("start-over --from REGION" in text for text in texts), texts
        assert "audit_shared_origins:1.0" in info(cluster, number)


@CLONES
def test_who_starts_over_hands_over_what_only_it_has() -> None:
    cluster = cloned()
    pass_time(cluster, 60)
    before = {number: entries(cluster, number) for number in cluster.machines}
    for number in (1, 3, 4):
        start_over(cluster, number, 2)
    pass_time(cluster, 60)
    for number in cluster.machines:
        assert values(cluster, number) == VALUES
        known = {value: entry_id for entry_id, value in entries(cluster, number)}
        assert all(known[value] == entry_id for found in before.values() for entry_id, value in found)
    assert len(set(map(str, digests(cluster)))) == 1
    pass_time(cluster, 60)
    cluster.node(2).exchange.audit.tree = None
    for number in cluster.machines:
        cluster.node(number).notices.clear()
    pass_time(cluster, 60)
    assert [notice.text for number in cluster.machines for notice in cluster.node(number).notices] == []


class ClonedCluster:
    """What clients were told, while a process is cloned and links come and go."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.fsync = self.rng.choice(["always", "everysec"])
        self.id_mode = self.rng.choice([STRICT, STRICT, LIBERAL])
        self.cluster = cluster_of(3, self.id_mode, self.fsync)
        # Key, ID and value, and the dot.
        self.added: dict[tuple[str, str, str], Dot] = {}
        self.touched: dict[Dot, None] = {}
        self.removed: dict[str, None] = {}
        self.values = 0

    def write(self, number: int) -> None:
        key = self.rng.choice(["x", "y"])
        kind = self.rng.random()
        if kind < 0.75:
            self.values += 1
            entry_id = run(self.cluster, number, f"XADD {key} * f v{self.values}")
            assert isinstance(entry_id, str), entry_id
            replica = self.cluster.node(number).replica
            self.added[(key, entry_id, f"v{self.values}")] = (replica.applied.origin, replica.applied.counter())
        elif kind < 0.85:
            self.remove(number, key)
        elif kind < 0.9 and self.cluster.node(number).membership.admitted:
            run(self.cluster, number, f"XGROUP CREATE {key} g{self.rng.randrange(3)} 0 MKSTREAM")
        else:
            group = f"g{self.rng.randrange(3)}"
            run(self.cluster, number, f"XREADGROUP GROUP {group} a COUNT 3 NOACK STREAMS {key} >")

    def remove(self, number: int, key: str) -> None:
        """What was removed anywhere may be there in the end, or not; so may what has the same dot elsewhere, since a
        removal names dots.
        """
        found = entries(self.cluster, number, key)
        if found:
            entry_id, _ = self.rng.choice(found)
            ms, _, seq = entry_id.partition("-")
            stream = self.cluster.node(number).replica.keyspace.databases[0][key.encode()]
            for origin, tree in stream.trees.items():
                self.touched[(origin, tree.counter_of((int(ms), int(seq))))] = None
            self.removed[entry_id] = None
            run(self.cluster, number, f"XDEL {key} {entry_id}")

    def move(self) -> None:
        low, high = self.rng.choice(self.cluster.pairs)
        if self.rng.random() < 0.1 and are_peers(self.cluster, low, high):
            (self.cluster.cut if self.cluster.link(low, high).open else self.cluster.heal)(low, high)
        else:
            self.cluster.carry_one(low, high)
            self.cluster.carry_one(high, low)

    def go_on(self, steps: int) -> None:
        for _ in range(steps):
            if self.rng.random() < 0.5:
                self.write(self.rng.choice(list(self.cluster.machines)))
            else:
                self.move()
            if self.rng.random() < 0.1:
                self.cluster.tick(TICK_MS)

    def clone_one(self) -> None:
        self.go_on(60)
        pass_time(self.cluster, 10)
        self.go_on(self.rng.randrange(40))
        self.cluster.clone(4, 1)
        self.go_on(self.rng.randrange(20, 120))
        pass_time(self.cluster, 30)

    def start_over(self, number: int, source: int) -> None:
        """With crashes in between, after which it is asked for again, and clients elsewhere."""
        for _ in range(20):
            pass_time(self.cluster, 10)
            reply = run(self.cluster, number, f"CRDT.STARTOVER {source}")
            assert reply == "OK", reply
            if self.watch(number):
                return
        raise AssertionError(f"region {number} never starts over")

    def watch(self, number: int) -> bool:
        crash_at = self.rng.randrange(40) if self.rng.random() < 0.5 else -1
        before = self.cluster.node(number).start_over.count
        for at in range(TICKS_MAX):
            if at == crash_at:
                self.crash(self.rng.choice(list(self.cluster.machines)))
            others = [other for other in self.cluster.machines if is_done(self.cluster, other)]
            if self.rng.random() < 0.5:
                self.write(self.rng.choice(others))
            pass_time(self.cluster, 1)
            if is_done(self.cluster, number):
                return self.cluster.node(number).start_over.count > before
        raise AssertionError(f"region {number} is neither over nor out: {self.cluster.node(number).start_over.state()}")

    def crash(self, number: int) -> None:
        if self.fsync == "always":
            self.cluster.lose_power(number, self.rng)
        else:
            self.cluster.restart(number)

    def check(self) -> None:
        pass_time(self.cluster, 60)
        held = {key: set(entries(self.cluster, 2, key)) for key in ("x", "y")}
        lost = [
            (key, entry_id, value)
            for (key, entry_id, value), dot in self.added.items()
            if not (dot in self.touched or entry_id in self.removed or (entry_id, value) in held[key])
        ]
        assert not lost, lost
        assert len(set(map(str, digests(self.cluster)))) == 1, digests(self.cluster)


@CLONES
@pytest.mark.parametrize("seed", range(30))
def test_all_that_was_acknowledged_is_everywhere_in_the_end(seed: int) -> None:
    cloned = ClonedCluster(seed)
    cloned.clone_one()
    source = cloned.rng.choice([2, 3])
    for number in cloned.rng.sample([other for other in (1, 2, 3, 4) if other != source], 3):
        cloned.start_over(number, source)
    cloned.check()


# What is asked, and what comes of it


def refusal(cluster: Cluster, number: int, source: str) -> str:
    reply = run(cluster, number, f"CRDT.STARTOVER {source}")
    assert isinstance(reply, ReplyError), reply
    return reply.text


def test_what_cannot_be_is_refused_and_says_what_to_do() -> None:
    cluster = cluster_of()
    pass_time(cluster)
    assert "unknown region 9: give" in refusal(cluster, 1, "9")
    assert "cannot start over from its own state: name another region" in refusal(cluster, 1, "1")
    assert "cannot start over from its own state" in refusal(cluster, 1, "region1")
    pass_time(cluster, 30, [(1, 3)])
    cluster.cut(1, 3)
    pass_time(cluster, 30, [(1, 3)])
    assert "region 3 is not linked" in refusal(cluster, 1, "3")
    assert run(cluster, 1, "CRDT.STARTOVER region2") == "OK"
    assert "LOADING this region is starting over from region 2's state" in refusal(cluster, 1, "2")
    assert "is already starting over from region 2" in str(cluster.node(1).start_over.begin(3, cluster.now_ms))


def test_clients_wait_until_it_is_done_and_those_that_waited_are_told() -> None:
    cluster = cluster_of()
    run(cluster, 1, "XADD x * f v")
    pass_time(cluster)
    cluster.machines[1].connect(2, cluster.now_ms)
    assert cluster.execute(1, b"XREAD BLOCK 0 STREAMS x $".split(), 2) is None
    assert run(cluster, 1, "CRDT.STARTOVER 2") == "OK"
    assert b"UNBLOCKED this region is starting over" in (cluster.machines[1].pop_reply(2) or b"")
    assert "LOADING" in str(run(cluster, 1, "XADD x * f v"))
    assert "start_over:levelling with region 2" in info(cluster, 1)
    pass_time(cluster)
    assert isinstance(run(cluster, 1, "XADD x * f v"), str)
    assert "start_over:" in info(cluster, 1) and "start_overs:1" in info(cluster, 1)
    last_ms = cluster.node(1).start_over.last_ms
    assert {"start_over_last_region:2", f"start_over_last_time:{last_ms // 1000}"} <= set(info(cluster, 1))


def test_a_region_whose_source_is_gone_is_what_it_was() -> None:
    cluster = cluster_of(2)
    run(cluster, 1, "XADD x * f v")
    pass_time(cluster)
    origin = cluster.node(1).birth.origin
    assert run(cluster, 1, "CRDT.STARTOVER 2") == "OK"
    cluster.cut(1, 2)
    pass_time(cluster, 40, [(1, 2)])
    assert cluster.node(1).birth.origin == origin and is_done(cluster, 1)
    assert any("keeps its state: region 2 was not linked" in notice.text for notice in cluster.node(1).notices)
    run(cluster, 1, "XADD x * f w")
    pass_time(cluster)
    assert entries(cluster, 1) == entries(cluster, 2) and len(entries(cluster, 1)) == 2


def test_a_region_that_nobody_doubts_keeps_what_it_has_and_what_was_removed_stays_so() -> None:
    """Also what the source has not heard of by then, and what it has removed."""
    cluster = cluster_of()
    ids = [run(cluster, 1, f"XADD x * f v{at}") for at in range(6)]
    pass_time(cluster)
    run(cluster, 2, f"XDEL x {ids[0]} {ids[5]}")
    run(cluster, 1, "XADD x * f new")
    start_over(cluster, 1, 2)
    pass_time(cluster)
    assert [value for _, value in entries(cluster, 1)] == ["v1", "v2", "v3", "v4", "new"]
    assert len(set(map(str, digests(cluster)))) == 1
    assert cluster.node(1).replica.applied.vector.get(cluster.node(1).birth.origin) <= 1  # nothing was handed over


@CLONES
def test_groups_that_only_it_has_follow_once_it_is_admitted() -> None:
    cluster = cluster_of()
    for number in (2, 3):
        run(cluster, number, "XADD x * f v")
    pass_time(cluster)
    cluster.clone(4, 1)
    run(cluster, 4, "XGROUP CREATE x ours 0")
    for at in range(3):
        run(cluster, 1, f"XADD x * f v{at}")
    pass_time(cluster, 5)
    cluster.stop(1)
    start_over(cluster, 4, 2)
    pass_time(cluster, 60)
    for number in (2, 3, 4):
        groups = rows_of(cluster.execute(number, b"XINFO GROUPS x".split()))
        assert [group[1] for group in groups] == ["ours"]
    assert len(set(map(str, digests(cluster)))) == 1


# Crashes


class Torn(Exception):
    """The process ends in the middle of what it appends."""


def started_over_torn(records: int) -> tuple[Cluster, int]:
    """So many records of the turn in which the state is replaced reach the disk; how many there were. The clone is
    gone, so region 3 alone has what that did.
    """
    cluster = cloned()
    pass_time(cluster, 60, [(1, 2), (1, 3)])
    cluster.stop(4)
    region = cluster.machines[3]
    perform_one, found = region._perform_one, [0]

    def torn(ready: Ready) -> None:
        if any(kind == codec.STARTED_OVER for kind, _ in ready.records):
            found[0] = len(ready.records)
            region.log.append(ready.records[:records])
            raise Torn
        perform_one(ready)

    region._perform_one = torn  # type: ignore[method-assign]
    assert run(cluster, 3, "CRDT.STARTOVER 2") == "OK"
    with pytest.raises(Torn):
        pass_time(cluster, 60, [(1, 2), (1, 3)])
    region._perform_one = perform_one  # type: ignore[method-assign]
    cluster.restart(3)
    return cluster, found[0]


@CLONES
def test_a_crash_at_any_record_loses_nothing() -> None:
    count = started_over_torn(0)[1]
    assert count >= 4
    for records in range(count + 1):
        cluster, _ = started_over_torn(records)
        pass_time(cluster, 30)
        for number in (3, 1):
            start_over(cluster, number, 2)
        pass_time(cluster, 30)
        for number in cluster.machines:
            assert values(cluster, number) == VALUES, (records, number)
        assert len(set(map(str, digests(cluster)))) == 1


@CLONES
def test_what_was_handed_over_and_then_removed_stays_removed_after_a_restart() -> None:
    cluster = cloned()
    pass_time(cluster, 60, [(1, 2), (1, 3)])
    cluster.stop(4)
    start_over(cluster, 3, 2)
    [gone] = [entry_id for entry_id, value in entries(cluster, 3) if value == "clone-a"]
    assert run(cluster, 3, f"XDEL x {gone}") == 1
    cluster.restart(3)
    pass_time(cluster, 20)
    assert "clone-a" not in values(cluster, 3) and values(cluster, 2) == values(cluster, 3)


@CLONES
def test_a_restart_remembers_where_its_log_begins_again() -> None:
    """With and without a checkpoint: what lies before is another history, which no peer may be served."""
    for saved in (False, True):
        cluster = cloned()
        pass_time(cluster, 60)
        start_over(cluster, 3, 2)
        beginning = cluster.node(3).history.beginning
        assert beginning > 1
        pass_time(cluster, 20)
        if saved:
            cluster.machines[3].checkpoint()
        before = entries(cluster, 3)
        cluster.restart(3)
        assert cluster.node(3).history.beginning == beginning
        assert cluster.node(3).history.position_for(VersionVector()) is None
        assert entries(cluster, 3) == before


# Who finds out


@CLONES
@pytest.mark.parametrize("told", ["hello", "progress"])
def test_who_hears_of_own_effects_that_it_never_made_goes_on_as_another_origin(told: str) -> None:
    cluster = cluster_of()
    pass_time(cluster)
    cluster.clone(4, 1)
    cluster.cut(1, 3)
    if told == "progress":
        cluster.heal(3, 4)
        cluster.sync()
    run(cluster, 1, "XADD x * f v")
    for sender, receiver in ((1, 2), (2, 3)):
        cluster.carry(sender, receiver)
    cluster.heal(3, 4)
    assert cluster.node(4).birth.origin == 1 or told == "hello"
    pass_time(cluster, 30, [(1, 4), (1, 3), (2, 4)])
    assert cluster.node(1).birth.origin == 1 != cluster.node(4).birth.origin
    [text] = [notice.text for notice in cluster.node(4).notices]
    assert "origin 1.0 is at work in another process too" in text and "start-over --from REGION" in text
    assert "audit_shared_origins:1.0" in info(cluster, 4)
    run(cluster, 4, "XADD x * f w")
    pass_time(cluster, 30)
    assert {len(entries(cluster, number)) for number in cluster.machines} == {2}


@CLONES
def test_a_state_with_another_entry_under_a_dot_is_refused() -> None:
    """Joined, it would take what only this region has for removed."""
    cluster = cloned()
    snapshot, state = Snapshot(cluster.node(2).replica, []), TransferReader()
    while not snapshot.is_done():
        state.feed(snapshot.chunk(1 << 20))
    with pytest.raises(
        CodecError, match=r"1\.0:\d+ is another entry here, as happens after the memory of a process was cloned"
    ):
        screen_state(state, cluster.node(3).replica)
    screen_state(state, cluster.node(1).replica)
