"""Partitioned streams of several regions: forwarding, takeovers, what is left of a split, deletion, documents."""

from __future__ import annotations

from random import Random

import pytest

from crdtstream.partitions.calls import PutCall, PutReply, RefusalReply
from crdtstream.partitions.keys import stream_of
from crdtstream.partitions.renumbering import ALIVE_MS
from crdtstream.partitions.values import (
    INVALID,
    UNKNOWN_STREAM,
    UNREACHABLE,
    UNWRITABLE,
    NewMessage,
    Refused,
    StreamSpec,
)
from crdtstream.protocols.call_rows import pack
from crdtstream.settings.config import Limits
from crdtstream.status.availability import PAUSED_NOTHING, PAUSED_WRITES, TICK_BYTES
from tests.partitions.region_streams import HOUR_MS, STREAM, Regions, code_of


def test_other_regions_forward_and_read_themselves() -> None:
    regions = Regions(3)
    assert [one.offset for one in regions.put(2, b"a", b"b")] == [0, 1]
    assert [one.offset for one in regions.put(3, b"c")] == [2]
    for number in (1, 2, 3):
        assert regions.values(number) == [(0, b"a"), (1, b"b"), (2, b"c")]
        assert regions.streams(number).home(STREAM) == 1


def test_a_group_is_shared_by_all_regions() -> None:
    regions = Regions(3)
    regions.put(1, b"a", partition=1)
    regions.join(2)
    assert regions.poll(2, "A").positions == {0: 0, 1: 0}
    assert regions.poll(3, "B").positions.keys() == {1}
    assert regions.owners(1) == ["A", "B"]


def test_the_home_answers_only_once_its_log_is_served() -> None:
    regions = Regions(2, fsync="always")
    machine = regions.machines[1]
    machine.sync_policy = False
    call = regions.submit(2, PutCall(STREAM, [NewMessage(0, None, b"a")]))
    regions.carry(2, 1)
    regions.turn(1)
    regions.sync()
    assert call not in regions.replies(2)
    machine.sync()
    regions.sync()
    assert isinstance(regions.replies(2)[call], PutReply)


def test_without_its_home_a_stream_refuses_and_can_be_read() -> None:
    regions = Regions(2, limits=Limits(segment_bytes_max=1 << 16, takeover_ms=0))
    regions.put(1, b"a")
    regions.cut(1, 2)
    with pytest.raises(Refused) as raised:
        regions.put(2, b"b")
    assert raised.value.code == UNREACHABLE
    regions.live(600_000)
    with pytest.raises(Refused):
        regions.put(2, b"b")
    assert regions.values(2) == [(0, b"a")]


def test_a_link_that_is_cut_ends_the_calls_on_it() -> None:
    regions = Regions(2)
    call = regions.submit(2, PutCall(STREAM, [NewMessage(0, None, b"a")]))
    regions.send(2, 1)
    regions.cut(1, 2)
    assert code_of(regions.replies(2)[call]) == UNREACHABLE


def test_a_call_without_a_reply_ends_at_its_time() -> None:
    limits = Limits(segment_bytes_max=1 << 16, forward_timeout_ms=300)
    regions = Regions(2, limits=limits)
    call = regions.submit(2, PutCall(STREAM, [NewMessage(0, None, b"a")]))
    regions.tick(400)
    assert code_of(regions.replies(2)[call]) == UNREACHABLE
    regions.sync()
    assert regions.replies(2) == {}


def test_a_region_takes_over_after_a_silence_when_it_gets_a_call() -> None:
    regions = Regions(2, limits=Limits(segment_bytes_max=1 << 16, takeover_ms=10_000))
    regions.put(1, b"a")
    regions.cut(1, 2)
    regions.live(5_000)
    with pytest.raises(Refused):
        regions.put(2, b"b")
    regions.live(6_000)
    assert [one.offset for one in regions.put(2, b"b")] == [1]
    assert regions.streams(2).home(STREAM) == 2


def test_a_clock_that_is_set_forward_is_no_silence_of_the_home() -> None:
    regions = Regions(2, limits=Limits(segment_bytes_max=1 << 16, takeover_ms=10_000))
    regions.put(1, b"a")
    regions.live(60_000)
    regions.cut(1, 2)
    regions.live(1_000)
    regions.machines[2].skew_ms = 3_600_000
    with pytest.raises(Refused):
        regions.put(2, b"b")
    regions.live(1_000)
    with pytest.raises(Refused):
        regions.put(2, b"b")
    assert regions.streams(2).home(STREAM) == 1


def test_what_both_sides_of_a_split_numbered_is_kept_and_numbered_once() -> None:
    regions = Regions(3)
    regions.put(1, b"a")
    regions.cut(1, 2)
    regions.cut(1, 3)
    regions.streams(2).take_over(STREAM)
    regions.turn(2)
    regions.sync()
    regions.put(1, b"b", b"c")
    regions.put(3, b"d")
    regions.heal(1, 2)
    regions.heal(1, 3)
    regions.live(3_000)
    for number in (1, 2, 3):
        assert regions.values(number) == [(0, b"a"), (1, b"d"), (2, b"b"), (3, b"c")]
        assert regions.streams(number).home(STREAM) == 2
        regions.node(number).check()
    assert [one.offset for one in regions.put(1, b"e")] == [4]


