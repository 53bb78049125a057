"""Positions acknowledged for groups, and what groups have acknowledged, against a naive model of every entry."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtstream.bulk import frontiers as frontiers_module
from crdtstream.bulk.errors import INVALID_ARGUMENT, NOT_FOUND, UNAVAILABLE, BulkError
from crdtstream.bulk.frontiers import Advancing, frontiers_of
from crdtstream.core.lag import lag_of
from crdtstream.core.values.entry_id import EntryId, format_id
from crdtstream.core.values.intervals import IntervalSet
from tests.commands.harness import FakeAdmission
from tests.commands.stream_region import Region
from tests.effort import INTERPRETED

KEY = (0, b"s")


def advance(region: Region, seqs: dict[int, int], consumer: bytes = b"job") -> int:
    advancing = Advancing(b"g", consumer, {KEY: seqs})
    while advancing.step(region.context):
        region.check()
    region.close_turn()
    return advancing.entries


def acknowledged(region: Region) -> dict[int, int]:
    [frontier] = frontiers_of(region.context, KEY)
    return dict(frontier.acknowledged)


def ids_of(region: Region) -> list[tuple[int, int, EntryId]]:
    """Origin, seq and ID of each live entry."""
    trees = region.stream().trees
    return [
        (origin, tree.counter_of(entry_id), entry_id)
        for origin, tree in sorted(trees.items())
        for part in tree.slices_between(0, 1 << 40, tree.count)
        for entry_id in part.ids()
    ]


def pending_of(region: Region) -> list[tuple[int, EntryId]]:
    pending = region.group().pending
    return [(origin, entry_id) for origin in (1, 2) for entry_id in pending.ids(origin, None)]


class Regions:
    """Two regions that share a stream and a group."""

    def __init__(self) -> None:
        self.one, self.two = Region(1), Region(2)
        self.one.say("XGROUP CREATE s g 0 MKSTREAM")
        self.meet()

    def meet(self) -> None:
        self.two.hear(self.one)
        self.one.hear(self.two)

    def region(self, origin: int) -> Region:
        return self.one if origin == 1 else self.two


origins = st.sampled_from([1, 2])
events = st.one_of(
    st.tuples(st.just("add"), origins, st.integers(1, 3)),
    st.tuples(st.just("read"), origins, st.integers(1, 4)),
    st.tuples(st.just("ack"), origins, st.integers(0, 5)),
    st.tuples(st.just("delete"), origins, st.integers(0, 20)),
    st.tuples(st.just("trim"), origins, st.integers(0, 20)),
    st.tuples(st.just("setid"), origins, st.integers(0, 20)),
    st.tuples(st.just("lose"), origins, st.just(0)),
    st.tuples(st.just("advance"), origins, st.integers(0, 40)),
    st.tuples(st.just("meet"), origins, st.just(0)),
)


def play(regions: Regions, history: list[tuple[str, int, int]]) -> None:
    for what, origin, number in history:
        region = regions.region(origin)
        if what == "add":
            for _ in range(number):
                region.say("XADD s * f v")
        elif what == "read":
            region.say(f"XREADGROUP GROUP g c COUNT {number} STREAMS s >")
        elif what == "ack":
            for _, entry_id in pending_of(region)[number : number + 2]:
                region.call("XACK", "s", "g", format_id(entry_id))
        elif what in ("delete", "setid"):
            live = ids_of(region)
            entry_id = live[number % len(live)][2] if live else (0, 0)
            command = ["XDEL", "s"] if what == "delete" else ["XGROUP", "SETID", "s", "g"]
            region.call(*command, format_id(entry_id))
        elif what == "trim":
            region.say(f"XTRIM s MAXLEN {number}")
        elif what == "lose":
            region.say("XGROUP DELCONSUMER s g c")
        elif what == "advance":
            advance(region, {1: number, 2: number // 2})
        else:
            regions.meet()
        region.close_turn()


@given(st.lists(events, max_size=25), origins, st.integers(0, 30), st.integers(0, 30), st.sampled_from([1, 3, 1_000]))
@settings(max_examples=200)
def test_all_up_to_a_position_is_delivered_and_acknowledged(
    history: list[tuple[str, int, int]], number: int, first: int, second: int, step: int
) -> None:
    regions = Regions()
    play(regions, history)
    region = regions.region(number)
    position = {1: first, 2: second}
    with pytest.MonkeyPatch.context() as patch:
        if INTERPRETED:
            patch.setattr(frontiers_module, "STEP_ENTRIES", step)
        advance(region, position)
    inside = [(origin, entry_id) for origin, seq, entry_id in ids_of(region) if seq <= position[origin]]
    assert not {*inside} & {*pending_of(region)}
    frontier = acknowledged(region)
    for origin, entry_id in inside:
        assert region.stream().trees[origin].counter_of(entry_id) <= frontier[origin]
    assert advance(region, position) == 0, "it was all done before"
    for origin, pieces in region.group().next_entries(region.stream().chains, -1).intervals.as_dict().items():
        again = [one for low, high in pieces for o, one in inside if o == origin and low < one <= high]
        assert not again, "what was acknowledged would be delivered again"
    regions.meet()
    regions.meet()
    other = regions.region(3 - number)
    for origin, entry_id in {*inside} & {*pending_of(other)}:
        assert other.group().replay[origin].contains(entry_id), "it is pending elsewhere"
    for origin, seq, entry_id in ids_of(other):
        if (origin, entry_id) in inside:
            assert seq <= acknowledged(other)[origin]


@given(st.lists(events, max_size=30), origins)
@settings(max_examples=200)
def test_a_frontier_has_nothing_live_below_it_that_no_run_covers(
    history: list[tuple[str, int, int]], number: int
) -> None:
    regions = Regions()
    play(regions, history)
    region = regions.region(number)
    region.close_turn()
    acked = region.group().acked
    for origin, seq in acknowledged(region).items():
        left = [one for o, one, entry_id in ids_of(region) if o == origin and not covered(acked, o, entry_id)]
        heads = [meta.add_counter for o, meta in region.stream().metas.items() if o == origin]
        assert seq == (min(left) - 1 if left else max([*heads, region.stream().metas[origin].trimmed_to]))


def covered(acked: dict[int, IntervalSet], origin: int, entry_id: EntryId) -> bool:
    runs = acked.get(origin)
    return runs is not None and runs.contains(entry_id)


def test_a_position_moves_the_cursor_the_lag_and_the_pending() -> None:
    region = Region()
    region.say("XGROUP CREATE s g 0 MKSTREAM")
    for _ in range(10):
        region.say("XADD s * f v")
    region.say("XREADGROUP GROUP g c COUNT 3 STREAMS s >")
    region.close_turn()
    stream, group = region.stream(), region.group()
    assert (group.pending.count, lag_of(stream, group)) == (3, 7)
    seqs = [seq for _, seq, _ in ids_of(region)]
    assert advance(region, {1: seqs[5]}) == 6
    assert (group.pending.count, lag_of(stream, group), acknowledged(region)) == (0, 4, {1: seqs[5]})
    assert group.entries_read == 6
    reply = region.say("XREADGROUP GROUP g c COUNT 1 STREAMS s >")
    assert reply is not None and format_id(ids_of(region)[6][2]) in reply


def test_what_is_pending_in_another_region_is_acknowledged_there_too() -> None:
    regions = Regions()
    for _ in range(4):
        regions.one.say("XADD s * f v")
    regions.meet()
    regions.two.say("XREADGROUP GROUP g c COUNT 2 STREAMS s >")
    seqs = [seq for _, seq, _ in ids_of(regions.one)]
    assert advance(regions.one, {1: seqs[2]}) == 3
    regions.meet()
    assert pending_of(regions.two) == []
    assert acknowledged(regions.two) == {1: seqs[2]}
    assert lag_of(regions.two.stream(), regions.two.group()) == 1


def test_a_pending_entry_that_was_deleted_leaves_with_the_position_of_its_stream() -> None:
    region = Region()
    region.say("XGROUP CREATE s g 0 MKSTREAM")
    region.say("XADD s 5-1 f v")
    region.say("XREADGROUP GROUP g c STREAMS s >")
    region.say("XDEL s 5-1")
    region.close_turn()
    assert advance(region, {1: region.stream().metas[1].add_counter}) == 1
    assert pending_of(region) == []


def test_groups_are_made_only_where_that_is_asked_for() -> None:
    region = Region()
    region.say("XADD s * f v")
    region.close_turn()
    with pytest.raises(BulkError, match="no such consumer group 'g' for key name 's'") as refusal:
        advance(region, {1: 1})
    assert refusal.value.code == NOT_FOUND
    assert Advancing(b"g", b"job", {KEY: {1: 1}, (0, b"none"): {1: 1}}).create(region.context)
    assert advance(region, {1: 1}) == 1
    assert frontiers_of(region.context, (0, b"none")) == []
    assert region.replica.keyspace.find((0, b"none")) is None
    for group, consumer in ((b"", b"job"), (b"g", b"")):
        with pytest.raises(BulkError, match="name both") as refusal:
            Advancing(group, consumer, {})
        assert refusal.value.code == INVALID_ARGUMENT


def test_a_region_that_is_not_admitted_makes_no_groups() -> None:
    region = Region()
    region.say("XADD s * f v")
    region.context.cluster.admission = admission = FakeAdmission()
    advancing = Advancing(b"g", b"job", {KEY: {1: 1}})
    assert not advancing.create(region.context)
    assert (admission.wanted, admission.said, region.stream().groups) == (True, 0, {})
    admission.admitted = True
    assert advancing.create(region.context)
    assert (admission.said, list(region.stream().groups)) == (1, [b"g"])
    assert advancing.create(region.context)
    assert admission.said == 1, "nothing was left to make"


def test_a_region_that_cannot_write_acknowledges_nothing() -> None:
    region = Region()
    region.say("XGROUP CREATE s g 0 MKSTREAM")
    region.say("XADD s * f v")
    region.context.standing.writable = False
    with pytest.raises(BulkError) as refusal:
        advance(region, {1: 2})
    assert refusal.value.code == UNAVAILABLE
