"""Transactions: what queues and what refuses, which clients are woken, and that no client ever sees half of one."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtstream.core.replica import Replica, Taken
from crdtstream.core.values.entry_id import STRICT
from crdtstream.replication.log.turn import Turn
from crdtstream.scenarios.reply import read_reply
from crdtstream.settings.config import Limits
from crdtstream.status.availability import DISK_FULL
from simulations.cluster import CLIENT, Cluster
from tests.commands.harness import Region

OTHER = 2
ABORTED = b"-EXECABORT Transaction discarded because of previous errors.\r\n"
OOM = b"OOM command not allowed when used memory > 'maxmemory'.\r\n"
NULL = b"*-1\r\n"


@pytest.fixture
def region() -> Region:
    return Region()


def run(region: Region, script: str) -> list[bytes | None]:
    return [region.line(line) for line in script.split("; ")]


# Queueing


def test_a_command_that_is_not_for_transactions(region: Region) -> None:
    replies = run(region, "MULTI; SAVE; EXEC")
    assert replies[1:] == [b"-ERR Command not allowed inside a transaction\r\n", ABORTED]


def test_quit_is_not_queued(region: Region) -> None:
    assert run(region, "MULTI; QUIT")[1] == b"+OK\r\n"
    assert region.client.closing


def test_after_multi_nothing_is_queued_while_memory_is_short(region: Region) -> None:
    region.line("MULTI")
    region.context.standing.memory_short = True
    assert run(region, "XLEN s; EXEC") == [b"-" + OOM, ABORTED]


def test_memory_is_asked_again_at_exec(region: Region) -> None:
    run(region, "MULTI; XADD s 1-1 f v")
    region.context.standing.memory_short = True
    assert region.line("EXEC") == b"-EXECABORT Transaction discarded because of: " + OOM
    assert region.line("XLEN s") == b":0\r\n"
    region.context.standing.memory_short = False
    run(region, "MULTI; XLEN s")
    region.context.standing.memory_short = True
    assert region.line("EXEC") == b"*1\r\n:0\r\n"
    assert run(region, "MULTI; DISCARD") == [b"+OK\r\n", b"+OK\r\n"]


def test_the_disk_is_asked_again_at_exec(region: Region) -> None:
    run(region, "MULTI; XADD s 1-1 f v")
    region.context.standing.writable = False
    assert region.line("EXEC") == f"-EXECABORT Transaction discarded because of: {DISK_FULL}\r\n".encode()
    assert run(region, "MULTI; XLEN s; EXEC")[2] == b"*1\r\n:0\r\n"
    assert run(region, "MULTI; XADD s 1-1 f v; EXEC")[1:] == [f"-{DISK_FULL}\r\n".encode(), ABORTED]


def test_a_transaction_that_frees_room_runs_on_a_full_disk(region: Region) -> None:
    region.line("XADD s 1-1 f v")
    standing = region.context.standing
    standing.writable, standing.removal_bytes, standing.member_bytes = False, 1 << 16, 1 << 16
    assert run(region, "MULTI; XLEN s; XTRIM s MAXLEN 0; EXEC")[-1] == b"*2\r\n:1\r\n:1\r\n"
    assert run(region, "MULTI; DEL s; XADD s 2-1 f v; EXEC")[-2:] == [f"-{DISK_FULL}\r\n".encode(), ABORTED]
    run(region, "MULTI; DEL s")
    standing.removal_bytes = 0
    assert str(run(region, "EXEC")[0]).startswith("b'-EXECABORT")


def test_only_what_runs_is_counted(region: Region) -> None:
    run(region, "MULTI; PING; PING; DISCARD; MULTI; PING; FOO; EXEC; MULTI; PING; ECHO; DISCARD; MULTI; PING; EXEC")
    statistics = region.context.statistics
    assert statistics.tally("ping").calls == 1
    assert [name for name, tally in statistics.tallies.items() if tally.rejected] == ["echo"]
    assert [name for name, tally in statistics.tallies.items() if tally.failed] == ["exec"]


def test_client_list_shows_a_transaction(region: Region) -> None:
    other = region.connect()
    run(region, "WATCH s; MULTI; PING; PING")
    region.line("XADD s 1-1 f v", other)
    reply = region.line("CLIENT LIST ID 1", other)
    assert reply is not None and b" flags=dx " in reply and b" multi=2 " in reply
    region.line("DISCARD")
    reply = region.line("CLIENT LIST ID 1", other)
    assert reply is not None and b" flags=N " in reply and b" multi=-1 " in reply


def test_a_muted_client_hears_nothing_of_its_transaction(region: Region) -> None:
    assert run(region, "CLIENT REPLY OFF; MULTI; PING; EXEC; CLIENT REPLY ON") == [b"", b"", b"", b"", b"+OK\r\n"]
    assert run(region, "MULTI; CLIENT REPLY SKIP; PING; EXEC")[:3] == [b"+OK\r\n", b"+QUEUED\r\n", b"+QUEUED\r\n"]


# Running


def test_the_clock_stands_still(region: Region) -> None:
    region.configure(id_mode="liberal")
    run(region, "MULTI; XADD s * f v; XADD s * f v; TIME; XADD t * f v")
    region.replica.keyspace.now_ms += 5
    ms = region.context.now_ms
    reply = read_reply(region.line("EXEC") or b"")
    assert reply == [f"{ms}-0", f"{ms}-1", [str(ms // 1000), str(ms % 1000 * 1000)], f"{ms}-0"]


def test_who_waits_sees_the_result_only(region: Region) -> None:
    reader = region.connect()
    assert region.line("XREAD BLOCK 0 STREAMS s $", reader) is None
    run(region, "MULTI; XADD s 1-1 f v; DEL s; EXEC")
    assert region.late_replies(reader) == []
    run(region, "MULTI; XADD s 2-1 f v; XADD s 2-2 f v; XDEL s 2-1")
    assert region.late_replies(reader) == []
    region.line("EXEC")
    (reply,) = region.late_replies(reader)
    assert b"2-2" in reply and b"2-1" not in reply


def test_a_wait_inside_is_over_at_once(region: Region) -> None:
    run(region, "MULTI; XREAD BLOCK 0 STREAMS s $; DEBUG SLEEP 10; WAIT 3 0")
    assert region.line("EXEC") == b"*3\r\n*-1\r\n+OK\r\n:0\r\n"
    assert not region.client.parked and len(region.context.parking) == 0


def test_wait_covers_a_transaction(region: Region) -> None:
    run(region, "MULTI; XADD s 1-1 f v; XADD s 1-2 f v; EXEC")
    assert region.client.written_counter == 2


# Watching


def test_a_closed_connection_watches_nothing() -> None:
    cluster = Cluster(1, STRICT)
    node = cluster.node(1)
    cluster.execute(1, b"WATCH a b".split())
    assert len(node.context.watches) == 2
    node.disconnect(CLIENT)
    assert len(node.context.watches) == 0
    cluster.check()


def exec_after(cluster: Cluster, change: Callable[[], object]) -> bytes | None:
    cluster.execute(1, b"WATCH k".split())
    change()
    cluster.execute(1, b"MULTI".split())
    cluster.execute(1, b"PING".split())
    return cluster.execute(1, b"EXEC".split())


@pytest.mark.parametrize("before", ["", "XADD k * f v", "XADD k * f v|DEL k"])
@pytest.mark.parametrize("change", ["XADD k * f v", "XADD k * f v|DEL k", "XGROUP CREATE k g 0 MKSTREAM"])
def test_another_region_counts_as_a_change(before: str, change: str) -> None:
    cluster = Cluster(2, STRICT)

    def other_region(script: str) -> None:
        for line in filter(None, script.split("|")):
            cluster.execute(2, line.encode().split())
        cluster.sync()

    other_region(before)
    assert exec_after(cluster, lambda: other_region("XADD other * f v")) == b"*1\r\n+PONG\r\n"
    assert exec_after(cluster, lambda: other_region(change)) == NULL
    assert exec_after(cluster, lambda: None) == b"*1\r\n+PONG\r\n"
    cluster.check()


def test_a_change_between_watch_and_exec_of_one_turn() -> None:
    """Nothing has ended the turn, and nobody waits: the change must be seen all the same."""
    cluster = Cluster(2, STRICT)
    node = cluster.node(1)
    region = cluster.machines[1]
    region.connect(OTHER, cluster.now_ms)
    for text, changed in (("XADD k * f v", True), ("XADD j * f v", False)):
        region.node.execute(OTHER, b"XADD k * f v".split(), 1)
        node.execute(CLIENT, b"WATCH k".split(), 1)
        node.execute(OTHER, text.encode().split(), 1)
        node.execute(CLIENT, b"MULTI".split(), 1)
        node.execute(CLIENT, b"EXEC".split(), 1)
        region.perform()
        reply = region.pop_reply()
        assert reply is not None and reply.endswith(NULL if changed else b"*0\r\n")


def test_an_acknowledgement_of_another_region_is_no_change() -> None:
    cluster = Cluster(2, STRICT)
    cluster.execute(1, b"XADD k * f v".split())
    cluster.execute(1, b"XGROUP CREATE k g 0".split())
    cluster.sync()

    def acknowledge() -> None:
        reply = cluster.execute(2, b"XREADGROUP GROUP g c STREAMS k >".split())
        (stream,) = read_reply(reply or b"")  # type: ignore[misc, str-unpack]
        entry_id = stream[1][0][0]  # type: ignore[index]
        assert cluster.execute(2, [b"XACK", b"k", b"g", str(entry_id).encode()]) == b":1\r\n"
        cluster.sync()

    assert exec_after(cluster, acknowledge) == b"*1\r\n+PONG\r\n"


def test_a_key_that_expired_meanwhile_has_changed(region: Region) -> None:
    run(region, "XADD k 1-1 f v; PEXPIRE k 10; WATCH k")
    region.replica.keyspace.now_ms += 50
    assert run(region, "MULTI; PING; EXEC")[2] == NULL
    assert run(region, "WATCH k; MULTI; PING; EXEC")[3] == b"*1\r\n+PONG\r\n"


# As a whole


TRANSACTION = (
    "XACK s g {first}",
    "XADD s * f 1",
    "XDEL s {first}",
    "XADD t * f 1",
    "XADD u * f 1",
    "XGROUP CREATE t g 0",
)
VIEWS = ("XRANGE s - +", "XRANGE t - +", "XLEN u", "XPENDING s g - + 10", "XINFO GROUPS t")


def prepared(cluster: Cluster) -> list[list[bytes]]:
    """A stream with one delivered entry; the transaction's requests."""
    first = read_reply(cluster.execute(1, b"XADD s * f 0".split()) or b"")
    cluster.execute(1, b"XGROUP CREATE s g 0".split())
    cluster.execute(1, b"XREADGROUP GROUP g c STREAMS s >".split())
    cluster.sync()
    lines = ["MULTI", *TRANSACTION, "EXEC"]
    return [line.format(first=first).encode().split() for line in lines]


