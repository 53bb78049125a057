"""Who delivers: which entries of a group this region gives to its consumers, and when it takes over for another one.

Only a record moves delivery (core/groups/properties.py). A region that is silent for the takeover time loses its place
to one that has a reader: a region in which a consumer asked for new entries within that time. What records give this
region it delivers only as `Hearing` allows.
"""

from __future__ import annotations

from typing import Final

from crdtstream.commands.group_reading import NEW, GroupReader
from crdtstream.connections.context import Context
from crdtstream.connections.moves import MoveAnswer, MoveOrder
from crdtstream.connections.parking import Parked
from crdtstream.core.effects import Key
from crdtstream.core.groups.group import Group
from crdtstream.core.groups.properties import ANY_REGION, OWNER, record_name
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.causality import region_of
from crdtstream.region.hearing import Hearing
from crdtstream.region.move_calls import MoveCalls, is_parked
from crdtstream.replication.exchange.exchange import Exchange

GroupKey = tuple[Key, bytes]
NOWHERE: Final[frozenset[int]] = frozenset()


class GroupReaders:
    """When a consumer of a group asked last for new entries, and what readers were last woken for."""

    __slots__ = ("asked_ms", "holders", "withheld")

    def __init__(self) -> None:
        self.asked_ms = 0
        self.holders: list[tuple[bytes, int]] = []
        # None: they are woken at the next tick.
        self.withheld: frozenset[int] | None = None


