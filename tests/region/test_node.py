"""One region without sockets: the order of what comes out, and what clients can make it do."""

from __future__ import annotations

import dataclasses

import pytest

from crdtstream.commands.table import TABLE
from crdtstream.connections.client import Client
from crdtstream.connections.command import Command
from crdtstream.connections.context import Context, Reply
from crdtstream.core.values.entry_id import STRICT
from crdtstream.protocols import codec, replies
from crdtstream.scenarios.reply import Value, read_reply
from crdtstream.settings.config import Config, Limits
from simulations.cluster import CLIENT, Cluster
from simulations.machine import Machine

START_MS = 1_000


def region_of(fsync: str = "everysec", **limits: int) -> Machine:
    config = Config(name="east", region=1, cluster="c", fsync=fsync, id_mode=STRICT, incarnation=0)
    small = dataclasses.replace(Limits(), segment_bytes_max=1 << 20, **limits)
    region = Machine(dataclasses.replace(config, limits=small), START_MS)
    for client_id in range(2, 6):
        region.connect(client_id, START_MS)
    return region


def run(region: Machine, text: str, client_id: int = CLIENT, now_ms: int = START_MS) -> Value:
    reply = region.execute(text.encode().split(), now_ms, client_id)
    return None if reply is None else read_reply(reply)


def feed(region: Machine, client_id: int, *texts: str) -> bytes | None:
    """A pipeline in one turn."""
    for text in texts:
        region.node.execute(client_id, text.encode().split(), START_MS)
    region.perform()
    return region.pop_reply(client_id)


# Order


def test_nothing_to_do_is_none() -> None:
    node = region_of().node
    assert node.ready() is None


def test_records_come_with_the_replies_that_need_them() -> None:
    node = region_of().node
    for text in ("XADD x * f v", "XLEN x"):
        node.execute(CLIENT, text.encode().split(), START_MS)
    ready = node.ready()
    assert ready is not None
    assert [kind for kind, _ in ready.records] == [codec.BATCH]
    assert [client_id for client_id, _ in ready.replies] == [CLIENT]
    assert ready.replies[0][1].endswith(b":1\r\n")
    assert node.ready() is None


def test_under_always_replies_wait_for_the_sync_and_reads_with_them() -> None:
    region = region_of("always")
    node = region.node
    node.execute(CLIENT, b"XADD x * f v".split(), START_MS)
    node.execute(2, b"XLEN x".split(), START_MS)
    ready = node.ready()
    assert ready is not None and ready.records and not ready.replies
    region.log.append(ready.records)
    assert node.ready() is None
    node.synced(region.log.sync())
    ready = node.ready()
    assert ready is not None
    assert [client_id for client_id, _ in ready.replies] == [CLIENT, 2]


@pytest.mark.parametrize("fsync", ["always", "everysec"])
def test_a_client_is_closed_behind_its_last_reply(fsync: str) -> None:
    region = region_of(fsync)
    node = region.node
    for text in ("XADD x * f v", "QUIT", "XADD x * f v", "PING"):
        node.execute(CLIENT, text.encode().split(), START_MS)
    said = b""
    while (ready := node.ready()) is not None:
        region.log.append(ready.records)
        said += b"".join(reply for _, reply in ready.replies)
        if ready.closing:
            assert ready.closing == [CLIENT] and said.endswith(b"+OK\r\n")
        node.synced(region.log.sync())
    assert said.count(b"\r\n") == 3, "what stands behind QUIT is not heard"
    assert run(region, "XLEN x", 2) == 1


def test_a_client_that_kills_itself_is_not_heard_any_more() -> None:
    region = region_of()
    said = feed(region, 2, "CLIENT KILL ID 2 SKIPME no", "XADD x * f v")
    assert said == b":1\r\n"
    assert 2 not in region.node.context.clients
    assert run(region, "XLEN x") == 0


def test_a_refusal_is_the_last_word() -> None:
    region = region_of()
    region.node.refuse(2, b"-ERR Protocol error\r\n")
    region.node.refuse(2, b"-ERR again\r\n")
    region.node.execute(2, [b"PING"], START_MS)
    region.perform()
    assert region.pop_reply(2) == b"-ERR Protocol error\r\n"
    assert 2 not in region.node.context.clients


def test_a_client_that_ended_gets_its_replies() -> None:
    region = region_of()
    region.node.execute(2, b"XADD x * f v".split(), START_MS)
    region.node.ended(2)
    region.perform()
    assert (region.pop_reply(2) or b"").startswith(b"$")
    assert 2 not in region.node.context.clients
    region.node.ended(2)


# Waiting


