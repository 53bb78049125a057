"""All links of a region together: what passes the gates, what peers are told, what strange batches meet."""

from __future__ import annotations

from dataclasses import replace

import msgpack
import pytest

from crdtstream.core.effects import Batch
from crdtstream.core.values.causality import VersionVector
from crdtstream.core.values.entry_id import STRICT
from crdtstream.protocols import codec
from crdtstream.protocols.columns import column, flat
from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication.exchange.exchange import Exchange
from crdtstream.replication.transfer.snapshot import Snapshot
from crdtstream.scenarios.reply import read_reply
from crdtstream.settings.config import Limits
from simulations.cluster import Cluster


def run(cluster: Cluster, number: int, text: str) -> object:
    return read_reply(cluster.execute(number, text.encode().split()) or b"")


def exchange_of(cluster: Cluster, number: int) -> Exchange:
    return cluster.node(number).exchange


def message_from(cluster: Cluster, sender: int, receiver: int) -> wire.Message:
    """The next message with batches."""
    link = cluster.link(sender, receiver)
    for _ in range(10):
        message = cluster.node(sender).outgoing(link.number, 1 << 20, cluster.now_ms)
        if message is not None and message.HasField("batches"):
            return message
    raise AssertionError("no batches")


def test_direct_origins_are_those_of_open_links() -> None:
    cluster = Cluster(3, STRICT)
    cluster.sync()
    assert exchange_of(cluster, 1).direct_origins() == [2, 3]
    assert exchange_of(cluster, 1).greeted() == [2, 3]
    cluster.cut(1, 3)
    assert exchange_of(cluster, 1).direct_origins() == [2]
    assert [session.peer_region for session in exchange_of(cluster, 1).sessions()] == [2]
    assert exchange_of(cluster, 1).unlinked() == [3]
    assert exchange_of(cluster, 1).name_of(3) == cluster.node(3).settings.config.name


def test_a_state_that_is_whole_and_was_not_joined_is_let_go_at_the_start() -> None:
    """It brought nothing, or the join was torn off the log."""
    cluster = Cluster(2, STRICT)
    cluster.sync()
    run(cluster, 1, "XADD x * f v")
    exchange, snapshot = (
        exchange_of(cluster, 2),
        Snapshot(cluster.node(1).replica, cluster.node(1).birth.founders_left()),
    )
    exchange.fetching.restage(codec.encode_staged(1, 7, 0, snapshot.chunk(10)))
    exchange.end_replay()
    assert exchange.fetching.staged() == (7, 1), "what is not whole goes on"
    index = 1
    while not snapshot.is_done():
        exchange.fetching.restage(codec.encode_staged(1, 7, index, snapshot.chunk(1_000)))
        index += 1
    exchange.end_replay()
    assert exchange.fetching.staged() == (0, 0)
    cluster.check()


def test_a_batch_waits_for_what_its_context_names() -> None:
    """Region 2's entry saw region 1's, which has not come to region 3 yet."""
    cluster = Cluster(3, STRICT)
    cluster.sync()
    cluster.cut(1, 3)
    run(cluster, 1, "XADD x * from 1")
    cluster.carry(1, 2)
    run(cluster, 2, "XADD x * from 2")
    message = message_from(cluster, 2, 3)
    kept = [payload for payload in message.batches.payloads if codec.decode_header(payload).origin == 2]
    del message.batches.payloads[:]
    message.batches.payloads.extend(kept)
    cluster.node(3).receive(cluster.link(2, 3).number, message, cluster.now_ms)
    cluster.machines[3].perform()
    assert run(cluster, 3, "XLEN x") == 0
    assert exchange_of(cluster, 3).waiting()[0] == 1
    cluster.check()
    cluster.heal(1, 3)
    cluster.sync()
    assert run(cluster, 3, "XLEN x") == 2
    assert exchange_of(cluster, 3).waiting() == (0, 0)


def test_a_batch_that_comes_twice_is_applied_once() -> None:
    cluster = Cluster(2, STRICT)
    cluster.sync()
    run(cluster, 1, "XADD x * f v")
    message = message_from(cluster, 1, 2)
    for _ in range(2):
        cluster.node(2).receive(cluster.link(1, 2).number, message, cluster.now_ms)
        cluster.machines[2].perform()
    assert run(cluster, 2, "XLEN x") == 1
    assert cluster.node(2).link_verdict(cluster.link(1, 2).number) is None


def rewritten(payload: bytes, row_index: int, column: int, value: object) -> bytes:
    unpacker = msgpack.Unpacker(None, use_list=True, raw=True)
    unpacker.feed(payload)
    rows = list(unpacker)
    rows[row_index][column] = value
    return b"".join(msgpack.packb(row) for row in rows)