class Delivering:
    """Of groups that one region delivers at a time. `calls`: moves that one region asks another one for."""

    __slots__ = ("_clock", "_context", "_moving", "_readers", "_region", "_replica", "calls", "hearing")

    def __init__(self, exchange: Exchange, context: Context) -> None:
        self._context = context
        self._replica = exchange.view.replica
        self._region = exchange.view.settings.config.region
        self._clock = context.clock
        self.hearing = Hearing(exchange, context.clock)
        self._readers: dict[GroupKey, GroupReaders] = {}
        # The groups that are about to move away, and who waits for it.
        self._moving: dict[GroupKey, Parked] = {}
        self.calls = MoveCalls(exchange, context)

    # What is delivered here

    def look(self, stream: Stream, group: Group) -> None:
        """Withhold from readers of this region what another one delivers now."""
        awaited = [] if group.rules.is_everywhere else self.awaited(group)
        group.withhold(self._withheld(stream, group, awaited))

    def _withheld(self, stream: Stream, group: Group, awaited: list[int]) -> frozenset[int]:
        if group.rules.is_everywhere:
            return NOWHERE
        writers = {region_of(origin) for origin in stream.trees}
        if awaited:
            return frozenset(writers)
        return frozenset(writer for writer in writers if group.rules.deliverer(writer) != self._region)

    def awaited(self, group: Group) -> list[int]:
        """The regions that this one waits for before it delivers anything."""
        return self.hearing.awaited_regions(self.hearing.takeover_ms(group.rules.takeover_ms))

    def read(self, key: Key, name: bytes, stream: Stream, group: Group) -> None:
        """A consumer asks for new entries."""
        readers = self._readers.get((key, name))
        if readers is None:
            readers = self._readers[(key, name)] = GroupReaders()
        readers.asked_ms = self._clock.elapsed_ms
        self.look(stream, group)
        if group.withheld != readers.withheld:
            readers.withheld = None

    def writers_here(self, stream: Stream, group: Group) -> list[int]:
        """The regions whose entries this region delivers by the records; `ANY_REGION` for those of all."""
        if group.rules.mode == OWNER and group.rules.deliverer(ANY_REGION) == self._region:
            return [ANY_REGION]
        writers = {self._region, *[region_of(origin) for origin in stream.trees]}
        return sorted(writer for writer in writers if group.rules.deliverer(writer) == self._region)

    # Moves

    def is_moving(self, key: Key, name: bytes) -> bool:
        """True while a move of the group away from here waits: consumers get nothing new of it."""
        waiter = self._moving.get((key, name))
        if waiter is not None and is_parked(self._context, waiter):
            return True
        return any(one.order.key == key and one.order.group == name for one in self.calls.waiting)

    def start_moving(self, order: MoveOrder, waiter: Parked) -> None:
        self._moving[(order.key, order.group)] = waiter

    def stop_moving(self, order: MoveOrder) -> None:
        self._moving.pop((order.key, order.group), None)
        self._replica.changed.touched[order.key] = None

    def can_ask(self, region: int, order: MoveOrder) -> bool:
        return self.calls.can_ask(region, order)

    def ask(self, region: int, order: MoveOrder, waiter: Parked) -> int:
        return self.calls.ask(region, order, waiter)

    def answer_to(self, number: int) -> MoveAnswer | None:
        return self.calls.answer_to(number)

    # Taking over

    def tick(self, may_write: bool) -> None:
        """Take over what a silent region delivers, if a consumer here asks for it."""
        self.hearing.tick()
        self._end_left()
        for (key, name), readers in list(self._readers.items()):
            stream = self._replica.keyspace.find(key)
            group = None if stream is None else stream.groups.get(name)
            if stream is None or group is None or (group.rules.is_everywhere and not group.rules.ordered):
                del self._readers[(key, name)]
                continue
            takeover_ms = self.hearing.takeover_ms(group.rules.takeover_ms)
            if self._clock.elapsed_ms - readers.asked_ms > takeover_ms // 2 and self._is_awaited(key, name):
                readers.asked_ms = self._clock.elapsed_ms
            if self._clock.elapsed_ms - readers.asked_ms > takeover_ms:
                del self._readers[(key, name)]
                continue
            awaited = [] if group.rules.is_everywhere else self.awaited(group)
            self._wake(key, stream, group, readers, awaited)
            # Nobody takes over who does not know yet what the others did.
            if may_write and not awaited and not group.rules.is_everywhere:
                self._take_over(key, name, stream, group, takeover_ms)

    def _end_left(self) -> None:
        """A client that is gone, or was unblocked, moves nothing."""
        left = [place for place, waiter in self._moving.items() if not is_parked(self._context, waiter)]
        for place in left:
            del self._moving[place]
            self._replica.changed.touched[place[0]] = None

    def _is_awaited(self, key: Key, name: bytes) -> bool:
        """True if a consumer is blocked until the group has something new."""
        waiters = self._context.parking.waiting_for([key])
        return any(isinstance(one, GroupReader) and one.options.group == name and NEW in one.after for one in waiters)

    def _wake(self, key: Key, stream: Stream, group: Group, readers: GroupReaders, awaited: list[int]) -> None:
        """Let blocked readers look again if a silence, a sign of life or the clock has changed what they may get."""
        withheld = self._withheld(stream, group, awaited)
        holders = group.pending.consumers_with_counts() if group.rules.ordered else []
        if (withheld, holders) != (readers.withheld, readers.holders):
            readers.withheld, readers.holders = withheld, holders
            self._replica.changed.touched[key] = None

    def _take_over(self, key: Key, name: bytes, stream: Stream, group: Group, takeover_ms: int) -> None:
        writers = {region_of(origin) for origin in stream.trees}
        rules = group.rules
        places = [ANY_REGION] if rules.mode == OWNER else sorted(writers)
        wait_ms = takeover_ms + self.hearing.turn_ms(takeover_ms)
        silent = [place for place in places if self._is_silent(rules.deliverer(place), wait_ms)]
        if silent:
            self.give(key, name, silent, self._region)

    def _is_silent(self, region: int, wait_ms: int) -> bool:
        return region not in (self._region, ANY_REGION) and self.hearing.silent_ms(region) >= wait_ms

    def give(self, key: Key, name: bytes, writers: list[int], region: int) -> None:
        """From now on that region delivers what these wrote."""
        self._replica.set_properties(key, name, {record_name(writer): b"%d" % region for writer in writers})
