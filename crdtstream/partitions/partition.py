"""One partition: messages under dense offsets, as entries of one stream.

    ID <epoch number>-<offset>   key <bytes>, unless the message has none   value <bytes>   time <ms>

Offsets below the oldest were trimmed. Times do not fall within a partition, so a time is found by bisection. What lies
outside of the segments (partitions/epochs.py) is *stale*: the home numbers it once more, at the end, in the order of
epochs and offsets, and removes the old entry in the same turn. So a Redis client may put a message with `XADD <key> *
value <bytes>`. An entry without a value is ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from typing import Final

from crdtstream.core.effects import CounterRange, Key
from crdtstream.core.entries.block import Block, demand_blocks
from crdtstream.core.entries.encoding import entry_fields
from crdtstream.core.entries.entry_tree import EntryTree
from crdtstream.core.entries.slices import Slice
from crdtstream.core.foreseeing import foresee_removal
from crdtstream.core.replica import Replica
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.causality import Dot
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN, EntryId, next_id, previous_id
from crdtstream.partitions.epochs import Epoch, Epochs, EpochSegment
from crdtstream.partitions.registers import NEVER, HeldIntervals, stamp_of
from crdtstream.partitions.values import Ahead, NewMessage, PartitionMessage, Stamp

KEY: Final = b"key"
VALUE: Final = b"value"
TIME: Final = b"time"
# What a message costs beyond its key and value, about: in replies and in the log.
MESSAGE_BYTES: Final = 64
# An entry: its origin, its block and its index there.
Placed = tuple[int, Block, int]
# How far the last message is looked for among entries that are none, before all are visited.
TAIL_ENTRIES: Final = 64


class Partition:
    """One partition as this region sees it, under the epochs that it knows."""

    __slots__ = ("_ahead", "_epochs", "_key", "_oldest", "_replica", "_sound", "_unplaced", "number")

    def __init__(self, replica: Replica, key: Key, number: int, epochs: Epochs, ahead: Ahead) -> None:
        self._ahead = ahead
        self._replica = replica
        self._key = key
        self.number = number
        self._epochs = epochs
        self._sound = ID_MIN
        # What was here when messages without a place were last looked for, and whether there were any.
        self._unplaced = (NEVER, False)
        # The oldest offset with the epochs that were known then, and the time of its message.
        self._oldest: tuple[tuple[int, list[Epoch]], int] = ((-1, []), 0)

    def _stream(self) -> Stream | None:
        return self._replica.keyspace.find(self._key)

    def _segments(self) -> list[EpochSegment]:
        return self._epochs.segments(self.number)

    # Reading

    def next_offset(self) -> int:
        """The offset of the next message to be numbered, as far as this region knows."""
        last = self._segments()[-1]
        stream = self._stream()
        meta = None if stream is None else stream.metas.get(last.origin)
        if meta is None:
            return last.start
        if meta.add_id[0] == last.number and self.is_sound():
            return max(last.start, meta.add_id[1] + 1)
        # A Redis client of the home has added an entry since.
        numbered = self._last(last)
        return last.start if numbered is None else numbered.offset + 1

    def is_sound(self) -> bool:
        """False if the last entry of the current epoch is not a message of its home: a Redis client of the home can add
        one whose ID lies among those that the home gives.
        """
        last = self._segments()[-1]
        tail = self._tail(last, 1)
        return not tail or tail[0].block.id_at(tail[0].high - 1) == self._sound or self._last_is_numbered(last)

    def _last_is_numbered(self, segment: EpochSegment) -> bool:
        piece = self._tail(segment, 1)[0]
        if numbered_at(piece.block, piece.high - 1) is None:
            return False
        # Kept, because every call at the home asks.
        self._sound = piece.block.id_at(piece.high - 1)
        return True

    def oldest_offset(self) -> int:
        """The first offset that is still here; the next one if there is none."""
        for segment in self._segments():
            found = self._slices(segment, segment.start, 1)
            if found:
                return found[0].block.id_at(found[0].low)[1]
        return self.next_offset()

    def read(self, first: int, count_max: int, bytes_max: int) -> list[PartitionMessage]:
        """The messages from this offset on: at most `count_max`, and beyond the first one no more than about
        `bytes_max`.
        """
        found: list[PartitionMessage] = []
        for segment in self._segments():
            if segment.end > first and len(found) < count_max:
                pieces = self._slices(segment, max(first, segment.start), count_max - len(found))
                demand_next(pieces, bytes_max)
                for piece in pieces:
                    for index in range(piece.low, piece.high):
                        message = numbered_at(piece.block, index)
                        if message is None:
                            continue
                        bytes_max -= size_of(message)
                        if bytes_max < 0 and found:
                            return found
                        found.append(message)
        return found

    def offset_at(self, time_ms: int) -> int:
        """The offset of the first message that is not older than this time; the next offset if there is none."""
        for segment in self._segments():
            last = self._last(segment)
            if last is not None and last.time_ms >= time_ms:
                return self._bisect(segment, last.offset, time_ms)
        return self.next_offset()

    def present_from(self, offset: int) -> int:
        """The first offset from this one on that is here; this one if there is none."""
        for segment in self._segments():
            if segment.end > offset:
                found = self._slices(segment, max(offset, segment.start), 1)
                if found:
                    return found[0].block.id_at(found[0].low)[1]
        return offset

    def last_ms(self) -> int:
        """The time of the last message; 0 if there is none."""
        for segment in reversed(self._segments()):
            last = self._last(segment)
            if last is not None:
                return last.time_ms
        return 0

    def _bisect(self, segment: EpochSegment, high: int, time_ms: int) -> int:
        """`high` is the offset of a message at or after this time."""
        low = segment.start
        while low < high:
            middle = (low + high) // 2
            found = self._first(segment, middle)
            if found is None or found.time_ms >= time_ms:
                high = middle
            else:
                low = found.offset + 1
        found = self._first(segment, low)
        return low if found is None else found.offset

    def _first(self, segment: EpochSegment, offset: int) -> PartitionMessage | None:
        found = self._slices(segment, offset, 1)
        return numbered_at(found[0].block, found[0].low) if found else None

    def _last(self, segment: EpochSegment) -> PartitionMessage | None:
        """The last message that the home has numbered."""
        for count in (1, TAIL_ENTRIES, -1):
            tail = self._tail(segment, count)
            found = [numbered_at(piece.block, index) for piece in tail for index in range(piece.low, piece.high)]
            numbered = [one for one in found if one is not None]
            if numbered:
                return max(numbered, key=offset_of)
        return None

    def _tail(self, segment: EpochSegment, count: int) -> list[Slice]:
        tree = self._tree(segment.origin)
        if tree is None:
            return []
        return tree.slices((segment.number, segment.start), (segment.number, segment.end - 1), count, True)

    def _slices(self, segment: EpochSegment, first: int, count: int) -> list[Slice]:
        tree = self._tree(segment.origin)
        if tree is None or first >= segment.end:
            return []
        return tree.slices((segment.number, first), (segment.number, segment.end - 1), count, False)

    def _tree(self, origin: int) -> EntryTree | None:
        stream = self._stream()
        return None if stream is None else stream.trees.get(origin)

    # Writing, at the home

    def top_number(self) -> int:
        """The highest epoch number that this process has used here; a new message needs one that is not below it."""
        stream = self._stream()
        meta = None if stream is None else stream.metas.get(self._replica.applied.origin)
        return 0 if meta is None else meta.top()[0]

    def append(self, messages: list[NewMessage]) -> list[Stamp]:
        """Number these messages in the current epoch, which is this process's."""
        number = self._epochs.current()[0]
        time_ms = max(self._replica.keyspace.now_ms + self._ahead.ms, self.last_ms())
        offset = self.next_offset()
        stamps: list[Stamp] = []
        for message in messages:
            self._replica.add_entry(self._key, (number, offset), fields_of(message, time_ms))
            stamps.append(Stamp(self.number, offset, time_ms))
            offset += 1
        return stamps

    def trim_older(self, time_ms: int) -> int:
        """Remove the messages from before this time; returns how many there were. Raises NotAtOnce before anything
        changes.
        """
        place = (self.oldest_offset(), self._epochs.counted())
        if self._oldest[0] != place:
            first = self.read(place[0], 1, 0)
            if not first:
                return 0
            # Kept, because it is asked each second, and its block may be spilled.
            self._oldest = (place, first[0].time_ms)
        return self.trim(self.offset_at(time_ms)) if self._oldest[1] < time_ms else 0

    def trim(self, offset: int) -> int:
        """Remove the messages below this offset; returns how many there were. Raises NotAtOnce before anything
        changes.
        """
        stream = self._stream()
        if stream is None:
            return 0
        ranges: dict[int, list[CounterRange]] = {}
        for segment in self._segments():
            tree = self._tree(segment.origin)
            end = min(offset, segment.end)
            if tree is not None and end > segment.start:
                within = tree.slices((segment.number, segment.start), (segment.number, end - 1), -1, False)
                ranges[segment.origin] = [*ranges.get(segment.origin, []), *counters_of(within)]
        return self._remove(ranges, True)

    def _remove(self, ranges: dict[int, list[CounterRange]], trimmed: bool) -> int:
        found = {origin: sorted(ranges[origin]) for origin in sorted(ranges) if ranges[origin]}
        foresee_removal(self._replica, self._key, found)
        return self._replica.remove_entries(self._key, found, trimmed, None)

    # Stale messages

    def stamp(self) -> HeldIntervals:
        """Differs whenever an entry was added or removed."""
        stream = self._stream()
        return ([], 0) if stream is None else stamp_of(stream)

    def has_stale(self) -> bool:
        """True if there are entries outside of the segments; cheap, but entries that are not messages count too."""
        stream = self._stream()
        if stream is None:
            return False
        return not self.is_sound() or any(
            tree.count != self._count_valid(origin, tree) for origin, tree in stream.trees.items()
        )

    def _count_valid(self, origin: int, tree: EntryTree) -> int:
        return sum([tree.count_in(*bounds) for bounds in self._bounds_of(origin)])

    def _bounds_of(self, origin: int) -> list[tuple[EntryId, EntryId]]:
        """The IDs in this origin's tree that count, both inclusive, ascending."""
        own = [one for one in self._segments() if one.origin == origin]
        return sorted([((one.number, one.start), (one.number, one.end - 1)) for one in own])

    def has_unplaced(self) -> bool:
        """True if there are stale messages that a home has numbered: they have no lasting place yet. Calls that wait
        for them ask at every message of a peer, so the answer is kept.
        """
        held = self.stamp()
        if held != self._unplaced[0]:
            self._unplaced = (held, self._holds_unplaced())
        return self._unplaced[1]

    def _holds_unplaced(self) -> bool:
        stream = self._stream()
        if stream is None or not self.has_stale():
            return False
        return any(numbered_at(block, index) is not None for _, block, index in self._stale(stream))

    def is_unplaced(self, origin: int, entry_id: EntryId) -> bool:
        """True if this entry of that origin is here and stale."""
        tree = self._tree(origin)
        if tree is None or any(low <= entry_id <= high for low, high in self._bounds_of(origin)):
            return False
        return bool(tree.slices(entry_id, entry_id, 1, False))

    def counters(self) -> list[Dot]:
        """The last addition of each origin."""
        stream = self._stream()
        return [] if stream is None else stamp_of(stream)[0]

    def renumber(self, count_max: int, bytes_max: int) -> tuple[int, int, bool]:
        """Number at most so many stale messages once more and remove the old entries; returns how many, about how many
        bytes, and whether these were all. Beyond the first one they have no more than `bytes_max`.
        """
        stream = self._stream()
        if stream is None:
            return 0, 0, True
        ranges: dict[int, list[CounterRange]] = {}
        found: list[NewMessage] = []
        size, finished = 0, True
        # They are in one batch, after which the next ones follow.
        bytes_max = min(bytes_max, self._replica.budget.cut_bytes)
        for origin, block, index in self._stale(stream):
            message = message_at(block, index)
            if message is None:
                continue
            if len(found) >= count_max or (found and size + size_of(message) > bytes_max):
                finished = False
                break
            size += size_of(message)
            found.append(NewMessage(self.number, message.key, message.value))
            counter = block.counter_at(index)
            ranges.setdefault(origin, []).append((counter, counter))
        self.append(found)
        self._remove(ranges, False)
        return len(found), size, finished

    def _stale(self, stream: Stream) -> Iterator[Placed]:
        """The stale entries of all trees by epoch and offset. A home that has a message when it numbers another one
        knows the epoch of the first: so a message that was sent after another one was answered comes behind it.
        """
        return merge(*[self._stale_in(origin, tree) for origin, tree in stream.trees.items()], key=place_of)

    def _stale_in(self, origin: int, tree: EntryTree) -> Iterator[Placed]:
        for low, high in gaps_between(self._bounds_of(origin)):
            for piece in tree.slices(low, high, -1, False):
                for index in range(piece.low, piece.high):
                    yield origin, piece.block, index


