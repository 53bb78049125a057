"""One consumer group: what is replicated, and what this region alone knows.

Replicated: the group **is** the set of its surviving create dots. Each create keeps its start and the acknowledged runs
that were made under it; merge of runs is union, of starts the pointwise minimum. A destroy kills every create that does
not follow it.

Local: consumers, pending entries, and what readers pass over. For each origin, over IDs:

    floor       nothing at or below is delivered (the start; SETID lowers it)
    delivered   went to a consumer here
    skipped     never delivered here, yet not wanted: SETID forward, XCLAIM LASTID, lost by DELCONSUMER
    acked       union of the runs of all creates
    replay      SETID backwards: here no run skips an entry or drops its pending entry
    passed      delivered + skipped + (acked - replay), kept so that a read need not build it

A **run** is an interval of `delivered` that ends below the first live pending entry: all in it was delivered here and
acknowledged, here or elsewhere. Only what no run covers yet is sent. Nothing that this region did not deliver is ever
in a run of its own, so no region can make another skip an entry that nobody read.

Intervals are `(from, to]`. IDs of one origin ascend with its counters, so an entry never arrives inside an interval.
"""

from __future__ import annotations

from crdtstream.core.causality import Dot
from crdtstream.core.effects import Interval, Position
from crdtstream.core.entry_id import ID_MAX, ID_MIN, EntryId, next_id, previous_id
from crdtstream.core.entry_tree import EntryTree, Slice
from crdtstream.core.intervals import IntervalSet
from crdtstream.core.merging import Run, merge
from crdtstream.core.pending import PendingEntries

NEVER_MS = -1


class Create:
    """One surviving XGROUP CREATE: where it starts, and the runs acknowledged under it."""

    __slots__ = ("runs", "start")

    def __init__(self, start: Position) -> None:
        self.start = start
        self.runs: dict[int, IntervalSet] = {}


class Consumer:
    """A consumer of this region: when it last asked, and when it last got something (-1: never)."""

    __slots__ = ("active_ms", "seen_ms")

    def __init__(self, seen_ms: int) -> None:
        self.seen_ms = seen_ms
        self.active_ms = NEVER_MS


class Delivery:
    """What one read takes: the entries' RESP bytes in merged order, and for each origin the intervals they make
    delivered.
    """

    __slots__ = ("chunks", "count", "intervals")

    def __init__(self, count: int, chunks: list[bytes], intervals: dict[int, list[Interval]]) -> None:
        self.count = count
        self.chunks = chunks
        self.intervals = intervals


class Candidate:
    """A slice of one origin's wanted entries, and the open low end of the gap it lies in."""

    __slots__ = ("low", "taken")

    def __init__(self, low: EntryId, taken: Slice) -> None:
        self.low = low
        self.taken = taken


