"""One consumer group: its replicated part, and what only this region knows.

Replicated: the group **is** the set of its surviving create dots. Each create keeps its start and the acknowledged runs
recorded under it. Runs merge by union, starts by the pointwise minimum. A destroy removes every create whose context
does not cover it.

Local: consumers, pending entries, and the IDs that readers pass over. For each origin, as sets of IDs:

    floor       nothing at or below it is delivered (the start; SETID lowers it)
    delivered   delivered to a consumer of this region
    skipped     never delivered here, and not wanted: SETID forwards, XCLAIM LASTID, lost by DELCONSUMER
    acked       union of the runs of all creates
    replay      SETID backwards: in here no run skips an entry or removes its pending entry
    passed      delivered + skipped + (acked - replay), kept up to date so that a read need not compute it

An entry is *wanted* if it lies above the floor and outside `passed`.

A **run** is an interval of `delivered` that ends below the first live pending entry: all entries in it were delivered
here and acknowledged, here or elsewhere. Only the part that no known run covers is sent. A region's runs never contain
entries that it did not deliver, so no region can make another one skip an entry that nobody has read.

Intervals are `(from, to]`. IDs of one origin ascend with its counters, so an entry never arrives inside an interval.

A stream may have seen many origins, most of which are inactive. So the group keeps a **read cursor**
(core/groups/read_cursor.py) and the origins that may have new runs: caches that can be dropped at any time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from crdtstream.core.effects import Position, ResetName
from crdtstream.core.entries.covering_intervals import covering_intervals
from crdtstream.core.entries.entry_tree import EntryTree
from crdtstream.core.entries.merging import BlockRange, ChainRange, TreeRange, merge
from crdtstream.core.groups.consumer import Consumer
from crdtstream.core.groups.create import Create, counted, counts_above, parts_above, start_of
from crdtstream.core.groups.delivery import NOT_OFFERED, Candidate, Delivery, deliver, left_of, runs_within
from crdtstream.core.groups.pending import PendingEntries
from crdtstream.core.groups.properties import NO_REGISTERS, PLAIN, GroupRules, Register, merged
from crdtstream.core.groups.read_cursor import ReadCursor
from crdtstream.core.groups.runs import EXACT_INTERVALS_MAX, contiguous_runs, exact_runs, is_full, passed_of, waiting
from crdtstream.core.values.by_origin import ByOrigin
from crdtstream.core.values.causality import NO_ORIGIN, Dot, region_of
from crdtstream.core.values.chain import Chain, Chains
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN, EntryId, at_most, next_id, previous_id
from crdtstream.core.values.intervals import Interval, IntervalSet
from crdtstream.core.values.origin_intervals import OriginIntervals

NO_REGIONS: Final[frozenset[int]] = frozenset()


class Group:
    """A live consumer group."""

    __slots__ = (
        "_acknowledged",
        "_last_unsettled",
        "_read_cursor",
        "_unsettled",
        "acked",
        "consumers",
        "creates",
        "delivered",
        "deliveries",
        "entries_read",
        "floor",
        "passed",
        "pending",
        "properties",
        "replay",
        "rules",
        "skipped",
        "withheld",
    )

    def __init__(self, dot: Dot, start: Position, entries_read: int) -> None:
        self.creates: dict[Dot, Create] = {dot: Create(start)}
        self.floor = start
        self.consumers: dict[bytes, Consumer] = {}
        self.pending = PendingEntries()
        self.delivered = ByOrigin(IntervalSet)
        self.skipped: dict[int, IntervalSet] = {}
        self.replay: dict[int, IntervalSet] = {}
        self.acked: dict[int, IntervalSet] = {}
        self.passed = ByOrigin(IntervalSet)
        self.entries_read = entries_read
        # How many entries this process handed to consumers, repeatedly or not; for metrics, and kept nowhere.
        self.deliveries = 0
        # Derived from the properties of the creates.
        self.properties = NO_REGISTERS
        self.rules = PLAIN
        # The regions whose entries another region delivers now. Not logged.
        self.withheld = NO_REGIONS
        # With exact acknowledgement: what was acknowledged in this turn, or waits until gaps close.
        self._acknowledged: dict[int, IntervalSet] = {}
        self._read_cursor = ReadCursor()
        self._unsettled: dict[int, None] = {}
        # The last one of them, which is mostly the next one too.
        self._last_unsettled = NO_ORIGIN

    # The read cursor

    def unsettle(self, origin: int) -> None:
        """Note that this origin may have new runs."""
        if origin != self._last_unsettled and origin in self.delivered:
            self._unsettled[origin] = None
            self._last_unsettled = origin

    def invalidate_cursor(self) -> None:
        """Drop what the last read noted of blocks, because blocks leave their trees."""
        self._read_cursor.invalidate()

    def reset_cursor(self) -> None:
        self._read_cursor.reset()
        self._unsettled, self._last_unsettled = dict.fromkeys(self.delivered), NO_ORIGIN

    # Replicated part

    def add_create(self, dot: Dot, start: Position) -> None:
        """Add a concurrent create of the same name; if its start is lower, only undelivered entries become wanted."""
        self.creates[dot] = Create(start)
        self.floor = self.floor.meet(start)
        self.reset_cursor()

    def apply_runs(
        self, creates: list[Dot], runs: dict[int, list[Interval]], own: bool, resets: Sequence[ResetName] = ()
    ) -> bool:
        """Add the runs to each named create that survives here; false if none does.

        Pending entries inside runs of other origins leave. Those inside runs of this origin stay: such a run passes
        over pending entries only if they were deleted, and these stay until they are acknowledged.
        """
        alive = counted(self.creates, creates, resets)
        if not alive:
            return False
        for origin, pieces in runs.items():
            for create in alive:
                create.add_runs(origin, parts_above(pieces, counts_above([create], origin)))
            counting = parts_above(pieces, counts_above(alive, origin))
            if counting:
                self._pass_runs(origin, counting, own)
        return True

    def _pass_runs(self, origin: int, pieces: list[Interval], own: bool) -> None:
        acked = self.acked.setdefault(origin, IntervalSet())
        for low, high in pieces:
            acked.add(low, high)
        passed = self.passed.of(origin)
        replay = self.replay.get(origin)
        if own and replay is None:
            for low, high in pieces:
                # All of it was delivered here, so it usually is passed.
                if not passed.covers(low, high):
                    passed.add(low, high)
                    self._read_cursor.invalidate()
            return
        fresh = IntervalSet.of(pieces)
        if replay is not None:
            fresh = fresh.minus(replay)
        passed.union(fresh)
        if not own:
            self._read_cursor.invalidate()
            self.pending.remove_intervals(origin, fresh)
            self.unsettle(origin)

    def drop_passed(self, origin: int, acked: IntervalSet) -> None:
        """Remove the pending entries inside runs that another region recorded."""
        self.unsettle(origin)
        replay = self.replay.get(origin)
        self.pending.remove_intervals(origin, acked if replay is None else acked.minus(replay))

    def apply_properties(self, creates: list[Dot], values: dict[bytes, Register]) -> bool:
        """Set these under each named create that survives here; false if none does."""
        alive = [self.creates[dot] for dot in creates if dot in self.creates]
        for create in alive:
            create.properties = merged(create.properties, values.items())
        if alive:
            self._choose_properties()
        return bool(alive)

    def _choose_properties(self) -> None:
        """The properties and rules that count, after those of a create changed or a create left."""
        registers = NO_REGISTERS
        for create in self.creates.values():
            if create.properties:
                registers = merged(registers, create.properties.items())
        if registers == self.properties:
            return
        was_exact = self.rules.exact
        self.properties, self.rules = registers, GroupRules(registers)
        if self.rules.exact and not was_exact:
            # What was acknowledged above a pending entry has been told to nobody.
            self.acknowledge_delivered()
        elif was_exact and not self.rules.exact:
            self._acknowledged = {}

    def acknowledge_delivered(self) -> None:
        """Count all that was delivered here, and is not pending, as acknowledged in this turn."""
        self._acknowledged = {origin: delivered.copy() for origin, delivered in self.delivered.items()}
        self._unsettled, self._last_unsettled = dict.fromkeys(self.delivered), NO_ORIGIN

    def withhold(self, regions: frozenset[int]) -> None:
        """Readers of this region get no entries that these regions wrote, until this is called again."""
        if regions != self.withheld:
            self.withheld = regions
            self._read_cursor.reset()

    def withholds(self, origin: int) -> bool:
        return bool(self.withheld) and region_of(origin) in self.withheld

    def frontier(self, origin: int) -> EntryId:
        """The ack frontier: the end of the run that starts at the group's start, or the start if there is none."""
        start = self.start().get(origin)
        acked = self.acked.get(origin)
        if acked is None:
            return start
        beyond = acked.next_absent(next_id(start) or ID_MAX)
        return max(start, (previous_id(beyond) or ID_MIN) if beyond is not None else ID_MAX)

    def start(self) -> Position:
        return start_of(self.creates)

    def new_runs(self, trees: ByOrigin[EntryTree], exact_max: int = EXACT_INTERVALS_MAX) -> dict[int, list[Interval]]:
        """The intervals that became runs and are in no known run yet; the caller applies and sends them. Of an origin
        with so many runs, none is added above the first pending entry before gaps close.
        """
        runs = self.look_for_runs(trees, exact_max)
        self.record_new_runs(runs, exact_max)
        return runs

    def record_new_runs(self, runs: dict[int, list[Interval]], exact_max: int) -> None:
        """Note that `look_for_runs` has just found these."""
        self._acknowledged = waiting(self._acknowledged, self.acked, runs, exact_max)
        self._unsettled = {}
        self._last_unsettled = NO_ORIGIN

    def acknowledged_exactly(self, origin: int) -> IntervalSet:
        """A copy of what was acknowledged, and may be in no run yet."""
        return self._acknowledged[origin].copy() if origin in self._acknowledged else IntervalSet()

    def look_for_runs(self, trees: ByOrigin[EntryTree], exact_max: int) -> dict[int, list[Interval]]:
        """What `new_runs` finds; notes nothing."""
        found = {origin: self._new_runs_of(origin, trees.get(origin), exact_max) for origin in sorted(self._unsettled)}
        return {origin: pieces for origin, pieces in found.items() if pieces}

    def _new_runs_of(self, origin: int, tree: EntryTree | None, exact_max: int) -> list[Interval]:
        delivered, acked = self.delivered.get(origin), self.acked.get(origin)
        if tree is None or tree.count == 0 or delivered is None:
            return []
        pieces = contiguous_runs(tree, delivered, acked, self.pending)
        acknowledged = self._acknowledged.get(origin) if self._acknowledged else None
        if acknowledged is not None and not is_full(acked, pieces, exact_max):
            pieces += exact_runs(tree, delivered, acknowledged, acked, self.pending)
        return parts_above(pieces, counts_above(list(self.creates.values()), origin))

    # Reading

    def next_entries(self, chains: Chains[EntryTree], count: int) -> Delivery:
        """The first `count` wanted entries in (ID, origin) order (all if negative); changes nothing yet."""
        if self.withheld:
            # What is passed over now may be wanted again: nothing may be noted.
            self._read_cursor.reset()
        delivery = self._read_cursor.behind_end(chains, count)
        if delivery is not None:
            return delivery
        wanted: dict[int, list[Candidate]] = {}
        chain_ranges: list[ChainRange] = []
        for chain in chains.all:
            chain_range = self._chain_range_of(chain, count, len(chains.all), wanted)
            if chain_range:
                chain_ranges.append(chain_range)
        delivery = deliver(wanted, merge(chain_ranges, count))
        self._read_cursor.offer(chains, delivery)
        return delivery

    def _chain_range_of(
        self, chain: Chain[EntryTree], count: int, chain_count: int, wanted: dict[int, list[Candidate]]
    ) -> ChainRange:
        """The first `count` wanted entries of a chain; adds the candidates of each tree to `wanted`."""
        chain_range: ChainRange = []
        at = self._read_cursor.first_of(chain)
        while at < len(chain.extents) and count != 0:
            tree = chain.extents[at]
            found = self._wanted_of(tree, count)
            if found:
                wanted[tree.origin] = found
                chain_range.append(TreeRange(tree.origin, [one.taken for one in found]))
                count = left_of(count, found)
            elif not chain_range:
                self._read_cursor.pass_tree(chain, tree, chain_count)
            at += 1
        return chain_range

    def _wanted_of(self, tree: EntryTree, count: int) -> list[Candidate]:
        candidates: list[Candidate] = []
        left = count
        for low, high in self.wanted_in(tree):
            for taken in tree.slices(next_id(low) or ID_MAX, high, left, False):
                candidates.append(Candidate(low, taken))
                left -= taken.high - taken.low
            if count >= 0 and left <= 0:
                break
        return candidates

    def goes_on(self, delivery: Delivery) -> bool:
        """True if this delivery begins where the last one ended, and nothing but deliveries changed the group since."""
        return self._read_cursor.goes_on(delivery)

    def has_wanted(self, chains: Chains[EntryTree]) -> bool:
        return self.next_entries(chains, 1).count > 0

    def wanted_count(self, chains: Chains[EntryTree]) -> int:
        """The number of wanted entries: the group's lag."""
        total = 0
        for chain in chains.all:
            for at in range(self._read_cursor.first_of(chain), len(chain.extents)):
                tree = chain.extents[at]
                total += sum([tree.count_in(next_id(low) or ID_MAX, high) for low, high in self.wanted_in(tree)])
        return total

    def wanted_in(self, tree: EntryTree) -> list[Interval]:
        """The wanted intervals of a tree, as (from, to]."""
        last = tree.last_id()
        floor = self.floor.get(tree.origin)
        if last is None or last <= floor or self.withholds(tree.origin):
            return []
        passed = self.passed.get(tree.origin)
        return [(floor, last)] if passed is None else passed.gaps(floor, last)

    def wants(self, origin: int, entry_id: EntryId) -> bool:
        """True if no reader of this region has passed this ID."""
        passed = self.passed.get(origin)
        return entry_id > self.floor.get(origin) and (passed is None or not passed.contains(entry_id))

    def position_of(self, origin: int) -> EntryId:
        """The last-delivered ID of one origin: the highest ID that readers have passed."""
        passed = self.passed.get(origin)
        highest = passed.max() if passed is not None else None
        floor = self.floor.get(origin)
        return floor if highest is None or at_most(highest, floor) else highest

    def last_delivered(self) -> EntryId:
        if len(self.passed) == 1 and not self.floor.ids:
            return self.position_of(next(iter(self.passed)))
        origins = sorted({*self.passed, *self.floor.ids})
        return max([self.position_of(origin) for origin in origins], default=self.floor.default)

    # Local facts

    def apply_delivered(
        self,
        trees: ByOrigin[EntryTree],
        consumer: bytes,
        now_ms: int,
        intervals: OriginIntervals,
        noack: bool,
        offer: int = NOT_OFFERED,
    ) -> None:
        runs = self._read_cursor.accept(offer)
        if intervals.is_one():
            self._pass_delivered(intervals.origin, intervals.low, intervals.high)
        else:
            for origin, pieces in intervals.as_dict().items():
                for low, high in pieces:
                    self._pass_delivered(origin, low, high)
        if runs:
            self._put_end(runs[-1], intervals.high_of(runs[-1].origin))
        if not noack:
            if runs is None:
                self.pending.deliver_runs(runs_within(trees, intervals), consumer, now_ms)
            elif intervals.is_one() and len(runs) == 1 and runs[0].high - runs[0].low == 1:
                # What was offered ends with its last entry, here the only one.
                self.pending.deliver_one(intervals.origin, intervals.high, consumer, now_ms)
            else:
                self.pending.deliver_runs(runs, consumer, now_ms)
        elif self.rules.exact:
            self._record_acknowledged(intervals)
        known = self.touch(consumer, now_ms)
        if not noack:  # As in Redis: a read with NOACK makes a consumer seen, not active.
            known.active_ms = now_ms

    def _record_acknowledged(self, intervals: OriginIntervals) -> None:
        for origin, pieces in intervals.as_dict().items():
            self._acknowledged.setdefault(origin, IntervalSet()).union(IntervalSet.of(pieces))

    def _put_end(self, run: BlockRange, last: EntryId) -> None:
        """Nothing up to the last entry of a read is wanted any more; all above it is, if nothing there was passed."""
        if self._read_cursor.end_behind(run, last) and not self.passed[run.origin].ends_at(last):
            self._read_cursor.invalidate()

    def _pass_delivered(self, origin: int, low: EntryId, high: EntryId) -> None:
        if self.skipped:
            skipped = self.skipped.get(origin)
            if skipped is not None:
                skipped.remove(low, high)
        self.delivered.of(origin).add(low, high)
        self.passed.of(origin).add(low, high)
        self.unsettle(origin)

    def touch(self, consumer: bytes, now_ms: int) -> Consumer:
        """Note a request of this consumer now; the consumer is created if necessary."""
        known = self.consumers.get(consumer)
        if known is None:
            known = self.consumers[consumer] = Consumer(now_ms)
        known.seen_ms = now_ms
        return known

    def apply_claimed(self, consumer: bytes, rows: list[tuple[int, EntryId, int, int]]) -> None:
        for origin, entry_id, delivered_ms, deliveries in rows:
            self.pending.set(origin, entry_id, consumer, delivered_ms, deliveries)

    def apply_dropped(self, intervals: OriginIntervals) -> None:
        if self.rules.exact:
            self._record_acknowledged(intervals)
        if intervals.is_one():
            self.pending.remove_piece(intervals.origin, intervals.low, intervals.high)
            self.unsettle(intervals.origin)
            return
        for origin, pieces in intervals.as_dict().items():
            self.pending.remove_pieces(origin, pieces)
            self.unsettle(origin)

    def apply_consumer_deleted(self, trees: ByOrigin[EntryTree], consumer: bytes) -> None:
        """Delete a consumer. Its pending entries are lost, as in Redis: no reader here gets them again, and no run of
        this region covers them.

        Entries that it only claimed (FORCE), or that SETID made wanted again, were not delivered and remain wanted.
        """
        held: dict[int, list[EntryId]] = {}
        for origin, entry_id in self.pending.remove_consumer(consumer):
            held.setdefault(origin, []).append(entry_id)
        for origin, ids in held.items():
            delivered = self.delivered.get(origin)
            self.unsettle(origin)
            if delivered is not None:
                lost = covering_intervals(trees.get(origin), ids).intersection(delivered)
                self.delivered[origin] = delivered.minus(lost)
                self.skipped.setdefault(origin, IntervalSet()).union(lost)
        self.consumers.pop(consumer, None)

    def apply_place_set(
        self,
        floor: Position,
        delivered: dict[int, list[Interval]],
        skipped: dict[int, list[Interval]],
        replay: dict[int, list[Interval]],
    ) -> None:
        """Replace what this region has delivered, skipped and wants again."""
        self.floor = floor
        pieces_of = {origin: IntervalSet.of(pieces) for origin, pieces in delivered.items()}
        self.delivered = ByOrigin.of_dict(IntervalSet, pieces_of)
        self.skipped = {origin: IntervalSet.of(pieces) for origin, pieces in skipped.items()}
        self.replay = {origin: IntervalSet.of(pieces) for origin, pieces in replay.items()}
        self.rebuild_passed()

    def rebuild_passed(self) -> None:
        """Recompute `passed` after one of its parts was replaced."""
        origins = sorted({*self.delivered, *self.skipped, *self.acked})
        self.passed = ByOrigin.of_dict(IntervalSet, {origin: self._passed_of(origin) for origin in origins})
        self.reset_cursor()

    def _passed_of(self, origin: int) -> IntervalSet:
        acked, replay = self.acked.get(origin) or IntervalSet(), self.replay.get(origin)
        settled = acked if replay is None else acked.minus(replay)
        return passed_of(self.delivered.get(origin), self.skipped.get(origin), settled)

    def derive(self) -> None:
        """Recompute `acked` and `passed` from the creates and the local parts, after these were replaced."""
        self.acked = {}
        for create in self.creates.values():
            for origin, runs in create.runs.items():
                self.acked.setdefault(origin, IntervalSet()).union(runs)
        self._choose_properties()
        self.rebuild_passed()

    def check(self) -> None:
        assert self.creates, "a group without a create dot"
        self.pending.check()
        for origin, passed in self.passed.items():
            passed.check()
            assert passed == self._passed_of(origin), f"passed of origin {origin} is stale"
        for origin, acked in self.acked.items():
            union = IntervalSet()
            for create in self.creates.values():
                union.union(create.runs.get(origin, IntervalSet()))
            assert acked == union, f"acked of origin {origin} is not the union of its creates' runs"
        for origin, delivered in self.delivered.items():
            delivered.check()
            assert not delivered.intersection(self.skipped.get(origin, IntervalSet())), "delivered and skipped overlap"

    def check_cursor(self, chains: Chains[EntryTree], trees: ByOrigin[EntryTree]) -> None:
        """Nothing below the read cursor is wanted, and no origin outside `_unsettled` has new runs."""
        for chain in chains.all:
            for tree in chain.extents[: self._read_cursor.first_of(chain)]:
                assert not self._wanted_of(tree, 1), f"entries of origin {tree.origin} are wanted below the read cursor"
        for origin in self.delivered:
            if origin not in self._unsettled:
                assert not self._new_runs_of(origin, trees.get(origin), 0), f"settled origin {origin} has new runs"