@pytest.mark.parametrize(
    ("row", "column", "value", "reason"),
    [
        (0, 0, 0, "batch origin"),
        (0, 1, 0, "first counter"),
        (0, 2, 9, "ends early"),
        (1, 0, 200, ""),
        (1, 1, 2**64 - 1, "there is no database"),
        (1, 1, 16, "there is no database 16"),
        (1, 2, 5, "name of the key"),
        (1, 5, b"\xff" * 9, ""),
        (1, 8, b"", ""),
    ],
)
def test_a_batch_that_no_sound_peer_sends_ends_its_link_only(row: int, column: int, value: object, reason: str) -> None:
    cluster = Cluster(2, STRICT)
    cluster.sync()
    run(cluster, 1, "XADD x * f v")
    message = message_from(cluster, 1, 2)
    message.batches.payloads[0] = rewritten(message.batches.payloads[0], row, column, value)
    link = cluster.link(1, 2)
    cluster.node(2).receive(link.number, message, cluster.now_ms)
    cluster.machines[2].perform()
    refused = cluster.node(2).outgoing(link.number, 1 << 20, cluster.now_ms)
    assert refused is not None and reason in refused.refused.reason, refused
    assert cluster.node(2).link_verdict(link.number) == refused.refused.reason
    assert run(cluster, 2, "XLEN x") == 0
    cluster.check()
    cluster.cut(1, 2)
    cluster.heal(1, 2)
    cluster.sync()
    assert run(cluster, 2, "XLEN x") == 1


def test_a_batch_of_ones_own_that_was_never_made_ends_its_link_and_the_origin() -> None:
    cluster = Cluster(2, STRICT)
    cluster.sync()
    run(cluster, 1, "XADD x * f v")
    message = message_from(cluster, 1, 2)
    node, link = cluster.node(2), cluster.link(1, 2)
    own = node.birth.origin
    effects = codec.decode_batch(message.batches.payloads[0]).effects
    have = cluster.node(2).replica.applied.vector.get(own)
    forged = Batch(own, have + 1, have + len(effects), VersionVector({own: have}), effects)
    message.batches.payloads[0] = codec.encode_batch(forged)
    node.receive(link.number, message, cluster.now_ms)
    cluster.machines[2].perform()
    assert "that its process never made" in str(node.outgoing(link.number, 1 << 20, cluster.now_ms))
    assert node.birth.origin != own
    assert run(cluster, 2, "XLEN x") == 0
    assert exchange_of(cluster, 2).waiting() == (0, 0)
    cluster.check()


def test_what_waits_for_others_is_bounded_whatever_a_peer_sends() -> None:
    """Windows of many sound peers may exceed the bound together, so that no link is closed for that."""
    cluster = Cluster(2, STRICT)
    cluster.sync()
    run(cluster, 1, "XADD x * f v")
    run(cluster, 1, "XADD x * f v")
    message = message_from(cluster, 1, 2)
    exchange, link = exchange_of(cluster, 2), cluster.link(1, 2)
    exchange.view.settings.change(replace(exchange.view.settings.config, limits=Limits(inbox_bytes_max=500)))
    batch = codec.decode_batch(message.batches.payloads[0])
    payloads = []
    for first in range(batch.first + 1_000, batch.first + 1_020):
        last = first + batch.last - batch.first
        made = Batch(batch.origin, first, last, VersionVector({batch.origin: first - 1}), batch.effects)
        payloads.append(codec.encode_batch(made))
    del message.batches.payloads[:]
    message.batches.payloads.extend(payloads)
    cluster.node(2).receive(link.number, message, cluster.now_ms)
    assert exchange.waiting() == (0, 0) and exchange.arrivals.drops > 0
    cluster.check()
    # What is missing is asked for on the same link.
    cluster.tick(0)
    cluster.sync()
    assert run(cluster, 2, "XLEN x") == 2 and cluster.link(1, 2) is link


def test_an_unknown_link_says_and_hears_nothing() -> None:
    cluster = Cluster(1, STRICT)
    exchange = exchange_of(cluster, 1)
    exchange.receive(99, wire.Message(), 5)
    assert exchange.outgoing(99, 1 << 20, 5) is None
    assert exchange.verdict(99) is None
    exchange.close(99)