def place_of(entry: Placed) -> tuple[int, int, int]:
    """The epoch that numbered this entry, and its offset there."""
    origin, block, index = entry
    number, offset = block.id_at(index)
    return number, origin, offset


def gaps_between(bounds: list[tuple[EntryId, EntryId]]) -> list[tuple[EntryId, EntryId]]:
    """The IDs outside of these ascending intervals; all ends inclusive."""
    gaps: list[tuple[EntryId, EntryId]] = []
    low = ID_MIN
    for first, last in bounds:
        before, after = previous_id(first), next_id(last)
        assert before is not None and after is not None, "an epoch has the first or the last of all IDs"
        if low <= before:
            gaps.append((low, before))
        low = after
    gaps.append((low, ID_MAX))
    return gaps


def counters_of(pieces: list[Slice]) -> list[CounterRange]:
    """A range that holds the counters of these entries, which follow each other, and of no other live entry of their
    tree.
    """
    if not pieces:
        return []
    first, last = pieces[0], pieces[-1]
    return [(first.block.counter_at(first.low), last.block.counter_at(last.high - 1))]


def demand_next(pieces: list[Slice], bytes_max: int) -> None:
    """Have the spilled blocks of about the first `bytes_max` bytes read together."""
    blocks: list[Block] = []
    for piece in pieces:
        blocks.append(piece.block)
        bytes_max -= piece.block.byte_count
        if bytes_max <= 0:
            break
    demand_blocks(blocks)


def fields_of(message: NewMessage, time_ms: int) -> list[bytes]:
    keyed = [] if message.key is None else [KEY, message.key]
    return [*keyed, VALUE, message.value, TIME, b"%d" % time_ms]


def message_at(block: Block, index: int) -> PartitionMessage | None:
    """The message of this entry; None if it is something else. Without a time it was not numbered by a home yet."""
    fields = entry_fields(block.entry(index))
    named = dict(zip(fields[::2], fields[1::2], strict=True))
    value, time_ms = named.get(VALUE), named.get(TIME, b"0")
    if value is None or not time_ms.isdigit():
        return None
    return PartitionMessage(block.id_at(index)[1], int(time_ms), named.get(KEY), value)


def numbered_at(block: Block, index: int) -> PartitionMessage | None:
    """The message of this entry, if a home has numbered it: then it has a time."""
    message = message_at(block, index)
    return message if message is not None and message.time_ms > 0 else None


def offset_of(message: PartitionMessage) -> int:
    return message.offset


def size_of(message: PartitionMessage) -> int:
    return len(message.value) + (0 if message.key is None else len(message.key)) + MESSAGE_BYTES