def view(cluster: Cluster, number: int) -> list[object]:
    """All that the transaction changes; idle times are masked by a clock that stands still."""
    return [cluster.execute(number, text.encode().split()) for text in VIEWS]


@pytest.mark.interpreted
def test_nothing_cuts_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the turn nor the replica closes it while EXEC runs; the whole is one batch and one record of facts."""
    cluster = Cluster(1, STRICT)
    requests = prepared(cluster)
    node = cluster.node(1)
    closed: list[str] = []
    taken: list[Taken] = []
    drain = Replica.drain

    def draining(self: Replica) -> Taken:
        closed.append("drain")
        taken.append(drain(self))
        return taken[-1]

    monkeypatch.setattr(Replica, "drain", draining)
    monkeypatch.setattr(Turn, "apply", lambda _self, _payload: closed.append("apply"))
    for argv in requests:
        node.execute(CLIENT, argv, cluster.now_ms)
    assert closed == []
    cluster.machines[1].perform()
    batches = [one.batch for one in taken if one.batch is not None]
    assert len(batches) == 1 and len(batches[0].effects) >= 5
    assert [len(one.facts) for one in taken if one.facts] == [1]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), message_bytes=st.sampled_from([64, 200, 256 << 10]))
def test_a_peer_sees_all_or_nothing(seed: int, message_bytes: int) -> None:
    """Message by message, cut and healed in between; small messages send the batch in parts."""
    rng = Random(seed)
    limits = Limits(message_bytes=message_bytes, message_bytes_max=max(message_bytes, 4 << 10))
    cluster = Cluster(2, STRICT, limits=limits)
    requests = prepared(cluster)
    before = view(cluster, 2)
    cluster.execute_turn(1, requests)
    seen = [before]
    for _ in range(200):
        if rng.random() < 0.1:
            cluster.cut(1, 2)
            cluster.heal(1, 2)
        moved = cluster.carry_one(1, 2)
        moved = (rng.random() < 0.5 and cluster.carry_one(2, 1)) or moved
        now = view(cluster, 2)
        if now != seen[-1]:
            seen.append(now)
        if not moved and len(seen) > 1:
            break
    cluster.sync()
    assert len(seen) == 2, "the peer showed something in between"
    assert view(cluster, 2) == seen[-1]
    cluster.check()


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 2**32), fsync=st.sampled_from(["always", "everysec"]))
def test_a_crash_leaves_all_or_nothing(seed: int, fsync: str) -> None:
    """Power is lost with the turn appended and not synced, and once more afterwards."""
    cluster = Cluster(1, STRICT, fsync)
    region = cluster.machines[1]
    requests = prepared(cluster)
    region.sync()
    before = view(cluster, 1)
    for argv in requests:
        region.node.execute(CLIENT, argv, cluster.now_ms)
    ready = region.node.ready()
    assert ready is not None
    region.log.append(ready.records)
    rng = Random(seed)
    cluster.lose_power(1, rng)
    after = view(cluster, 1)
    if after != before:
        assert b"PONG" not in after and after[2] == b":1\r\n"
        assert after[3] == b"*0\r\n", "added, but not acknowledged"
        assert after[4] != before[4], "added, but no group"
    cluster.execute(1, b"XADD u * f 2".split())
    region.sync()
    between = view(cluster, 1)
    cluster.lose_power(1, rng)
    assert view(cluster, 1) == between
    cluster.check()


def test_facts_whose_batch_is_torn_off_are_dropped() -> None:
    """The record of facts reached the disk, the batch behind it did not; also when the log goes on afterwards."""
    cluster = Cluster(1, STRICT)
    region = cluster.machines[1]
    requests = prepared(cluster)
    before = view(cluster, 1)
    for argv in requests:
        region.node.execute(CLIENT, argv, cluster.now_ms)
    ready = region.node.ready()
    assert ready is not None and len(ready.records) == 2
    region.log.append(ready.records[:1])
    for _ in range(2):
        cluster.restart(1)
        assert view(cluster, 1) == before
        cluster.execute(1, b"XADD x * f v".split())
    cluster.check()