class Group:
    """A live consumer group."""

    __slots__ = (
        "acked",
        "consumers",
        "creates",
        "delivered",
        "entries_read",
        "floor",
        "passed",
        "pending",
        "replay",
        "skipped",
    )

    def __init__(self, dot: Dot, start: Position, entries_read: int) -> None:
        self.creates: dict[Dot, Create] = {dot: Create(start)}
        self.floor = start
        self.consumers: dict[bytes, Consumer] = {}
        self.pending = PendingEntries()
        self.delivered: dict[int, IntervalSet] = {}
        self.skipped: dict[int, IntervalSet] = {}
        self.replay: dict[int, IntervalSet] = {}
        self.acked: dict[int, IntervalSet] = {}
        self.passed: dict[int, IntervalSet] = {}
        self.entries_read = entries_read

    # Replicated part

    def join_create(self, dot: Dot, start: Position) -> None:
        """A concurrent create of the same name: a lower start exposes just what was not delivered yet."""
        self.creates[dot] = Create(start)
        self.floor = self.floor.meet(start)

    def apply_runs(self, creates: list[Dot], runs: dict[int, list[Interval]], own: bool) -> bool:
        """Union the runs under each named create that lives here; false when none does.

        Pending entries inside leave, but for own runs: what they step over was deleted and stays until acknowledged.
        """
        alive = [self.creates[dot] for dot in creates if dot in self.creates]
        if not alive:
            return False
        for slot, pieces in runs.items():
            for create in alive:
                mine = create.runs.setdefault(slot, IntervalSet())
                for low, high in pieces:
                    mine.add(low, high)
            self._pass_runs(slot, pieces, own)
        return True

    def _pass_runs(self, slot: int, pieces: list[Interval], own: bool) -> None:
        fresh = IntervalSet()
        acked = self.acked.setdefault(slot, IntervalSet())
        for low, high in pieces:
            fresh.add(low, high)
            acked.add(low, high)
        if slot in self.replay:
            fresh = fresh.minus(self.replay[slot])
        self.passed.setdefault(slot, IntervalSet()).union(fresh)
        if not own:
            self.pending.remove_intervals(slot, fresh)

    def drop_passed(self, slot: int, acked: IntervalSet) -> None:
        """Pending entries inside runs that were made elsewhere leave."""
        replay = self.replay.get(slot)
        self.pending.remove_intervals(slot, acked if replay is None else acked.minus(replay))

    def frontier(self, slot: int) -> EntryId:
        """The ack frontier: the end of the run that begins at the group's start, or that start."""
        start = self.start().get(slot)
        acked = self.acked.get(slot)
        if acked is None:
            return start
        beyond = acked.next_absent(next_id(start) or ID_MAX)
        return max(start, (previous_id(beyond) or ID_MIN) if beyond is not None else ID_MAX)

    def start(self) -> Position:
        creates = list(self.creates.values())
        start = creates[0].start
        for create in creates[1:]:
            start = start.meet(create.start)
        return start

    def new_runs(self, trees: dict[int, EntryTree]) -> dict[int, list[Interval]]:
        """What has become contiguous here and no run covers yet; empty when nothing has."""
        runs: dict[int, list[Interval]] = {}
        for slot in sorted(self.delivered):
            tree = trees.get(slot)
            if tree is not None and tree.count > 0:
                pieces = self._new_runs_of(slot, tree)
                if pieces:
                    runs[slot] = pieces
        return runs

    def _new_runs_of(self, slot: int, tree: EntryTree) -> list[Interval]:
        limit = self._acknowledged_limit(slot, tree)
        acked = self.acked.get(slot)
        pieces: list[Interval] = []
        for low, high in self.delivered[slot].pairs():
            if low >= limit:
                break
            end = last_id_between(tree, low, min(high, limit))
            if end is None:
                continue
            if acked is None:
                pieces.append((low, end))
            else:
                pieces.extend(acked.gaps(low, end))
        return pieces

    def _acknowledged_limit(self, slot: int, tree: EntryTree) -> EntryId:
        """The highest ID that a run may include: below the first pending entry that is still in the tree."""
        first = self.pending.first(slot)
        if first is None:
            return ID_MAX
        if tree.counter_of(first):
            return previous_id(first) or ID_MIN
        for entry_id in self.pending.ids(slot, None):
            if tree.counter_of(entry_id):
                return previous_id(entry_id) or ID_MIN
        return ID_MAX

    # Reading

    def next_entries(self, trees: dict[int, EntryTree], count: int) -> Delivery:
        """The first `count` wanted entries (all when negative) in (ID, origin) order; takes nothing yet."""
        wanted: dict[int, list[Candidate]] = {}
        for slot in sorted(trees):
            found = self._wanted_of(slot, trees[slot], count)
            if found:
                wanted[slot] = found
        return deliver(wanted, merge({slot: [one.taken for one in found] for slot, found in wanted.items()}, count))

    def _wanted_of(self, slot: int, tree: EntryTree, count: int) -> list[Candidate]:
        last = tree.last_id()
        floor = self.floor.get(slot)
        if last is None or last <= floor:
            return []
        passed = self.passed.get(slot)
        gaps = [(floor, last)] if passed is None else passed.gaps(floor, last)
        candidates: list[Candidate] = []
        left = count
        for gap in gaps:
            for taken in tree.slices(next_id(gap[0]) or ID_MAX, gap[1], left, False):
                candidates.append(Candidate(gap[0], taken))
                left -= taken.high - taken.low
            if count >= 0 and left <= 0:
                break
        return candidates

    def has_wanted(self, trees: dict[int, EntryTree]) -> bool:
        return any(self._wanted_of(slot, tree, 1) for slot, tree in trees.items())

    def wanted_count(self, trees: dict[int, EntryTree]) -> int:
        """How many entries are not delivered, not skipped and not acknowledged: the lag."""
        total = 0
        for slot, tree in trees.items():
            last = tree.last_id()
            floor = self.floor.get(slot)
            if last is None or last <= floor:
                continue
            passed = self.passed.get(slot)
            gaps = [(floor, last)] if passed is None else passed.gaps(floor, last)
            total += sum(tree.count_in(next_id(low) or ID_MAX, high) for low, high in gaps)
        return total

    def position_of(self, slot: int) -> EntryId:
        """The last-delivered ID of one origin: the highest that readers have passed."""
        passed = self.passed.get(slot)
        highest = passed.max() if passed is not None else None
        floor = self.floor.get(slot)
        return floor if highest is None else max(floor, highest)

    def last_delivered(self) -> EntryId:
        slots = sorted({*self.passed, *self.floor.ids})
        return max([self.position_of(slot) for slot in slots], default=self.floor.default)

    # Local facts

    def apply_delivered(
        self,
        trees: dict[int, EntryTree],
        consumer: bytes,
        now_ms: int,
        intervals: dict[int, list[Interval]],
        noack: bool,
    ) -> None:
        for slot, pieces in intervals.items():
            delivered = self.delivered.setdefault(slot, IntervalSet())
            passed = self.passed.setdefault(slot, IntervalSet())
            for low, high in pieces:
                delivered.add(low, high)
                passed.add(low, high)
                if not noack:
                    for part in trees[slot].slices(next_id(low) or ID_MAX, high, -1, False):
                        self._add_pending(slot, part, consumer, now_ms)
        known = self.touch(consumer, now_ms)
        if not noack:
            # As in Redis, where a consumer is active only with what it must acknowledge.
            known.active_ms = now_ms

    def _add_pending(self, slot: int, part: Slice, consumer: bytes, now_ms: int) -> None:
        """A pending entry that is delivered again (after SETID, or XCLAIM FORCE) moves to its new owner."""
        last = self.pending.last(slot)
        if last is None or last < part.block.id_at(part.low):
            self.pending.add_slice(slot, part, consumer, now_ms, 1)
            return
        fresh: list[EntryId] = []
        for entry_id in part.ids():
            if self.pending.get(slot, entry_id) is None:
                fresh.append(entry_id)
            else:
                self.pending.set(slot, entry_id, consumer, now_ms, 1)
        self.pending.add(slot, fresh, consumer, now_ms, 1)

    def touch(self, consumer: bytes, now_ms: int) -> Consumer:
        """The consumer, made if it is new, seen now."""
        known = self.consumers.get(consumer)
        if known is None:
            known = Consumer(now_ms)
            self.consumers[consumer] = known
        known.seen_ms = now_ms
        return known

    def apply_claimed(self, consumer: bytes, rows: list[tuple[int, EntryId, int, int]]) -> None:
        for slot, entry_id, delivered_ms, deliveries in rows:
            self.pending.set(slot, entry_id, consumer, delivered_ms, deliveries)

    def apply_dropped(self, intervals: dict[int, list[Interval]]) -> None:
        for slot, pieces in intervals.items():
            self.pending.remove_pieces(slot, pieces)

    def apply_consumer_deleted(self, consumer: bytes) -> None:
        """Its pending entries are lost, as in Redis: no reader here gets them again, and no run covers them.

        What it only claimed (FORCE), or what SETID exposed since, was not delivered and is still wanted.
        """
        for slot, entry_id in self.pending.remove_consumer(consumer):
            delivered = self.delivered.get(slot)
            if delivered is not None and delivered.contains(entry_id):
                below = previous_id(entry_id) or ID_MIN
                delivered.remove(below, entry_id)
                self.skipped.setdefault(slot, IntervalSet()).add(below, entry_id)
        self.consumers.pop(consumer, None)

    def apply_position_set(self, trees: dict[int, EntryTree], position: Position, entries_read: int) -> None:
        """SETID: below the position nothing is wanted, above it everything is; backwards also what runs cover."""
        slots = sorted({*trees, *position.ids, *self.floor.ids})
        for slot in slots:
            self._set_position_of(slot, trees.get(slot), position.get(slot))
        floor = {slot: min(self.floor.get(slot), position.get(slot)) for slot in slots}
        self.floor = Position(position.default, floor)
        self.entries_read = entries_read
        self._rebuild_passed()

    def _set_position_of(self, slot: int, tree: EntryTree | None, target: EntryId) -> None:
        floor = self.floor.get(slot)
        if target <= self.position_of(slot):
            seen = self._highest_seen(slot, tree)
            if seen > target:
                self.replay.setdefault(slot, IntervalSet()).add(target, seen)
        for known in (self.delivered.get(slot), self.skipped.get(slot)):
            if known is not None:
                known.remove(target, ID_MAX)
        if target > floor:
            self.skipped.setdefault(slot, IntervalSet()).add(floor, target)
            delivered = self.delivered.get(slot)
            if delivered is not None:
                self.skipped[slot] = self.skipped[slot].minus(delivered)

    def _highest_seen(self, slot: int, tree: EntryTree | None) -> EntryId:
        """The last entry, or the end of the last run, whose entries may be deleted by now."""
        last = None if tree is None else tree.last_id()
        acked = self.acked.get(slot)
        return max(last or ID_MIN, (None if acked is None else acked.max()) or ID_MIN)

    def apply_position_raised(self, trees: dict[int, EntryTree], entry_id: EntryId) -> None:
        for slot in sorted(trees):
            floor = self.floor.get(slot)
            if floor < entry_id and self.position_of(slot) < entry_id:
                for low, high in self.passed.get(slot, IntervalSet()).gaps(floor, entry_id):
                    self.skipped.setdefault(slot, IntervalSet()).add(low, high)
        if self.floor.default < entry_id:
            ids = {slot: self.floor.get(slot) for slot in sorted({*trees, *self.floor.ids})}
            self.floor = Position(entry_id, ids)
        self._rebuild_passed()

    def _rebuild_passed(self) -> None:
        slots = sorted({*self.delivered, *self.skipped, *self.acked})
        self.passed = {slot: self._passed_of(slot) for slot in slots}

    def _passed_of(self, slot: int) -> IntervalSet:
        passed = IntervalSet()
        for known in (self.delivered.get(slot), self.skipped.get(slot)):
            if known is not None:
                passed.union(known)
        acked = self.acked.get(slot)
        if acked is not None:
            replay = self.replay.get(slot)
            passed.union(acked if replay is None else acked.minus(replay))
        return passed

    def derive(self) -> None:
        """Make `acked` and `passed` again from the parts that a checkpoint keeps."""
        self.acked = {}
        for create in self.creates.values():
            for slot, runs in create.runs.items():
                self.acked.setdefault(slot, IntervalSet()).union(runs)
        self._rebuild_passed()

    def check(self) -> None:
        assert self.creates, "a group without a create dot"
        self.pending.check()
        for slot, passed in self.passed.items():
            passed.check()
            assert passed == self._passed_of(slot), f"passed of slot {slot} is not what its parts make"
        for slot, acked in self.acked.items():
            union = IntervalSet()
            for create in self.creates.values():
                union.union(create.runs.get(slot, IntervalSet()))
            assert acked == union, f"acked of slot {slot} is not the union of its creates' runs"
        for slot, delivered in self.delivered.items():
            delivered.check()
            assert not delivered.intersection(self.skipped.get(slot, IntervalSet())), "delivered and skipped overlap"


