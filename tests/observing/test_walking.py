"""Walks over the streams of regions that are made up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from crdtstream.observing import walking
from crdtstream.observing.asking import RegionAnswer, Words
from crdtstream.observing.reading import RedisPorts
from crdtstream.observing.unread import UNREAD_LAG, UNREAD_S
from crdtstream.observing.walking import GROUPS_A_STEP, KEYS_A_PAGE, LATER_SHARE, REST_S, SHARE, Walks

LATE = UNREAD_LAG + 1
EAST, WEST = "h:1", "h:2"


class MadeUpRegion:
    """A region with a stream for each lag; every stream has one group. It is its own port."""

    def __init__(self, lags: Sequence[int]) -> None:
        self.lags = {b"s%05d" % number: lag for number, lag in enumerate(lags)}
        self.delivered = dict.fromkeys(self.lags, b"1-1")
        self.most_asked = 0
        self.is_silent = False

    async def ask_all(self, questions: Sequence[Words], timeout_s: float) -> list[RegionAnswer]:
        self.most_asked = max(self.most_asked, len(questions))
        return [self.answer(*words) for words in questions]

    def answer(self, command: str | bytes | int, *words: str | bytes | int) -> RegionAnswer:
        if self.is_silent:
            return RegionAnswer("h", error="no answer within 2 s", unreachable=True)
        if command == "SCAN":
            return RegionAnswer("h", self._page(int(words[0])))
        if command == "XINFO":
            return RegionAnswer("h", [self._row(cast(bytes, words[1]))])
        return self._group(cast(bytes, words[1]))

    def _page(self, first: int) -> list[Any]:
        keys = sorted(self.lags)
        more = first + KEYS_A_PAGE if first + KEYS_A_PAGE < len(keys) else 0
        return [b"%d" % more, keys[first : first + KEYS_A_PAGE]]

    def _row(self, key: bytes) -> list[Any]:
        fields = {"name": b"g", "consumers": 0, "pending": 0, "last-delivered-id": b"1-1", "entries-read": None}
        row: list[Any] = [b"lag", self.lags[key]]
        for name, value in fields.items():
            row += [name.encode(), value]
        return row

    def _group(self, key: bytes) -> RegionAnswer:
        if key not in self.lags:
            return RegionAnswer("h", error="NOGROUP")
        origin = [b"pending", 0, b"delivered", self.delivered[key]]
        return RegionAnswer("h", [b"lag", self.lags[key], b"next", [], b"origins", [origin]])


class MadeUpPorts:
    """The ports of such regions, by their addresses."""

    def __init__(self, **regions: MadeUpRegion) -> None:
        self.regions = dict(zip((EAST, WEST), regions.values(), strict=False))

    def port(self, address: str) -> MadeUpRegion:
        return self.regions[address]

    async def ask(self, address: str, *words: str | bytes | int) -> RegionAnswer:
        return self.regions[address].answer(*words)


class SteadyClock:
    """Stands still until it is told."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SteadyClock:
    found = SteadyClock()
    monkeypatch.setattr(walking, "time", found)
    return found


def walks_over(marked_max: int = 10_000, **regions: MadeUpRegion) -> Walks:
    return Walks(cast(RedisPorts, MadeUpPorts(**regions)), marked_max)


async def walk_over(walks: Walks, addresses: dict[str, str]) -> None:
    """One walk over all streams, which has not begun."""
    await walks.step(addresses)
    while not all(walk.is_between for walk in walks._answering):
        await walks.step(addresses)


async def test_all_groups_that_nobody_reads_are_found(clock: SteadyClock) -> None:
    east = MadeUpRegion([LATE + number % 7 for number in range(1_000)] + [UNREAD_LAG] * 100)
    walks = walks_over(east=east)
    await walk_over(walks, {"east": EAST})
    assert walks.unread().number == 0
    east.delivered[b"s00007"] = b"9-1"
    clock.now_s = UNREAD_S
    await walk_over(walks, {"east": EAST})
    assert walks.unread().number == 999
    assert {group.lag for group in walks.unread().shown} == {LATE + 6}
    assert east.most_asked <= GROUPS_A_STEP + KEYS_A_PAGE
    assert len(walks.groups()) == 5


async def test_what_is_shown_is_asked_again_at_each_step(clock: SteadyClock) -> None:
    east = MadeUpRegion([0] * 900 + [LATE, LATE])
    walks = walks_over(east=east)
    await walk_over(walks, {"east": EAST})
    clock.now_s = UNREAD_S
    await walk_over(walks, {"east": EAST})
    assert walks.unread().number == 2
    east.delivered[b"s00900"] = b"9-1"
    del east.lags[b"s00901"]
    await walks.step({"east": EAST})
    assert walks.unread().number == 0


async def test_a_region_that_was_silent_goes_on_from_where_it_was(clock: SteadyClock) -> None:
    east, west = MadeUpRegion([LATE]), MadeUpRegion([0])
    walks = walks_over(east=east, west=west)
    await walks.step({"east": EAST, "west": WEST})
    for now_s in (10.0, UNREAD_S):
        clock.now_s = now_s
        await walks.step({"west": WEST}, [EAST, WEST])
        assert walks.unread().number == 0
    await walks.step({"east": EAST, "west": WEST}, [EAST, WEST])
    assert walks.unread().number == 1
    await walks.step({"west": WEST}, [WEST])
    await walks.step({"east": EAST, "west": WEST}, [WEST])
    assert walks.unread().number == 0, "an address that nobody knows any more was forgotten"


async def test_marks_outlive_questions_without_an_answer(clock: SteadyClock) -> None:
    east = MadeUpRegion([LATE])
    walks = walks_over(east=east)
    await walks.step({"east": EAST})
    east.is_silent = True
    clock.now_s = 10.0
    await walks.step({"east": EAST})
    east.is_silent = False
    clock.now_s = UNREAD_S
    await walks.step({"east": EAST})
    assert walks.unread().number == 1


async def test_walks_without_marks_look_at_the_groups_that_lag_most_alone() -> None:
    east = MadeUpRegion([LATE] * 150)
    walks = walks_over(0, east=east)
    await walks.step({"east": EAST})
    assert walks.is_complete() and east.most_asked == 150
    assert (len(walks.groups()), walks.unread().number) == (5, 0)


async def test_later_walks_rest_longer_and_longest_at_their_ends() -> None:
    walks = walks_over(east=MadeUpRegion([0] * 500))
    addresses = {"east": EAST}
    rests = [await walks.step(addresses) for _ in range(4)]
    assert rests[2] == REST_S and all(rest < REST_S for rest in (rests[0], rests[1], rests[3]))
    assert walks._rest_s(0.01) == 0.01 / LATER_SHARE
    assert walks._rest_s(1.0) == REST_S
    assert walks_over()._rest_s(1.0) == 1.0 / SHARE
