"""Producers that name their adds: a repeated add is recognised in each region that has the first one.

The name is `IDMP producer-id idempotent-id` of XADD. An add whose outcome is unknown is repeated in the same region
first: in another one, which may not have heard of it, the entry is there twice until the regions hear of each other.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from crdtstream.client.failover import asking
from crdtstream.client.regions import AsyncRegions, Regions, Text
from crdtstream.client.steps import drive, drive_async

STAY_S = 5.0


class _Naming:
    """The words of each add: names are this start of the program and a counter, if the application gives none."""

    def __init__(self, key: Text, producer: Text) -> None:
        if not producer:
            raise ValueError("a producer needs a name: give one that no other producer of this stream has")
        self.key = key
        self.producer = producer
        # A counter alone would name new adds as the ones before a restart.
        self.start = secrets.token_hex(6)
        self.count = 0

    def words(self, fields: Mapping[Text, Text | int | float], name: Text | None) -> list[Any]:
        if name is None:
            self.count += 1
            name = f"{self.start}-{self.count}"
        pairs = [word for pair in fields.items() for word in pair]
        return ["XADD", self.key, "IDMP", self.producer, name, "*", *pairs]


class Producer:
    """Adds entries to one stream, each under a name.

    `name`: the producer's own, the same after a restart, and of no other producer of this stream. `stay_s`: for how
    many seconds an add whose outcome is unknown is repeated in its region, before it is repeated in another one, where
    it may be there twice for a while; `regions.repeats_elsewhere` counts these. Threads may share it if they may share
    `regions`.
    """

    def __init__(self, regions: Regions, key: Text, *, name: Text, stay_s: float = STAY_S) -> None:
        self._regions = regions
        self._naming = _Naming(key, name)
        self._stay_s = stay_s

    def add(self, fields: Mapping[Text, Text | int | float], *, name: Text | None = None) -> bytes:
        """Add an entry and return its ID, or that of the entry that it added under this name before.

        `name` identifies the entry, for example by the number of an order. Without it, only the repeats of this call
        are recognised. Raises NoRegion if the outcome is unknown and no region could be reached, and what
        `Regions.call` raises.
        """
        function = asking(*self._naming.words(fields, name))
        entry_id: bytes = drive(self._regions.failover.call(function, True, self._stay_s))
        return entry_id


class AsyncProducer:
    """As `Producer`, on `AsyncRegions`."""

    def __init__(self, regions: AsyncRegions, key: Text, *, name: Text, stay_s: float = STAY_S) -> None:
        self._regions = regions
        self._naming = _Naming(key, name)
        self._stay_s = stay_s

    async def add(self, fields: Mapping[Text, Text | int | float], *, name: Text | None = None) -> bytes:
        """As `Producer.add`."""
        function = asking(*self._naming.words(fields, name))
        entry_id: bytes = await drive_async(self._regions.failover.call(function, True, self._stay_s))
        return entry_id