def ids_between(tree: EntryTree, low: EntryId, high: EntryId) -> list[EntryId]:
    """The live IDs in (low, high], ascending."""
    ids: list[EntryId] = []
    for part in tree.slices(next_id(low) or ID_MAX, high, -1, False):
        ids += part.ids()
    return ids


def last_id_between(tree: EntryTree, low: EntryId, high: EntryId) -> EntryId | None:
    """The highest live ID in (low, high]."""
    for part in tree.slices(next_id(low) or ID_MAX, high, 1, True):
        return part.block.id_at(part.high - 1)
    return None


def deliver(wanted: dict[int, list[Candidate]], runs: list[Run]) -> Delivery:
    """The reply's bytes, and for each origin (gap's low, last taken ID] of each gap that gave something."""
    chunks: list[bytes] = []
    count = 0
    last_of: dict[int, dict[int, Run]] = {slot: {} for slot in wanted}
    for run in runs:
        chunks.append(run.block.entry_slice(run.low, run.high))
        count += run.high - run.low
        last_of[run.slot][run.source] = run
    intervals = {slot: _delivered(wanted[slot], last) for slot, last in last_of.items() if last}
    return Delivery(count, chunks, intervals)


def _delivered(candidates: list[Candidate], last: dict[int, Run]) -> list[Interval]:
    """Slices of one gap follow each other, so the later one's end is the gap's."""
    ends: dict[EntryId, EntryId] = {}
    for source, run in last.items():
        ends[candidates[source].low] = run.block.id_at(run.high - 1)
    return list(ends.items())
