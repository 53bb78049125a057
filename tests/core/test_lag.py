"""Lag and entries-read: Redis's rule where one origin wrote, counting where several did."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from crdtstream.core.effects import Position
from crdtstream.core.lag import entries_read_after, entries_read_of, follows_rule, lag_of
from crdtstream.core.local_facts import PositionSet
from crdtstream.core.values.entry_id import ID_MIN
from tests.commands.stream_region import Region


def add(region: Region, *ids: str) -> None:
    for entry_id in ids:
        assert region.say(f"XADD s {entry_id} f v") == b"$%d\r\n%b\r\n" % (len(entry_id), entry_id.encode())


def take(region: Region, count: int = -1) -> int:
    """Read as a group command does: how many entries were delivered."""
    stream, group = region.stream(), region.group()
    return region.read_group(entries_read_after(stream, group, group.next_entries(stream.chains, count)), count)


def state(region: Region) -> tuple[int | None, int | None]:
    """entries-read and lag."""
    stream, group = region.stream(), region.group()
    return entries_read_of(stream, group), lag_of(stream, group)


def region_with(*ids: str) -> Region:
    region = Region()
    add(region, *ids)
    region.create_group()
    return region


def test_an_empty_stream_has_no_lag() -> None:
    region = Region()
    region.create_group()
    assert state(region) == (None, 0)
    add(region, "1-0")
    region.say("XDEL s 1-0")
    assert state(region) == (None, 0)


def test_the_counter_goes_on_with_each_delivery() -> None:
    region = region_with("1-0", "2-0", "3-0", "4-0")
    assert state(region) == (None, 4)
    assert take(region, 1) == 1
    assert state(region) == (1, 3)
    assert take(region, 2) == 2
    assert state(region) == (3, 1)
    add(region, "5-0")
    assert take(region) == 2
    assert state(region) == (5, 0)
    assert take(region) == 0
    assert state(region) == (5, 0)


def test_a_removal_ahead_hides_the_lag_until_the_end() -> None:
    region = region_with("1-0", "2-0", "3-0", "4-0")
    take(region, 1)
    region.say("XDEL s 3-0")
    assert state(region) == (1, None)
    take(region, 1)
    assert state(region) == (None, None)
    take(region, 1)
    assert state(region) == (4, 0)


def test_a_removal_behind_changes_nothing() -> None:
    region = region_with("1-0", "2-0", "3-0", "4-0")
    take(region, 3)
    region.say("XDEL s 2-0")
    assert state(region) == (3, 1)
    take(region)
    assert state(region) == (4, 0)


def test_a_trim_past_the_group_restarts_the_counter() -> None:
    region = region_with("1-0", "2-0", "3-0", "4-0", "5-0")
    take(region, 1)
    region.say("XTRIM s MAXLEN 2")
    assert state(region) == (1, 2)
    take(region, 1)
    assert state(region) == (4, 1)


def test_a_position_inside_the_stream_is_not_known() -> None:
    region = Region()
    add(region, "1-0", "2-0", "3-0")
    region.create_group((1, 0), b"first")
    region.create_group((2, 0), b"middle")
    region.create_group((3, 0), b"last")
    region.create_group((9, 0), b"beyond")
    stream = region.stream()
    assert [lag_of(stream, stream.groups[name]) for name in (b"first", b"middle", b"last", b"beyond")] == [
        2,
        None,
        0,
        None,
    ]


def test_a_known_position_is_taken_from_its_creator() -> None:
    region = Region()
    add(region, "1-0", "2-0", "3-0")
    region.create_group((2, 0), read=2)
    assert state(region) == (2, 1)
    region.replica.record(PositionSet((0, b"s"), b"g", Position((3, 0)), 3))
    assert state(region) == (3, 0)
    region.replica.record(PositionSet((0, b"s"), b"g", Position(ID_MIN), -1))
    assert state(region) == (None, 3)


def test_several_origins_are_counted() -> None:
    east, west = region_with("1-1", "3-1", "5-1"), Region(2)
    take(east, 2)
    assert state(east) == (2, 1)
    add(west, "2-2", "4-2", "6-2")
    east.hear(west)
    assert not follows_rule(east.stream(), east.group())
    assert state(east) == (2, 4)
    take(east, 1)
    assert east.group().entries_read == -1
    assert state(east) == (3, 3)
    east.say("XDEL s 5-1")
    assert state(east) == (4, 2)


def test_what_another_region_acknowledged_is_counted() -> None:
    east, west = region_with("1-0", "2-0", "3-0", "4-0"), Region(2)
    west.hear(east)
    take(west, 3)
    west.acknowledge_group()
    east.hear(west)
    assert not follows_rule(east.stream(), east.group())
    assert state(east) == (3, 1)
    take(east)
    assert state(east) == (4, 0)


def test_what_this_region_acknowledged_follows_the_rule() -> None:
    region = region_with("1-0", "2-0", "3-0", "4-0")
    take(region, 3)
    region.acknowledge_group()
    region.close_turn()
    assert follows_rule(region.stream(), region.group())
    assert state(region) == (3, 1)


def test_a_lower_start_that_joins_is_counted() -> None:
    east, west = Region(), Region(2)
    add(east, "1-0", "2-0", "3-0")
    west.hear(east)
    east.create_group((2, 0))
    west.create_group(ID_MIN)
    take(east)
    assert state(east) == (3, 0)
    east.hear(west)
    assert state(east) == (1, 2)
    assert take(east, 1) == 1
    assert state(east) == (2, 1)


STEPS = st.lists(
    st.one_of(
        st.just(("add", 1)),
        st.tuples(st.sampled_from(["read", "delete", "trim"]), st.integers(0, 6)),
    ),
    max_size=20,
)


@settings(max_examples=80, deadline=None)
@given(STEPS)
def test_a_lag_that_is_told_is_true(steps: list[tuple[str, int]]) -> None:
    """Nil is allowed only after an XDEL; after a read, what was read and what is wanted add up."""
    region = region_with("1-0")
    ms, deleted = 1, False
    for step, number in steps:
        delivered = 0
        if step == "add":
            ms += 1
            add(region, f"{ms}-0")
        elif step == "read":
            delivered = take(region, number + 1)
        elif step == "trim":
            region.say(f"XTRIM s MAXLEN {number}")
        else:
            deleted |= region.say(f"XDEL s {max(ms - number, 0)}-0") == b":1\r\n"
        read, lag = state(region)
        stream = region.stream()
        wanted = region.group().wanted_count(stream.chains)
        assert lag == wanted or (lag is None and deleted)
        if delivered and read is not None:
            assert read + wanted == stream.entries_added()


MOVES = st.tuples(
    st.sampled_from(["add", "read", "delete", "trim", "forget", "west", "acknowledge"]), st.integers(0, 6)
)


@settings(max_examples=150, deadline=None)
@given(st.lists(MOVES, max_size=25))
def test_a_read_that_goes_on_counts_like_one_that_looks_at_the_stream(moves: list[tuple[str, int]]) -> None:
    east, west = region_with("1-0", "2-0", "3-0", "4-0"), Region(2)
    west.hear(east)
    for ms, (move, number) in enumerate(moves, 5):
        if move == "add":
            add(east, f"{ms}-0")
        elif move == "west":
            add(west, f"{ms}-2")
            if number:
                west.say(f"XDEL s {ms}-2")
            east.hear(west)
        elif move == "read":
            stream, group = east.stream(), east.group()
            delivery = group.next_entries(stream.chains, number + 1)
            read = entries_read_after(stream, group, delivery)
            group._read_cursor.invalidate()
            assert read == entries_read_after(stream, group, delivery)
            east.read_group(read, number + 1)
        elif move == "acknowledge":
            east.acknowledge_group()
            east.close_turn()
        else:
            words = {"delete": f"XDEL s {number}-0", "trim": f"XTRIM s MAXLEN {number}", "forget": f"XSETID s {ms}-0"}
            east.say(words[move] + (f" ENTRIESADDED {ms} MAXDELETEDID {number}-0" if move == "forget" else ""))