def test_requests_behind_a_wait_run_when_it_ends() -> None:
    region = region_of()
    assert feed(region, 2, "XREAD BLOCK 0 STREAMS x $", "XLEN x", "QUIT", "PING") is None
    run(region, "XADD x * f v")
    said = region.pop_reply(2)
    assert said is not None and said.endswith(b":1\r\n+OK\r\n")
    assert 2 not in region.node.context.clients
    region.node.check()


def test_a_chain_of_waits_as_long_as_there_are_clients() -> None:
    """Each reader's backlog holds the command that wakes the next one."""
    region = region_of()
    count = 2_000
    for number in range(count):
        client_id = 100 + number
        region.connect(client_id, START_MS)
        feed(region, client_id, f"XREAD BLOCK 0 STREAMS k{number} $", f"XADD k{number + 1} * f v")
    run(region, "XADD k0 * f v")
    assert run(region, f"XLEN k{count}") == 1
    assert len(region.node.context.parking) == 0
    region.node.check()


def test_two_readers_that_feed_each_other_are_answered_once() -> None:
    region = region_of()
    feed(region, 2, "XREAD BLOCK 0 STREAMS x y $ $", "XADD y * by 2")
    feed(region, 3, "XREAD BLOCK 0 STREAMS x y $ $", "XADD x * by 3")
    run(region, "XADD x * f v")
    for client_id in (2, 3):
        said = region.pop_reply(client_id)
        assert said is not None
        assert said.startswith(b"*1\r\n") and said.count(b"*2\r\n$1\r\nx") == 1
    region.node.check()


def test_a_client_that_waits_and_leaves_is_forgotten() -> None:
    region = region_of()
    feed(region, 2, "XREAD BLOCK 0 STREAMS x $", "XADD y * f v")
    region.node.disconnect(2)
    run(region, "XADD x * f v")
    assert run(region, "XLEN y") == 0
    region.node.check()


def test_what_waits_behind_a_wait_is_bounded() -> None:
    region = region_of(query_bytes_max=1 << 16)
    feed(region, 2, "XREAD BLOCK 0 STREAMS x $", *["XADD y * f v"] * 1_000)
    assert 2 not in region.node.context.clients
    assert "query_bytes_max" in region.node.notices[0].text
    run(region, "XADD x * f v")
    assert run(region, "XLEN y") == 0


@pytest.mark.parametrize("asked_ms", [0, 1, 500])
def test_deadlines_follow_a_clock_that_is_set_back(asked_ms: int) -> None:
    region = region_of()
    assert run(region, "XREAD BLOCK 100 STREAMS x $", 2) is None
    region.node.tick(asked_ms)
    region.perform()
    assert region.pop_reply(2) is None
    region.node.tick(asked_ms + 100)
    region.perform()
    assert region.pop_reply(2) == b"*-1\r\n"


def test_ids_ascend_while_the_clock_is_set_back() -> None:
    region = region_of()
    ids = [run(region, "XADD x * f v", now_ms=now_ms) for now_ms in (5_000, 4_000, 0, 4_999, 5_001)]
    assert [str(one).split("-")[0] for one in ids] == ["5000", "5000", "5000", "5000", "5001"]
    assert len(set(map(str, ids))) == len(ids)
    region.node.tick(0)
    region.node.check()


# Faults


def harmless(_context: Context, _client: Client, _argv: list[bytes]) -> Reply:
    raise ZeroDivisionError("a fault of ours")


def harmful(context: Context, _client: Client, _argv: list[bytes]) -> Reply:
    context.replica.add_entry((0, b"x"), (5, 1), [b"f", b"v"])
    raise ZeroDivisionError("too late")


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, function in ((b"HARMLESS", harmless), (b"HARMFUL", harmful)):
        monkeypatch.setitem(TABLE, name, Command(name.decode().lower(), function, arity=-1))


@pytest.mark.usefixtures("faulty")
def test_a_command_that_fails_is_answered() -> None:
    region = region_of()
    run(region, "XADD x * f v")
    said = feed(region, 2, "PING", "HARMLESS", "PING")
    assert said is not None
    first, error, last, _ = said.split(b"\r\n")
    assert (first, last) == (b"+PONG", b"+PONG")
    assert error.startswith(b"-ERR internal error: ZeroDivisionError in harmless; nothing was changed")
    [notice] = region.node.notices
    assert (notice.event, notice.text) == ("command-failed", "harmless failed")
    assert isinstance(notice.error, ZeroDivisionError)
    assert run(region, "XLEN x") == 1
    region.node.check()


