"""Tokens on simulated regions: a client that moves finds what it has seen, however it gets there."""

from __future__ import annotations

import random

from crdtstream.core.values.entry_id import LIBERAL
from crdtstream.scenarios.reply import Value, read_reply
from simulations.cluster import CLIENT, Cluster

WAITING = None


def ask(cluster: Cluster, number: int, text: str) -> Value:
    reply = cluster.execute(number, text.encode().split())
    assert reply is not None, f"{text} waits"
    return read_reply(reply)


def token_of(cluster: Cluster, number: int) -> bytes:
    return str(ask(cluster, number, "CRDT.TOKEN")).encode()


def start_await(cluster: Cluster, number: int, token: bytes, timeout_ms: int = 0) -> bytes | None:
    return cluster.execute(number, [b"CRDT.AWAIT", token, b"%d" % timeout_ms])


def test_a_client_that_moves_reads_its_writes() -> None:
    cluster = Cluster(3, LIBERAL)
    ask(cluster, 1, "XADD s * f v")
    token = token_of(cluster, 1)
    assert start_await(cluster, 2, token) is WAITING
    cluster.sync()
    assert cluster.pop_reply(2) == b"+OK\r\n"
    assert ask(cluster, 2, "XLEN s") == 1


def test_what_was_only_read_is_awaited_too() -> None:
    """Region 2 writes, region 1 shows it, and region 3 has no link to region 2."""
    cluster = Cluster(3, LIBERAL)
    cluster.sync()
    cluster.cut(2, 3)
    ask(cluster, 2, "XADD s * f v")
    cluster.sync(1, 2)
    token = token_of(cluster, 1)
    assert start_await(cluster, 3, token) is WAITING
    cluster.sync(1, 3)
    assert cluster.pop_reply(3) == b"+OK\r\n"
    assert ask(cluster, 3, "XLEN s") == 1


def test_a_token_is_short_once_its_region_has_written() -> None:
    cluster = Cluster(2, LIBERAL)
    for _ in range(5):
        cluster.restart(2)
        ask(cluster, 2, "XADD s * f v")
        cluster.sync()
    whole = len(token_of(cluster, 2))
    ask(cluster, 1, "XADD s * f v")
    assert len(token_of(cluster, 1)) < whole + 10 < 60


def test_a_token_survives_a_state_transfer() -> None:
    cluster = Cluster(2, LIBERAL)
    cluster.sync()
    cluster.cut(1, 2)
    ask(cluster, 1, "XADD s * f v")
    token = token_of(cluster, 1)
    assert start_await(cluster, 2, token) is WAITING
    cluster.machines[1].cut_log()
    cluster.heal(1, 2)
    cluster.sync()
    assert cluster.pop_reply(2) == b"+OK\r\n"
    assert ask(cluster, 2, "XLEN s") == 1


def test_a_restart_that_loses_nothing_is_waited_for() -> None:
    """Region 2 has evicted region 1's earlier origin before it has all of its effects."""
    cluster = Cluster(2, LIBERAL)
    cluster.sync()
    cluster.cut(1, 2)
    ask(cluster, 1, "XADD s * f v")
    token = token_of(cluster, 1)
    cluster.machines[1].sync()
    cluster.restart(1)
    assert start_await(cluster, 2, token) is WAITING
    cluster.heal(1, 2)
    cluster.live(3_000)
    assert cluster.pop_reply(2) == b"+OK\r\n"


def test_a_write_that_power_took_is_lost() -> None:
    cluster = Cluster(3, LIBERAL)
    cluster.live(1_000)
    cluster.cut(1, 2)
    cluster.cut(1, 3)
    ask(cluster, 1, "XADD s * f v")
    token = token_of(cluster, 1)
    cluster.lose_power(1, random.Random(0), 0.0)
    assert start_await(cluster, 2, token) is WAITING
    cluster.heal(1, 2)
    cluster.heal(1, 3)
    cluster.live(5_000)
    reply = cluster.pop_reply(2)
    assert reply is not None and reply.startswith(b"-LOST no member has the write 1."), reply
    again = start_await(cluster, 1, token)
    assert again is not None and again.startswith(b"-LOST"), again


def test_a_write_that_another_region_has_is_not_lost() -> None:
    """Region 1 loses what it had sent to region 3 alone, which is away."""
    cluster = Cluster(3, LIBERAL)
    cluster.live(1_000)
    cluster.cut(1, 2)
    cluster.cut(2, 3)
    ask(cluster, 1, "XADD s * f v")
    token = token_of(cluster, 1)
    cluster.carry(1, 3)
    cluster.cut(1, 3)
    cluster.lose_power(1, random.Random(0), 0.0)
    cluster.heal(1, 2)
    assert start_await(cluster, 2, token) is WAITING
    cluster.live(5_000)
    assert cluster.pop_reply(2) is None
    cluster.heal(2, 3)
    cluster.live(1_000)
    assert cluster.pop_reply(2) == b"+OK\r\n"
    assert cluster.machines[2].node.context.clients[CLIENT].parked is False