def test_a_region_reads_nothing_at_a_position_of_an_epoch_that_it_does_not_know() -> None:
    regions = Regions(3)
    regions.put(1, b"a")
    regions.cut(1, 3)
    regions.cut(2, 3)
    regions.put(1, b"b", b"c")
    regions.streams(2).take_over(STREAM)
    regions.turn(2)
    regions.sync()
    regions.put(2, b"d")
    epoch = regions.streams(2).epoch(STREAM)
    assert regions.streams(3).read(STREAM, 0, 0, epoch, 10, 1 << 20) == ([], epoch)
    regions.heal(2, 3)
    regions.sync()
    messages, under = regions.streams(3).read(STREAM, 0, 3, epoch, 10, 1 << 20)
    assert ([one.value for one in messages], under) == ([b"d"], epoch)


def test_a_position_of_an_older_epoch_is_settled_before_it_is_read() -> None:
    regions = Regions(2)
    regions.put(1, b"a")
    before = regions.streams(1).epoch(STREAM)
    regions.cut(1, 2)
    regions.put(1, b"b", b"c")
    regions.streams(2).take_over(STREAM)
    regions.turn(2)
    regions.put(2, b"d")
    messages, under = regions.streams(2).read(STREAM, 0, 3, before, 10, 1 << 20)
    assert ([one.value for one in messages], under) == ([b"d"], regions.streams(2).epoch(STREAM))


def test_two_takeovers_at_once_leave_one_home() -> None:
    regions = Regions(3)
    regions.put(1, b"a")
    for pair in ((1, 2), (1, 3), (2, 3)):
        regions.cut(*pair)
    for number in (2, 3):
        regions.streams(number).take_over(STREAM)
        regions.turn(number)
        regions.put(number, b"by %d" % number)
    for pair in ((1, 2), (1, 3), (2, 3)):
        regions.heal(*pair)
    regions.live(3_000)
    assert {regions.streams(number).home(STREAM) for number in (1, 2, 3)} == {3}
    for number in (1, 2, 3):
        assert regions.values(number) == [(0, b"a"), (1, b"by 3"), (2, b"by 2")]


def test_a_restart_that_lost_its_tail_numbers_it_again() -> None:
    regions = Regions(2)
    regions.machines[1].sync()
    regions.put(1, b"a")
    regions.lose_power(1, Random(1), 0.0)
    regions.put(1, b"b")
    regions.live(3_000)
    for number in (1, 2):
        assert sorted(value for _, value in regions.values(number)) == [b"a", b"b"]
        assert [offset for offset, _ in regions.values(number)] == [0, 1]


def test_messages_older_than_the_retention_are_removed_by_the_home() -> None:
    regions = Regions(2)
    regions.put(1, b"a")
    regions.now_ms += 25 * HOUR_MS
    regions.put(2, b"b")
    regions.live(2_000)
    for number in (1, 2):
        assert regions.values(number) == [(1, b"b")]


def test_old_epochs_are_forgotten_with_their_messages() -> None:
    regions = Regions()
    for value in (b"a", b"b", b"c"):
        regions.put(1, value)
        regions.machines[1].sync()
        regions.restart(1)
    regions.put(1, b"d")
    state = regions.streams(1)
    assert len(state._served[STREAM].state.epochs.rows) == 4
    regions.now_ms += 25 * HOUR_MS
    regions.put(1, b"e")
    regions.live(6_000)
    assert len(state._served[STREAM].state.epochs.rows) == 1
    assert regions.values(1) == [(4, b"e")]