@pytest.mark.usefixtures("faulty")
def test_a_command_that_fails_after_it_changed_something_leaves_the_node() -> None:
    """Memory and log may differ from here on; the log has nothing of it."""
    region = region_of()
    run(region, "XADD x * f v")
    with pytest.raises(ZeroDivisionError):
        run(region, "HARMFUL")
    region.start(START_MS)
    region.node.check()
    assert run(region, "XLEN x") == 1


# Bounds


def test_output_of_one_turn_is_bounded() -> None:
    region = region_of(output_bytes_max=1 << 20, turn_reply_bytes_max=8 << 20)
    region.execute([b"XADD", b"x", b"*", b"f", bytes(100_000)], START_MS)
    for _ in range(50):
        region.node.execute(2, b"XRANGE x - +".split(), START_MS)
    ready = region.node.ready()
    assert ready is not None
    assert ready.closing == [2] and not ready.replies
    assert "output_bytes_max" in region.node.notices[0].text
    assert run(region, "XLEN x", 3) == 1


def test_a_full_disk_refuses_what_needs_a_record() -> None:
    region = region_of()
    run(region, "XADD x * f v")
    region.node.writable(False)
    refused = region.execute(b"XADD x * f v".split(), START_MS)
    assert refused is not None and refused.startswith(b"-MISCONF")
    assert run(region, "XLEN x") == 1
    region.node.writable(True)
    run(region, "XADD x * f v")
    assert run(region, "XLEN x") == 2


def test_commands_are_refused_until_there_is_an_origin() -> None:
    config = Config(name="east", region=1, cluster="c", peers=("127.0.0.1:1",))
    region = Machine(dataclasses.replace(config, limits=Limits(segment_bytes_max=1 << 20)), START_MS)
    said = region.execute(b"XADD x * f v".split(), START_MS)
    assert said is not None and said.startswith(b"-LOADING ") and b"127.0.0.1:1" in said
    assert region.execute([b"PING"], START_MS) == said, "balancers send nothing to a region that cannot serve"
    assert region.execute([b"ECHO", b"x"], START_MS) == replies.bulk(b"x")


def test_peers_that_are_not_linked_are_shown_with_the_reason() -> None:
    config = Config(name="east", region=1, cluster="c", peers=("west:1", "north:1"), incarnation=0)
    region = Machine(dataclasses.replace(config, limits=Limits(segment_bytes_max=1 << 20)), START_MS)
    region.node.peer_met("west:1", 2)
    region.node.peer_failed("west:1", "the peer refused: another cluster")
    region.node.tick(START_MS + 5_000)
    shown = [(peer.region, peer.address, peer.link, peer.unlinked_ms) for peer in region.node.neighbours.peers()]
    assert shown == [(0, "north:1", "none", 5_000), (2, "west:1", "none", 5_000)]
    assert [peer.reason for peer in region.node.neighbours.peers()] == [
        "it has not been reached yet",
        "the peer refused: another cluster",
    ]


def test_a_stop_ends_with_its_mark() -> None:
    region = region_of()
    region.node.execute(CLIENT, b"XADD x * f v".split(), START_MS)
    ready = region.node.stop()
    assert [kind for kind, _ in ready.records] == [codec.BATCH, codec.STOP]
    assert ready.replies and ready.closing == sorted(region.node.context.clients)


# Links


def test_a_blocked_reader_is_woken_by_another_region() -> None:
    cluster = Cluster(2, STRICT)
    assert cluster.execute(2, b"XREAD BLOCK 0 STREAMS x $".split()) is None
    cluster.execute(1, b"XADD x * f v".split())
    cluster.sync()
    assert (cluster.machines[2].pop_reply() or b"").startswith(b"*1\r\n")


def test_only_what_is_synced_is_served_under_always() -> None:
    cluster = Cluster(2, STRICT, "always")
    cluster.sync()  # what regions say of each other as members is synced at once
    cluster.machines[1].sync_policy = False
    cluster.execute(1, b"XADD x * f v".split())
    cluster.sync()
    assert read_reply(cluster.execute(2, b"XLEN x".split()) or b"") == 0
    cluster.machines[1].sync()
    cluster.sync()
    assert read_reply(cluster.execute(2, b"XLEN x".split()) or b"") == 1


def test_peers_are_shown_while_they_are_linked_and_after() -> None:
    cluster = Cluster(2, STRICT)
    cluster.sync()
    cluster.tick(1)
    assert [(peer.region, peer.link) for peer in cluster.node(1).neighbours.peers()] == [(2, "open")]
    cluster.cut(1, 2)
    assert [(peer.region, peer.link) for peer in cluster.node(1).neighbours.peers()] == [(2, "none")]