# Conflicts


def kinds(cluster: Cluster, number: int, *since: str) -> tuple[str, list[str]]:
    """The cursor, and the kinds of what region `number` saw in `s`."""
    reply = ask(cluster, number, " ".join(["CRDT.CONFLICTS s", *since]))
    assert isinstance(reply, list) and isinstance(reply[3], list)
    return str(reply[1]), [str(row[1]) for row in reply[3] if isinstance(row, list)]


def test_every_region_saw_what_survived_a_delete() -> None:
    cluster = Cluster(3, LIBERAL)
    ask(cluster, 1, "XADD s 1-0 f v")
    cluster.sync()
    ask(cluster, 1, "DEL s")
    ask(cluster, 2, "XADD s 2-0 f v")
    cluster.carry(2, 3)
    cluster.sync()
    for number in (1, 2, 3):
        assert kinds(cluster, number)[1] == ["adds-survived-delete"]
    cluster.check()


def test_a_restart_and_a_state_transfer_leave_gaps() -> None:
    cluster = Cluster(2, LIBERAL)
    ask(cluster, 1, "XADD s 1-0 f v")
    cluster.sync()
    cursor, nothing = kinds(cluster, 2)
    assert nothing == []
    cluster.cut(1, 2)
    ask(cluster, 1, "DEL s")
    ask(cluster, 2, "XADD s 2-0 f v")
    cluster.machines[1].cut_log()
    cluster.heal(1, 2)
    cluster.sync()
    assert kinds(cluster, 2, "SINCE", cursor)[1] == ["gap"]
    cluster.restart(2)
    cluster.live(1_000)
    assert kinds(cluster, 2)[1] == []
    assert kinds(cluster, 2, "SINCE", cursor)[1] == ["gap"]


# Reads by cursor


def read_on(cluster: Cluster, number: int, cursor: str) -> tuple[list[str], str]:
    """The IDs that come next in `s`, and the cursor behind them."""
    reply = ask(cluster, number, f"CRDT.XREAD STREAMS s {cursor}")
    if reply is None:
        return [], cursor
    assert isinstance(reply, list) and isinstance(reply[0], list)
    _, entries, after = reply[0]
    assert isinstance(entries, list)
    return [str(entry[0]) for entry in entries if isinstance(entry, list)], str(after)


def test_a_reader_that_moves_gets_every_entry_once() -> None:
    cluster = Cluster(3, LIBERAL)
    cluster.sync()
    cluster.cut(2, 3)
    cluster.cut(1, 2)
    for number, entry_id in ((1, "5-0"), (2, "3-0"), (3, "4-0")):
        ask(cluster, number, f"XADD s {entry_id} f v")
    ids, cursor = read_on(cluster, 1, "0")
    assert ids == ["5-0"]
    cluster.sync(1, 3)
    ids, cursor = read_on(cluster, 3, cursor)
    assert ids == ["4-0"]
    ids, cursor = read_on(cluster, 2, cursor)
    assert ids == ["3-0"]
    cluster.restart(2)
    ask(cluster, 2, "XADD s 6-0 f v")
    cluster.heal(1, 2)
    cluster.heal(2, 3)
    cluster.sync()
    assert [read_on(cluster, number, cursor)[0] for number in (1, 2, 3)] == [["6-0"]] * 3


def test_a_state_transfer_returns_nothing_twice() -> None:
    cluster = Cluster(2, LIBERAL)
    ask(cluster, 1, "XADD s 1-0 f v")
    cluster.sync()
    _, cursor = read_on(cluster, 2, "0")
    cluster.cut(1, 2)
    ask(cluster, 1, "XADD s 2-0 f v")
    cluster.machines[1].cut_log()
    cluster.heal(1, 2)
    cluster.sync()
    assert read_on(cluster, 2, cursor)[0] == ["2-0"]


def test_a_blocked_reader_is_woken_by_another_regions_entry() -> None:
    cluster = Cluster(2, LIBERAL)
    ask(cluster, 1, "XADD s 5-0 f v")
    cluster.sync()
    _, cursor = read_on(cluster, 1, "0")
    assert cluster.execute(1, f"CRDT.XREAD BLOCK 0 STREAMS s {cursor}".encode().split()) is WAITING
    ask(cluster, 2, "XADD s 7-0 f v")
    cluster.sync()
    reply = cluster.pop_reply(1)
    assert reply is not None and b"7-0" in reply
