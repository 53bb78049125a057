"""Finds the groups that lag most, among all streams of all regions: a walk over the keys that takes a small part of the
time, so that 200,000 streams cost a region no more than a few hundred ones, only longer.

What a walk has found is asked again at each step, so the figures on the page are those of now.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace

from crdtstream.observing.reading import RedisPorts
from crdtstream.observing.rows import fields_of_row, group_rows

KEYS_A_PAGE = 200
KEPT = 5
SHARE = 0.1
REST_S = 2.0


@dataclass(frozen=True)
class LaggingGroup:
    """A group in one region, and whether it lags in others, too; `oldest_id` is the first entry that it has yet to
    deliver there, `delivered` what it has delivered, by origin.
    """

    region: str
    key: bytes
    group: bytes
    lag: int
    pending: int
    oldest_id: str
    delivered: str = ""
    in_others: bool = False

    @property
    def place(self) -> tuple[str, bytes, bytes]:
        return self.region, self.key, self.group


def most_lagging(found: list[LaggingGroup]) -> list[LaggingGroup]:
    """Those with the largest lags, each once; those that do not lag are left out."""
    newest = {group.place: group for group in found}
    late = [group for group in newest.values() if group.lag]
    return sorted(late, key=lambda group: (-group.lag, group.place))[:KEPT]


def each_where_it_lags_most(found: list[LaggingGroup]) -> list[LaggingGroup]:
    kept: dict[tuple[bytes, bytes], LaggingGroup] = {}
    several: set[tuple[bytes, bytes]] = set()
    for group in sorted(found, key=lambda group: (-group.lag, group.place)):
        name = group.key, group.group
        if name in kept and group.lag:
            several.add(name)
        kept.setdefault(name, group)
    return [replace(group, in_others=name in several) for name, group in kept.items()]


class Walk:
    """The walk over one region; `found` are its groups that lag most, and `walks` counts how often it ended."""

    def __init__(self, ports: RedisPorts, address: str, region: str) -> None:
        self._ports = ports
        self._address = address
        self._region = region
        self._cursor = b"0"
        self.found: list[LaggingGroup] = []
        self.walks = 0

    async def step(self) -> bool:
        """Visit some keys; false if the region did not answer."""
        answer = await self._ports.ask(self._address, "SCAN", self._cursor, "COUNT", KEYS_A_PAGE)
        if answer.error:
            return False
        self._cursor, keys = answer.value
        candidates = await self._groups_of(keys) if keys else []
        kept = await self._asked_again(most_lagging([*candidates, *self.found]))
        self.found = most_lagging(kept)
        self.walks += self._cursor == b"0"
        return True

    async def _groups_of(self, keys: list[bytes]) -> list[LaggingGroup]:
        questions = [("XINFO", "GROUPS", key) for key in keys]
        answers = await self._ports.port(self._address).ask_all(questions, 2.0)
        return [
            LaggingGroup(self._region, key, row.name, row.lag or 0, row.pending, "")
            for key, answer in zip(keys, answers, strict=True)
            if not answer.error
            for row in group_rows(answer.value)
        ]

    async def _asked_again(self, groups: list[LaggingGroup]) -> list[LaggingGroup]:
        if not groups:
            return []
        questions = [("CRDT.GROUP", group.key, group.group, "COUNT", 1) for group in groups]
        answers = await self._ports.port(self._address).ask_all(questions, 2.0)
        return [
            looked_at(group, answer.value) for group, answer in zip(groups, answers, strict=True) if not answer.error
        ]


def looked_at(group: LaggingGroup, reply: list[object]) -> LaggingGroup:
    fields = fields_of_row(reply)
    coming = fields["next"]
    pending = sum(fields_of_row(row)["pending"] for row in fields["origins"])
    oldest = coming[0][0].decode() if coming else ""
    delivered = ",".join(fields_of_row(row)["delivered"].decode() for row in fields["origins"])
    return LaggingGroup(group.region, group.key, group.group, fields["lag"], pending, oldest, delivered)


class Walks:
    """The walks over all regions, by their addresses."""

    def __init__(self, ports: RedisPorts) -> None:
        self._ports = ports
        self._walks: dict[str, Walk] = {}

    def groups(self) -> list[LaggingGroup]:
        """Each group once, where it lags most."""
        return most_lagging(each_where_it_lags_most(self.of_each_region()))

    def of_each_region(self) -> list[LaggingGroup]:
        """Those that lag most in each region, `KEPT` of each."""
        return [group for walk in self._walks.values() for group in walk.found]

    def is_complete(self) -> bool:
        """Whether every walk has come to the end once."""
        return bool(self._walks) and all(walk.walks for walk in self._walks.values())

    async def step(self, addresses: dict[str, str]) -> float:
        """One step in each region; returns how long to rest."""
        self._walks = {
            address: self._walks.get(address) or Walk(self._ports, address, region)
            for region, address in addresses.items()
        }
        began_s = time.monotonic()
        await asyncio.gather(*[walk.step() for walk in self._walks.values()])
        took_s = time.monotonic() - began_s
        return REST_S if self.is_complete() else took_s / SHARE
