"""Who delivers: which entries of a group this region gives to its consumers, and when it takes over for another one.

Only a record moves delivery (core/groups/properties.py). A region that is silent for the takeover time loses its place
to one that has a reader: a region in which a consumer asked for new entries within that time. What records give this
region it delivers only as `Hearing` allows.
"""

from __future__ import annotations

from typing import Final

from crdtstream.connections.clock import Clock
from crdtstream.connections.parking import Parked
from crdtstream.core.effects import Key
from crdtstream.core.groups.group import Group
from crdtstream.core.groups.properties import ANY_REGION, OWNER, record_name
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.causality import region_of
from crdtstream.region.hearing import Hearing
from crdtstream.replication.exchange.exchange import Exchange

GroupKey = tuple[Key, bytes]
NOWHERE: Final[frozenset[int]] = frozenset()


class Delivering:
    """Of groups that one region delivers at a time. `moving`: those that are about to move away from here."""

    __slots__ = ("_clock", "_readers", "_region", "_replica", "hearing", "moving")

    def __init__(self, exchange: Exchange, clock: Clock) -> None:
        self._replica = exchange.view.replica
        self._region = exchange.view.settings.config.region
        self.hearing = Hearing(exchange, clock)
        self._clock = clock
        # When a consumer asked last for new entries.
        self._readers: dict[GroupKey, int] = {}
        self.moving: dict[GroupKey, Parked] = {}

    # What is delivered here

    def look(self, stream: Stream, group: Group) -> None:
        """Withhold from readers of this region what another one delivers now."""
        group.withhold(NOWHERE if group.rules.is_everywhere else self._withheld(stream, group))

    def _withheld(self, stream: Stream, group: Group) -> frozenset[int]:
        writers = {region_of(origin) for origin in stream.trees}
        if self.awaited(group):
            return frozenset(writers)
        return frozenset(writer for writer in writers if group.rules.deliverer(writer) != self._region)

    def awaited(self, group: Group) -> list[int]:
        """The regions that this one waits for before it delivers anything."""
        return self.hearing.awaited_regions(self.hearing.takeover_ms(group.rules.takeover_ms))

    def read(self, key: Key, name: bytes, stream: Stream, group: Group) -> None:
        """A consumer asks for new entries."""
        self._readers[(key, name)] = self._clock.elapsed_ms
        self.look(stream, group)

    def writers_here(self, stream: Stream, group: Group) -> list[int]:
        """The regions whose entries this region delivers by the records; `ANY_REGION` for those of all."""
        if group.rules.mode == OWNER and group.rules.deliverer(ANY_REGION) == self._region:
            return [ANY_REGION]
        writers = {self._region, *[region_of(origin) for origin in stream.trees]}
        return sorted(writer for writer in writers if group.rules.deliverer(writer) == self._region)

    # Taking over

    def tick(self, may_write: bool) -> None:
        """Take over what a silent region delivers, if a consumer here asks for it."""
        self.hearing.tick()
        if not may_write:
            return
        for (key, name), asked_ms in list(self._readers.items()):
            stream = self._replica.keyspace.find(key)
            group = None if stream is None else stream.groups.get(name)
            if stream is None or group is None or group.rules.is_everywhere:
                del self._readers[(key, name)]
                continue
            takeover_ms = self.hearing.takeover_ms(group.rules.takeover_ms)
            if self._clock.elapsed_ms - asked_ms > takeover_ms:
                del self._readers[(key, name)]
            else:
                self._take_over(key, name, stream, group, takeover_ms)

    def _take_over(self, key: Key, name: bytes, stream: Stream, group: Group, takeover_ms: int) -> None:
        """Nobody takes over who does not know yet what the others did."""
        if self.awaited(group):
            return
        writers = {region_of(origin) for origin in stream.trees}
        rules = group.rules
        places = [ANY_REGION] if rules.mode == OWNER else sorted(writers)
        silent = [place for place in places if self._is_silent(rules.deliverer(place), takeover_ms)]
        if silent:
            self.give(key, name, silent, self._region)

    def _is_silent(self, region: int, takeover_ms: int) -> bool:
        return region not in (self._region, ANY_REGION) and self.hearing.silent_ms(region) >= takeover_ms

    def give(self, key: Key, name: bytes, writers: list[int], region: int) -> None:
        """From now on that region delivers what these wrote."""
        self._replica.set_properties(key, name, {record_name(writer): b"%d" % region for writer in writers})