def test_an_epoch_is_not_forgotten_while_a_region_that_lives_does_not_know_the_next_one() -> None:
    """That region may have messages of it that are not here, and may have raised an epoch that follows it too."""
    regions = Regions(2)
    regions.put(1, b"a")
    regions.now_ms += 25 * HOUR_MS
    regions.live(1_000)
    regions.cut(1, 2)
    regions.machines[1].sync()
    regions.restart(1)
    regions.submit(1, PutCall(STREAM, [NewMessage(0, None, b"b")]))
    regions.live(ALIVE_MS // 2)
    state = regions.streams(1)._served[STREAM].state
    assert regions.values(1) == [(1, b"b")]
    assert len(state.epochs.rows) == 2, "nothing of the first epoch is left here"
    regions.heal(1, 2)
    regions.live(ALIVE_MS)
    assert len(state.epochs.rows) == 1


def test_a_deleted_stream_is_gone_everywhere_whatever_others_still_wrote() -> None:
    regions = Regions(2)
    regions.put(1, b"a")
    regions.join(1)
    regions.cut(1, 2)
    regions.streams(2).delete(STREAM)
    regions.turn(2)
    regions.put(1, b"b")
    regions.heal(1, 2)
    regions.live(5_000)
    for number in (1, 2):
        assert regions.streams(number).spec(STREAM) is None
        assert [name for name in live_names(regions, number) if stream_of(name)] == []
        with pytest.raises(Refused) as raised:
            regions.put(number, b"c")
        assert raised.value.code == UNKNOWN_STREAM


def test_what_is_left_of_a_deleted_stream_is_removed_after_a_restart_too() -> None:
    regions = Regions(2)
    regions.cut(1, 2)
    regions.streams(2).delete(STREAM)
    regions.turn(2)
    regions.put(1, b"b")
    regions.machines[1].sync()
    regions.restart(1)
    regions.heal(1, 2)
    regions.sync()
    regions.live(5_000)
    for number in (1, 2):
        assert [name for name in live_names(regions, number) if stream_of(name)] == []


def test_a_clock_that_was_moved_ends_reservations_and_messages() -> None:
    regions = Regions()
    regions.put(1, b"a")
    regions.join(1)
    regions.poll(1, "A")
    regions.streams(1).ahead.ms = 31_000
    assert regions.poll(1, "B").positions == {0: 0, 1: 0}
    regions.streams(1).ahead.ms = 25 * HOUR_MS
    assert regions.put(1, b"b")[0].time_ms == regions.now_ms + 25 * HOUR_MS
    regions.live(2_000)
    assert regions.values(1) == [(1, b"b")]


def test_documents_are_read_in_every_region() -> None:
    regions = Regions(2)
    regions.streams(1).documents.write("pool", "p1", b"{}")
    regions.turn(1)
    regions.sync()
    assert regions.streams(2).documents.by_name("pool") == {"p1": b"{}"}
    regions.streams(2).documents.write("pool", "p1", None)
    regions.turn(2)
    regions.sync()
    assert regions.streams(1).documents.by_name("pool") == {}


def test_refusals() -> None:
    regions = Regions()
    streams = regions.streams(1)
    with pytest.raises(Refused) as raised:
        streams.create(StreamSpec(STREAM, 1, 1))
    assert raised.value.code == INVALID
    for spec in (StreamSpec("", 1, 1), StreamSpec("t", 0, 1), StreamSpec("t", 1, 0)):
        with pytest.raises(Refused):
            streams.create(spec)
    with pytest.raises(Refused) as raised:
        regions.put(1, b"x", partition=9)
    assert raised.value.code == INVALID
    regions.node(1).standing.paused = PAUSED_WRITES
    with pytest.raises(Refused, match="CLIENT PAUSE") as raised:
        regions.put(1, b"x")
    assert raised.value.code == UNWRITABLE
    regions.node(1).standing.paused = PAUSED_NOTHING
    regions.node(1).writable(False)
    with pytest.raises(Refused) as raised:
        regions.put(1, b"x")
    assert raised.value.code == UNWRITABLE


def test_the_upkeep_rests_while_clients_are_paused() -> None:
    """Retention, and what a Redis client has put: the home does both when the pause is over."""
    regions = Regions(1)
    regions.put(1, b"a")
    node = regions.node(1)
    regions.now_ms += 25 * HOUR_MS
    node.context.pause.begin(regions.now_ms + HOUR_MS, PAUSED_WRITES, regions.now_ms)
    counter = node.replica.applied.counter()
    regions.live(5_000)
    assert node.replica.applied.counter() == counter
    assert regions.values(1) == [(0, b"a")]
    node.context.pause.end()
    regions.live(5_000)
    assert regions.values(1) == []


def test_a_full_disk_takes_what_removes_messages() -> None:
    regions = Regions(1)
    regions.put(1, b"a")
    regions.now_ms += 25 * HOUR_MS
    regions.put(1, b"b")
    node = regions.node(1)
    node.writable(False)
    regions.live(2_000)
    assert len(regions.values(1)) == 2, "without a reserve"
    node.writable(False, TICK_BYTES, TICK_BYTES)
    regions.live(2_000)
    assert regions.values(1) == [(1, b"b")]
    node.partitions.documents.write("a", "known", None)
    for refused in (lambda: regions.put(1, b"c"), lambda: node.partitions.documents.write("a", "new", b"x")):
        with pytest.raises(Refused):
            refused()
    node.standing.memory_short = True
    node.partitions.delete(STREAM)
    assert node.partitions.ids() == []


def test_garbage_from_a_peer_is_refused_and_changes_nothing() -> None:
    regions = Regions(2)
    streams = regions.streams(1)
    before = regions.node(1).replica.prepared
    for payload in (b"", b"\xc1", pack(["put"]), pack(["put", STREAM, 3]), pack(["poll", STREAM])):
        assert isinstance(streams._serve(payload), RefusalReply)
    assert regions.node(1).replica.prepared == before


def live_names(regions: Regions, number: int) -> list[bytes]:
    """The keys that exist: of others a region keeps what it tells readers of their loss."""
    node = regions.node(number)
    known = [(database, name) for database, names in node.names() for name in names]
    return [name for database, name in known if node.replica.keyspace.find((database, name)) is not None]
