"""Finds the groups that lag most, and those that nobody reads, among all streams of all regions: a walk over the keys
that takes a small part of the time, so that 200,000 streams cost a region no more than a few hundred ones, only longer.

What a walk has found is asked again at each step, so the figures on the page are those of now.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable

from crdtstream.observing.lagging import LaggingGroup, each_where_it_lags_most, looked_at, most_lagging
from crdtstream.observing.reading import RedisPorts
from crdtstream.observing.rows import GroupRow, group_rows
from crdtstream.observing.unread import UnreadGroups, UnreadMarks, unread_in

KEYS_A_PAGE = 200
GROUPS_A_STEP = 200
# Of the time, until every region was walked over once, and from then on.
SHARE, LATER_SHARE = 0.1, 0.05
REST_S = 2.0


class Walk:
    """The walk over one region; `found` are its groups that lag most, and `walks` counts how often it ended."""

    def __init__(self, ports: RedisPorts, address: str, marks: UnreadMarks) -> None:
        self._ports = ports
        self._address = address
        self._cursor = b"0"
        # Groups of the pages so far that have to be looked at, which is done before the next page.
        self._late: list[LaggingGroup] = []
        self._is_whole = True
        self.marks = marks
        self.found: list[LaggingGroup] = []
        self.walks = 0

    @property
    def is_between(self) -> bool:
        """True before the first step of a walk."""
        return self._cursor == b"0" and not self._late

    async def step(self) -> bool:
        """Visit some keys; false if the region did not answer."""
        candidates: list[LaggingGroup] = []
        if not self._late:
            answer = await self._ports.ask(self._address, "SCAN", self._cursor, "COUNT", KEYS_A_PAGE)
            if answer.error:
                return False
            self._cursor, keys = answer.value
            candidates = await self._groups_of(keys) if keys else []
        late, self._late = self._late[:GROUPS_A_STEP], self._late[GROUPS_A_STEP:]
        asked = [*most_lagging([*candidates, *self.found]), *late, *self.marks.worst()]
        self.found = most_lagging(await self._asked_again({group.name: group for group in asked}.values()))
        if self.is_between:
            self._end()
        return True

    def _end(self) -> None:
        self.walks += 1
        self.marks.end_walk(self._is_whole)
        self._is_whole = True

    async def _groups_of(self, keys: list[bytes]) -> list[LaggingGroup]:
        """The groups of a page; those that have to be looked at wait for it."""
        questions = [("XINFO", "GROUPS", key) for key in keys]
        answers = await self._ports.port(self._address).ask_all(questions, 2.0)
        found: list[LaggingGroup] = []
        for key, answer in zip(keys, answers, strict=True):
            self._is_whole = self._is_whole and not answer.unreachable
            for row in [] if answer.error else group_rows(answer.value):
                group = self._candidate(key, row)
                found.append(group)
                if self.marks.wants(group.name, row.lag):
                    self._late.append(group)
        return found

    def _candidate(self, key: bytes, row: GroupRow) -> LaggingGroup:
        return LaggingGroup(self.marks.region, key, row.name, row.lag or 0, row.pending, "")

    async def _asked_again(self, groups: Collection[LaggingGroup]) -> list[LaggingGroup]:
        if not groups:
            return []
        questions = [("CRDT.GROUP", "SHOW", group.key, group.group, "COUNT", 1) for group in groups]
        answers = await self._ports.port(self._address).ask_all(questions, 2.0)
        now_s = time.monotonic()
        found: list[LaggingGroup] = []
        for group, answer in zip(groups, answers, strict=True):
            if answer.unreachable:
                self._is_whole = False
            elif answer.error:
                self.marks.forget(group.name)
            else:
                found.append(looked_at(group, answer.value))
                self.marks.record(now_s, found[-1])
        return found


class Walks:
    """The walks over all regions, by their addresses; `marked_max` is how many groups of each are watched for being
    unread.
    """

    def __init__(self, ports: RedisPorts, marked_max: int = 0) -> None:
        self._ports = ports
        self._marked_max = marked_max
        self._walks: dict[str, Walk] = {}
        self._answering: list[Walk] = []

    def groups(self) -> list[LaggingGroup]:
        """Each group once, where it lags most."""
        return most_lagging(each_where_it_lags_most([group for walk in self._answering for group in walk.found]))

    def unread(self) -> UnreadGroups:
        return unread_in([walk.marks for walk in self._answering])

    def is_complete(self) -> bool:
        """Whether every walk has come to the end once."""
        return bool(self._answering) and all(walk.walks for walk in self._answering)

    async def step(self, addresses: dict[str, str], known: Iterable[str] = ()) -> float:
        """One step in each region that answers, by name; returns how long to rest. Those at the other addresses that
        are `known` go on from where they are once they answer again.
        """
        kept = {address: self._walks[address] for address in known if address in self._walks}
        found = {address: self._walks.get(address) or self._walk(address, name) for name, address in addresses.items()}
        self._walks, self._answering = kept | found, list(found.values())
        began_s = time.monotonic()
        await asyncio.gather(*[walk.step() for walk in self._answering])
        return self._rest_s(time.monotonic() - began_s)

    def _walk(self, address: str, region: str) -> Walk:
        return Walk(self._ports, address, UnreadMarks(region, self._marked_max))

    def _rest_s(self, took_s: float) -> float:
        if not self.is_complete():
            return took_s / SHARE
        return REST_S if all(walk.is_between for walk in self._answering) else min(REST_S, took_s / LATER_SHARE)