def test_own_stalls_are_not_the_silence_of_peers() -> None:
    cluster = Cluster(2, STRICT)
    cluster.sync()
    link = cluster.link(1, 2).number
    timeout_ms = cluster.machines[1].config.limits.peer_timeout_ms
    cluster.tick(100)
    cluster.tick(3 * timeout_ms)
    assert cluster.node(1).link_verdict(link) is None, "nobody could be heard in between"
    for _ in range(timeout_ms // 100):
        cluster.tick(100)
    verdict = cluster.node(1).link_verdict(link)
    assert verdict is not None and "nothing received" in verdict


def test_a_snapshot_holds_what_may_be_served_and_no_more() -> None:
    """Under `always` a state may hold only what is synced, under every policy only what the log took."""
    cluster = Cluster(2, STRICT)
    run(cluster, 1, "XADD x * f v")
    exchange = cluster.node(1).exchange
    last, exchange.transfers.wanted[2] = exchange.view.served_position, None
    exchange.view.served_position = last - 1
    exchange.capture_snapshots()
    assert exchange.transfers.running.get(2) is None
    exchange.view.served_position = last
    cluster.node(1).replica.add_entry((0, b"x"), (2**50, 1), [b"f", b"v"])
    exchange.capture_snapshots()
    assert exchange.transfers.running.get(2) is None, "a turn is open"
    cluster.node(1).turn.cut()
    exchange.capture_snapshots()
    assert exchange.transfers.running.get(2) is None, "its records are not in the log"
    cluster.machines[1].perform()
    transfer = exchange.transfers.running.get(2)
    assert transfer is not None and transfer.position == last + 1
    assert transfer.vector == cluster.node(1).replica.applied.vector


def forged(payload: bytes, effects: bytes, first: int, context: VersionVector) -> bytes:
    """A batch of the origin of that one, with other counters, another context and these rows of effects."""
    header = codec.decode_header(payload)
    seen = column(flat([dot for dot in context.items() if dot[0] != header.origin]))
    return bytes(msgpack.packb((header.origin, first, first, seen))) + effects


def test_a_batch_that_waited_and_cannot_be_read_is_the_fault_of_who_brought_it() -> None:
    """Region 1's waits for region 3's; that one arrives over a sound link, which stays."""
    cluster = Cluster(3, STRICT)
    cluster.sync()
    cluster.cut(1, 3)
    run(cluster, 3, "XADD x * f v")
    run(cluster, 1, "XADD x * f v")
    message = message_from(cluster, 1, 2)
    payload = message.batches.payloads[0]
    first, context = codec.decode_header(payload).first, cluster.node(3).replica.applied.vector.copy()
    message.batches.payloads[0] = forged(payload, msgpack.packb((99, 0, b"x")), first, context)
    node, bad, sound = cluster.node(2), cluster.link(1, 2), cluster.link(2, 3)
    node.receive(bad.number, message, cluster.now_ms)
    assert exchange_of(cluster, 2).waiting()[0] == 1
    node.receive(sound.number, message_from(cluster, 3, 2), cluster.now_ms)
    cluster.machines[2].perform()
    told = node.outgoing(bad.number, 1 << 20, cluster.now_ms)
    assert told is not None and "99 is not a kind of effect" in told.refused.reason
    assert [session.peer_region for session in exchange_of(cluster, 2).sessions() if session.is_open] == [3]
    cluster.check()
    cluster.cut(1, 2)
    cluster.heal(1, 2)
    cluster.heal(1, 3)
    cluster.sync()
    assert [run(cluster, number, "XLEN x") for number in (1, 2, 3)] == [2, 2, 2]


def said(cluster: Cluster, **parts: object) -> str:
    """What region 2 refuses region 1 for, when it says this."""
    link = cluster.link(1, 2)
    cluster.node(2).receive(link.number, wire.Message(**parts), cluster.now_ms)  # type: ignore[arg-type]
    cluster.check()
    told = cluster.node(2).outgoing(link.number, 1 << 20, cluster.now_ms)
    return "" if told is None else told.refused.reason


def limited(**limits: int) -> Cluster:
    cluster = Cluster(3, STRICT)
    cluster.sync()
    exchange = exchange_of(cluster, 2)
    exchange.view.settings.change(replace(exchange.view.settings.config, limits=Limits(**limits)))
    return cluster


def vector_of(origins: range) -> list[wire.VectorRow]:
    return [wire.VectorRow(slot=origin, counter=1) for origin in origins if origin % 256]


def test_progress_is_bounded_and_what_exceeds_the_bound_is_dropped() -> None:
    cluster = limited(progress_rows_max=2_000)
    row = wire.ProgressRow(slot=9, durable=vector_of(range(1, 900)), applied=vector_of(range(1, 900)))
    assert said(cluster, progress=wire.Progress(rows=[row])) == ""
    assert said(cluster, progress=wire.Progress(rows=[row])) == "", "what is known takes no more"
    row.slot = 10
    assert said(cluster, progress=wire.Progress(rows=[row])) == ""
    notice = exchange_of(cluster, 2).notices[-1]
    assert notice.event == "progress-dropped"
    assert notice.text == (
        "region region1 (1) sends more progress than progress_rows_max = 2000 rows allow: raise the limit"
    )
    notices = len(exchange_of(cluster, 2).notices)
    grown = wire.ProgressRow(slot=10, durable=vector_of(range(1, 3)))
    assert said(cluster, progress=wire.Progress(rows=[grown])) == ""
    assert len(exchange_of(cluster, 2).notices) == notices, "told once"
    assert exchange_of(cluster, 2).progress.told_of(10).total() == 0, "what follows on a part is no progress"
    assert exchange_of(cluster, 2).progress.row_count <= 2_000
    assert exchange_of(cluster, 2).greeted() == [1, 3]


def test_parts_of_batches_are_bounded_over_all_links() -> None:
    cluster = limited(batch_bytes_max=1_000, message_bytes_max=100)
    link = cluster.link(2, 3)
    part = wire.Part(index=0, count=1 << 31, payload=b"x" * 600)
    cluster.node(2).receive(link.number, wire.Message(part=part), cluster.now_ms)
    for session in exchange_of(cluster, 2).sessions():
        session.bounds.window_bytes = 199
    assert said(cluster, part=part) == "", "the other link waits, and has brought what it had to bring before"
    more = wire.Message(part=wire.Part(index=1, count=1 << 31, payload=b"x" * 300))
    cluster.node(2).receive(link.number, more, cluster.now_ms)
    assert exchange_of(cluster, 2).greeted() == [1]


def test_direct_origins_are_bounded() -> None:
    origins = [origin for origin in range(1, 1 << 17) if origin % 256]
    assert "origins" in said(limited(), links=wire.Links(direct_slots=origins))
    assert said(limited(), links=wire.Links(direct_slots=[1] * 10_000)) == ""


# Births and deferrals


def test_a_founder_of_a_region_that_is_known_founds_nothing() -> None:
    """Region 3 has been a part of this cluster; one that began a cluster of its own comes as any other origin."""
    cluster = limited()
    for origin in (259, 4):
        said(cluster, met=wire.Met(births=[wire.BirthRow(slot=origin, count=0, founder=True)]))
    birth = cluster.node(2).birth
    assert birth.founders_left() == [1, 2, 3, 4]
    assert birth.counts[259] == 0


def test_a_deferral_is_remembered_by_who_says_it_until_it_is_withdrawn() -> None:
    cluster = limited()
    exchange = exchange_of(cluster, 2)
    for other, told_by in ((258, "a"), (514, "b"), (514, "a")):
        said(cluster, deferred=wire.Deferred(other=other, told_by=told_by))
    assert exchange.reports.deferrals() == [("a", 514), ("b", 514)]
    said(cluster, deferred=wire.Deferred(other=0, told_by="a"))
    assert exchange.reports.deferrals() == [("b", 514)]


def test_deferrals_fill_no_memory() -> None:
    cluster = limited()
    for number in range(400):
        said(cluster, deferred=wire.Deferred(other=258, told_by=f"{number} " + "x" * 1_000))
    deferrals = exchange_of(cluster, 2).reports.deferrals()
    assert len(deferrals) <= 256 and max(len(name) for name, _ in deferrals) <= 128


# Signs of life


def test_a_sign_of_life_is_given_at_each_heartbeat() -> None:
    cluster = Cluster(2, STRICT)
    cluster.sync()
    heartbeat_ms = cluster.machines[1].config.limits.heartbeat_ms
    before = exchange_of(cluster, 1).view.life
    for _ in range(30):
        cluster.tick(heartbeat_ms // 10)
        cluster.sync()
    assert exchange_of(cluster, 1).view.life == before + 3
    assert cluster.now_ms - exchange_of(cluster, 2).progress.sign_ms(1) < heartbeat_ms
    cluster.now_ms -= 20 * heartbeat_ms
    cluster.tick(0)
    assert exchange_of(cluster, 1).view.life == before + 4, "a clock that was set back silences nobody"
    assert exchange_of(cluster, 2).progress.sign_ms(1) <= max(1, cluster.now_ms)


# Contexts that were forgotten


def test_a_batch_whose_context_is_not_known_brings_the_whole_state() -> None:
    """An origin ended, all had all of it, and its last context was forgotten; its directory has more of it."""
    cluster = Cluster(3, STRICT)
    cluster.sync()
    for number in (1, 2):
        cluster.cut(number, 3)
    run(cluster, 3, "XADD x 5 tail v")
    for region in cluster.machines.values():
        region.sync()
    cluster.carry(1, 2)
    run(cluster, 1, "CRDT.EVICT 3")
    for _ in range(3):
        cluster.sync()
        for number in (1, 2):
            cluster.machines[number].sync()
        cluster.tick(100)
    for number in (1, 2):
        assert 3 not in cluster.node(number).replica.applied.contexts
    cluster.heal(1, 3)
    cluster.sync()
    cluster.heal(1, 3)
    cluster.heal(2, 3)
    cluster.sync()
    assert [run(cluster, number, "XLEN x") for number in (1, 2, 3)] == [1, 1, 1]
    cluster.check()
