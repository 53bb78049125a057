"""Copies with groups: no reader misses an entry, and no reader in this region gets one twice, from any writer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.effects import Position
from crdtstream.core.group_copy import EntryRun, gathered, position_in
from crdtstream.core.values.entry_id import ID_MAX, EntryId
from crdtstream.core.values.intervals import IntervalSet
from tests.commands.stream_region import Region

TOP = 12


def ids_of(pieces: list[EntryRun]) -> list[tuple[int, EntryId]]:
    return [(piece.origin, (ms, 0)) for piece in pieces for ms in range(piece.first[0], piece.last[0] + 1)]


def pieces_from(origins: list[int]) -> list[EntryRun]:
    """One entry for each milliseconds from 1 on, by origin; 0 is no entry."""
    pieces: list[EntryRun] = []
    for ms, origin in enumerate(origins, 1):
        if origin:
            before = pieces[-1].last if pieces else (0, 0)
            pieces.append(EntryRun(origin, before, (ms, 0), (ms, 0)))
    return pieces


origins = st.lists(st.integers(0, 2), max_size=TOP).map(pieces_from)
ids = st.tuples(st.integers(0, TOP + 3), st.just(0))
intervals = st.lists(st.tuples(ids, ids).filter(lambda pair: pair[0] < pair[1]), max_size=4).map(IntervalSet.of)
sets = st.dictionaries(st.integers(1, 2), intervals, max_size=2)


@given(origins, sets)
def test_what_is_gathered(pieces: list[EntryRun], known: dict[int, IntervalSet]) -> None:
    found = gathered(pieces, known)
    found.check()
    for origin, entry_id in ids_of(pieces):
        assert found.contains(entry_id) == (origin in known and known[origin].contains(entry_id))
    held = {entry_id for _, entry_id in ids_of(pieces)}
    for entry_id in [(ms, 0) for ms in range(1, TOP + 4) if (ms, 0) not in held]:
        of_any = any(one.contains(entry_id) for one in known.values())
        below_one = any(found.contains(one) for one in held if one > entry_id)
        assert found.contains(entry_id) == of_any or below_one


@given(origins, ids, st.dictionaries(st.integers(1, 2), ids, max_size=2))
def test_a_position_passes_what_every_origin_passed(
    pieces: list[EntryRun], default: EntryId, reached: dict[int, EntryId]
) -> None:
    position = Position(default, reached)
    found = position_in(pieces, position)
    below = [entry_id <= position.get(origin) for origin, entry_id in ids_of(pieces) if entry_id <= found]
    assert all(below)
    beyond = [origin for origin, entry_id in ids_of(pieces) if entry_id > position.get(origin)]
    assert beyond or found == max([default, *reached.values()])
    assert found < ID_MAX


def entries_of(reply: bytes | None) -> set[bytes]:
    words = (reply or b"").split(b"\r\n")
    return {value for field, _, value in zip(words, words[1:], words[2:], strict=False) if field == b"f"}


steps = st.lists(
    st.sampled_from(["east add", "west add", "east read", "west read", "east ack", "west ack", "meet", "setid"]),
    max_size=25,
)


@given(steps, st.sampled_from(["MOVE s 1", "COPY s s DB 1", "SWAPDB 0 1"]))
def test_nobody_misses_an_entry(script: list[str], command: str) -> None:
    """East moves; what neither side has acknowledged is read on, or is pending, in East, and can be read in West."""
    east, west = Region(1), Region(2)
    east.say("XGROUP CREATE s g 0 MKSTREAM")
    west.hear(east)
    added, acked = 0, set[bytes]()
    for step in script:
        name, _, what = step.partition(" ")
        region = west if name == "west" else east
        if what == "add":
            added += 1
            region.say(f"XADD s {added} f {added}")
        elif what == "read":
            region.say("XREADGROUP GROUP g c COUNT 2 STREAMS s >")
        elif what == "ack":
            acked |= acknowledge_oldest(region)
        elif step == "setid":
            east.say("XGROUP SETID s g 0")
        else:
            east.hear(west)
            west.hear(east)
    east.hear(west)
    before = entries_of(east.say("XREADGROUP GROUP g c STREAMS s 0"))
    wanted = wanted_count(east, 0)
    assert east.say(command) in (b":1\r\n", b"+OK\r\n")
    for region in (east, west):
        region.say("SELECT 1")
    east.check()
    assert wanted_count(east, 1) == wanted
    assert entries_of(east.say("XREADGROUP GROUP g c STREAMS s 0")) == before
    west.hear(east)
    assert here(west) >= {b"%d" % number for number in range(1, added + 1)} - acked
    assert here(east) | acked >= {b"%d" % number for number in range(1, added + 1)}
    for region in (east, west):
        region.close_turn()


def wanted_count(region: Region, database: int) -> int:
    stream = region.replica.keyspace.find((database, b"s"))
    assert stream is not None
    return stream.groups[b"g"].wanted_count(stream.chains)


def acknowledge_oldest(region: Region) -> set[bytes]:
    """Acknowledge the oldest pending entry; returns it."""
    reply = region.say("XREADGROUP GROUP g c COUNT 1 STREAMS s 0")
    found = entries_of(reply)
    for number in found:
        region.say(f"XACK s g {number.decode()}")
    return found


def here(region: Region) -> set[bytes]:
    """What a consumer of the moved group gets in this region, again or for the first time."""
    fresh = entries_of(region.say("XREADGROUP GROUP g c STREAMS s >"))
    return fresh | entries_of(region.say("XREADGROUP GROUP g c STREAMS s 0"))
