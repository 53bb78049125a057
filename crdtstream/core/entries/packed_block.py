"""What a block holds, and how it is kept small while nobody reads it.

A sealed block never changes, so its *content*, the columns and the bytes of the entries, can be *packed*: compressed
into one byte string, its *packed form*. The block keeps this form from then on. It is *packed* while it has nothing
else, and *open* while it has its content. Whatever reads the content asks `Content.opened` for it, which unpacks it;
packing the block again only drops the content.

An `OpenBlockCache` bounds what is open: `open_bytes_max` limits the blocks that have a packed form and are open
nevertheless. Beyond it the oldest are packed again, except those that were read since they were last considered. Blocks
without a packed form do not count: `core/packing_walk.py` decides when a block gets one.

The package (core/entries/__init__.py) draws the packed form. Columns are stored as differences of neighbours, because
IDs, counters and ends ascend in steps that repeat. All columns together are one long integer with a lane of 32 bits for
each value, or two lanes for a value of a wide column, so a difference below zero borrows from the next lane.

Entries of one shape may be put into column layout first (core/entries/column_layout.py). That makes opening a block
several times dearer, so it is done only where the packed form becomes much smaller. Whether it does is tried once in a
process; blocks that a checkpoint has packed are tried when they are idle, after each start.

Compression is a pure function: the same bytes, at the same level, by the same library. The packed form is never
replicated or compared, but checkpoints keep it on disk (storage/blocks.py), so what it holds is part of their format.
"""

from __future__ import annotations

from array import array
from collections import deque
from typing import Final

from librt.strings import BytesWriter, read_i32_le, write_i32_le
from mypy_extensions import i32, i64
from zstandard import ZstdCompressor, ZstdDecompressor, backend_features

from crdtstream.core.entries.column_layout import from_column_layout, to_column_layout
from crdtstream.core.entries.spilled import BlockHandle, SpilledReads
from crdtstream.core.entries.uint_encoding import in_order, widths_of

# Higher levels take longer and gain nothing on blocks of this size.
LEVEL: Final = 1
LANE_BITS: Final = 32
LANE_BYTES: Final = 4
LANE_MASK: Final = 2**32 - 1
# Lanes are written as signed numbers.
SIGN: Final = 2**31
# What an open block takes besides its content.
OPEN_BYTES: Final = 512
# A packed form that is not smaller than this part of the content does not pay for opening it.
PAYS: Final = 7 / 8
# A packed form in column layout that is not smaller than this part of the other one does not, either.
COLUMN_LAYOUT_PAYS: Final = 7 / 10

# The library's C code has it; its other backends compress one after the other.
_MANY: Final = "multi_compress_to_buffer" in backend_features
_NO_COLUMN: Final = array("I")
_EMPTY_COLUMN: Final = array("Q")
_NO_CHUNKS: Final[list[bytes]] = []


class BlockDamaged(Exception):
    """The packed form of a block does not unpack to what was packed; `reason` says more."""

    def __init__(self, block: Content, first_ms: int, first_seq: int, reason: str) -> None:
        self.block = block
        self.reason = f"the compressed block of {block.count} entries from {first_ms}-{first_seq} on: {reason}"
        advice = "Restart the region: it reads the block from its checkpoint again, or refuses to start and says why"
        if block.is_spilled():
            advice = "Restore the stream, or the region, from a backup, or start it with an empty data directory"
        super().__init__(f"damage in {self.reason}. {advice}")


class PackedForm:
    """The packed form of a block; empty if packing does not pay, or if the block is `spilled`. Beside it is what is
    asked of blocks that nobody reads: the ID of the first entry, and of the list of counters, if there is one, the sum
    and the first.
    """

    __slots__ = (
        "counter_sum",
        "first_listed",
        "first_ms",
        "first_seq",
        "in_column_layout",
        "is_layout_tried",
        "open_blocks",
        "packed",
        "spilled",
    )

    def __init__(self, open_blocks: OpenBlockCache, packed: bytes, in_column_layout: bool) -> None:
        self.open_blocks = open_blocks
        self.packed = packed
        # Whether it is only in the file where the block has its handle.
        self.spilled = False
        self.in_column_layout = in_column_layout
        # Whether column layout was tried, even if it did not pay.
        self.is_layout_tried = in_column_layout
        self.counter_sum = 0
        self.first_ms = 0
        self.first_seq = 0
        self.first_listed = 0

    def first_id(self) -> tuple[int, int]:
        return (self.first_ms, self.first_seq)

    def set_first(self, ms: int, seq: int, listed: array[int]) -> None:
        """Note the ID of the first entry, and what the list of counters has."""
        self.first_ms, self.first_seq = ms, seq
        if listed:
            self.first_listed, self.counter_sum = listed[0], sum(listed)


class Content:
    """The columns and the entries of a block, as core/entries/block.py describes them. While it `is_packed` they have
    no meaning: read them as `opened().ms`.

    Reading entries sets `read`; the walks of core/packing_walk.py and the cache of open blocks clear it, to see whether
    it is set again.
    """

    __slots__ = (
        "_ends",
        "_joined",
        "_listed",
        "chunks",
        "count",
        "handle",
        "is_packed",
        "ms",
        "ms_base",
        "packed_form",
        "read",
        "sealed",
        "seq",
    )

    def __init__(self) -> None:
        self.ms_base = 0
        # Shared by all new blocks, so never written to.
        self.ms: array[int] = _EMPTY_COLUMN
        self.seq: array[int] = _EMPTY_COLUMN
        self._listed: array[int] | None = None
        self._ends: array[int] = _EMPTY_COLUMN
        self.chunks: list[bytes] = _NO_CHUNKS
        self._joined = 0
        self.packed_form: PackedForm | None = None
        # Where a packed form lies in the checkpoint in force, if it does.
        self.handle: BlockHandle | None = None
        self.count = 0
        self.sealed = False
        self.is_packed = False
        self.read = False

    def packed_alone(self) -> PackedForm:
        """The packed form of a packed block, for what it tells without being unpacked."""
        packed_form = self.packed_form
        assert packed_form is not None and self.is_packed
        return packed_form

    def as_stored(self) -> list[array[int]]:
        """Milliseconds, sequence numbers, listed counters (empty if contiguous) and ends of an open block."""
        return [self.ms, self.seq, _EMPTY_COLUMN if self._listed is None else self._listed, self._ends]

    def open(self) -> None:
        """Unpack the content; `Block.opened` does it where it is needed."""
        packed_form = self.packed_alone()
        columns, data = self.unpacked()
        self.ms, self.seq, self._ends = columns[0], columns[1], columns[3]
        if self._listed is not None:
            self._listed = columns[2]
        self.chunks = [data]
        self.is_packed = False
        byte_count = len(data) + sum([column.itemsize * self.count for column in columns if column])
        packed_form.open_blocks.add(self, byte_count + OPEN_BYTES)

    def unpacked(self) -> tuple[list[array[int]], bytes]:
        """The columns and the entries of a block that has a packed form, without opening it."""
        packed_form = self.packed_form
        assert packed_form is not None
        packed = self._fetched(packed_form) if packed_form.spilled else packed_form.packed
        assert packed
        try:
            codec, in_layout = packed_form.open_blocks.codec, packed_form.in_column_layout
            columns, data = unpacked_by(codec, packed, self.count, self.ms_base, in_layout)
            first_ms, first_seq, end = self.ms_base + columns[0][0], columns[1][0], columns[3][self.count - 1]
        except MemoryError:
            raise
        except Exception as error:  # whatever else it is, the bytes are not those that were packed
            raise BlockDamaged(self, packed_form.first_ms, packed_form.first_seq, repr(error)) from error
        if end != len(data) or first_ms != packed_form.first_ms or first_seq != packed_form.first_seq:
            raise BlockDamaged(self, packed_form.first_ms, packed_form.first_seq, "it unpacks to other entries")
        return columns, data

    def _fetched(self, packed_form: PackedForm) -> bytes:
        """The packed form of a spilled block, from its file."""
        handle = self.handle
        assert handle is not None
        try:
            packed = packed_form.open_blocks.reads.fetch(handle)
        except OSError as error:
            raise BlockDamaged(self, packed_form.first_ms, packed_form.first_seq, str(error)) from error
        if not handle.is_whole(packed):
            reason = f"{handle.where()}: a read failed, or its checksum is wrong"
            raise BlockDamaged(self, packed_form.first_ms, packed_form.first_seq, reason)
        return packed

    def is_spilled(self) -> bool:
        """True if neither the content nor the packed form is in memory."""
        return self.is_packed and self.packed_alone().spilled

    def drop_content(self) -> None:
        """Keep only the packed form of a block that has one, or its handle."""
        assert self.packed_form is not None and not self.is_packed
        assert self.packed_form.packed or self.packed_form.spilled
        self.is_packed = True
        self.ms = self.seq = self._ends = _NO_COLUMN
        if self._listed is not None:
            self._listed = _NO_COLUMN
        self.chunks = _NO_CHUNKS
        # The packed form has all entries in one byte string.
        self._joined = self.count

    def pack(self, open_blocks: OpenBlockCache) -> int:
        """Give a sealed block its packed form, and keep only that; returns how many bytes that saves."""
        assert self.sealed and self.packed_form is None
        columns, data = self.as_stored(), b"".join(self.chunks)
        payload = folded(columns, data)
        self.packed_form = packed_form = PackedForm(open_blocks, open_blocks.codec.packed(payload), False)
        if not packed_form.packed:
            return 0
        packed_form.set_first(self.ms_base + self.ms[0], self.seq[0], columns[2])
        self._try_column_layout(packed_form, columns, data)
        self.drop_content()
        return len(payload) - len(packed_form.packed)

    def spill(self, open_blocks: OpenBlockCache) -> int:
        """Keep only the handle of a sealed block that has one; returns how many bytes that saves. What is open, and has
        been packed, stays open until the cache closes it.
        """
        handle, packed_form = self.handle, self.packed_form
        assert self.sealed and handle is not None
        saved = 0
        if packed_form is None or not (packed_form.packed or packed_form.spilled):
            saved = self.content_bytes()
            packed_form = self.packed_form = PackedForm(open_blocks, b"", False)
            packed_form.set_first(self.ms_base + self.ms[0], self.seq[0], self.as_stored()[2])
            packed_form.spilled = True
            self.drop_content()
        saved += len(packed_form.packed)
        packed_form.packed = b""
        packed_form.spilled = packed_form.is_layout_tried = True
        packed_form.in_column_layout = handle.in_column_layout
        return saved

    def content_bytes(self) -> int:
        """What the columns and the entries take in memory, about."""
        rows = sum([column.itemsize for column in self.as_stored() if column])
        return rows * self.count + sum([len(chunk) for chunk in self.chunks])

    def held_bytes(self) -> int:
        """What the block takes in memory, besides the objects themselves."""
        packed_bytes = 0 if self.packed_form is None else len(self.packed_form.packed)
        return packed_bytes if self.is_packed else packed_bytes + self.content_bytes()

    def closed_bytes(self) -> int:
        """The same, but of an open block that has a packed form only this: the content counts with the open blocks."""
        packed_bytes = 0 if self.packed_form is None else len(self.packed_form.packed)
        return packed_bytes or self.held_bytes()

    def lie_at(self, handle: BlockHandle) -> None:
        """A checkpoint that has this block there is in force."""
        self.handle = handle
        if self.packed_form is not None and self.packed_form.spilled:
            self.packed_form.in_column_layout = handle.in_column_layout

    def try_column_layout(self) -> int:
        """Put the entries of a packed block into column layout if that pays; returns how many bytes that saves."""
        packed_form = self.packed_alone()
        assert not packed_form.is_layout_tried
        before = len(packed_form.packed)
        columns, data = self.unpacked()
        self._try_column_layout(packed_form, columns, data)
        return before - len(packed_form.packed)

    def _try_column_layout(self, packed_form: PackedForm, columns: list[array[int]], data: bytes) -> None:
        """Keep these entries, the block's own, in column layout if the packed form becomes much smaller."""
        packed_form.is_layout_tried = True
        kept = to_column_layout(data, id_texts(self.ms_base, columns[0], columns[1]))
        smaller = packed_form.open_blocks.codec.pack(folded(columns, kept)) if kept else packed_form.packed
        if len(smaller) < COLUMN_LAYOUT_PAYS * len(packed_form.packed):
            packed_form.packed, packed_form.in_column_layout = smaller, True


class Codec:
    """Compression with a state to reuse, for one thread. It is no part of what a region knows, so copies share it."""

    __slots__ = ("_compressor", "_decompressor")

    def __init__(self) -> None:
        self._compressor = ZstdCompressor(level=LEVEL)
        self._decompressor = ZstdDecompressor()

    def packed(self, payload: bytes) -> bytes:
        """The packed form; empty if it does not pay."""
        return worth(self.pack(payload), payload)

    def all_packed(self, payloads: list[bytes], always: bool = False) -> list[bytes]:
        """The packed form of each, as `packed` makes it, or even where it does not pay. Other threads may run
        meanwhile; between many short calls they could not, because each call would be over before they wake up.
        """
        if not payloads or not _MANY:
            found = [self.pack(payload) for payload in payloads]
        else:
            given: list[bytes | bytearray | memoryview] = list(payloads)
            buffers = self._compressor.multi_compress_to_buffer(given)
            found = [buffers[at].tobytes() for at in range(len(payloads))]
        return found if always else [worth(form, payload) for form, payload in zip(found, payloads, strict=True)]

    def pack(self, data: bytes) -> bytes:
        # A copy, because the compressor's own result keeps the memory that the data could have needed at most.
        return bytes(memoryview(self._compressor.compress(data)))

    def unpack(self, packed: bytes) -> bytes:
        return self._decompressor.decompress(packed)

    def __deepcopy__(self, memo: object) -> Codec:
        return self


def worth(packed: bytes, payload: bytes) -> bytes:
    """The packed form, or nothing if it does not pay."""
    return packed if len(packed) <= PAYS * len(payload) else b""


class OpenBlockCache:
    """The open blocks of a region that have a packed form, oldest first, and the size of each."""

    __slots__ = ("_open", "codec", "open_bytes", "open_bytes_max", "opened", "reads", "rewritten_bytes")

    def __init__(self, open_bytes_max: int) -> None:
        self.codec = Codec()
        self.reads = SpilledReads()
        self.open_bytes_max = open_bytes_max
        self.open_bytes = 0
        # How often a packed block was opened.
        self.opened = 0
        # By how much removals changed what is in memory beside spilled blocks since the start: the rest of a spilled
        # block is in memory then, and the log shows nothing of that.
        self.rewritten_bytes = 0
        self._open: deque[tuple[Content, int]] = deque()

    def add(self, block: Content, byte_count: int) -> None:
        """Pack others again if too many are open; the new one stays, because it is in use."""
        self.opened += 1
        self.open_bytes += byte_count
        self._keep_to_limit()
        self._open.append((block, byte_count))

    def limit(self, open_bytes_max: int) -> None:
        self.open_bytes_max = open_bytes_max
        self._keep_to_limit()

    def _keep_to_limit(self) -> None:
        while self.open_bytes > self.open_bytes_max and self._open:
            self._consider_oldest()

    def age(self) -> None:
        """Pack the blocks again that nobody read since the last call."""
        for _ in range(len(self._open)):
            self._consider_oldest()

    def _consider_oldest(self) -> None:
        """Pack the oldest block again, or give it another chance behind all others if it was read."""
        block, byte_count = self._open.popleft()
        if block.read:
            block.read = False
            self._open.append((block, byte_count))
        else:
            self.open_bytes -= byte_count
            block.drop_content()

    def check(self) -> None:
        assert not (_EMPTY_COLUMN or _NO_COLUMN or _NO_CHUNKS), "a block wrote to what all share"
        assert self.open_bytes == sum(size for _, size in self._open), "the size of the open blocks is miscounted"
        assert self.open_bytes <= self.open_bytes_max or len(self._open) <= 1, "too much is open"
        for block, _ in self._open:
            form = block.packed_form
            assert form is not None and (form.packed or form.spilled) and not block.is_packed, (
                "a block is wrongly in the cache"
            )


def unpacked_by(
    codec: Codec, packed: bytes, count: int, ms_base: int, in_column_layout: bool
) -> tuple[list[array[int]], bytes]:
    """The columns and the entries that this packed form holds; anything may be raised if it holds none."""
    columns, data = unfolded(codec.unpack(packed), count)
    if in_column_layout:
        data = from_column_layout(data, id_texts(ms_base, columns[0], columns[1]))
    return columns, data


def id_texts(ms_base: int, ms: array[int], seq: array[int]) -> list[bytes]:
    return [b"%d-%d" % (ms_base + one, number) for one, number in zip(ms, seq, strict=True)]


# The bytes that are compressed: the width of each column, the differences of all columns, the entries.


def folded(columns: list[array[int]], data: bytes) -> bytes:
    return b"".join(
        [widths_of(columns), differences(b"".join([in_order(column).tobytes() for column in columns])), data]
    )


def unfolded(payload: bytes, count: int) -> tuple[list[array[int]], bytes]:
    widths = payload[:4]
    end = 4 + count * sum(widths)
    lanes = array("I", sums(payload[4:end]))
    columns: list[array[int]] = []
    at = 0
    for width in widths:
        lanes_end = at + count * width // LANE_BYTES
        part = lanes[at:lanes_end] if width else _NO_COLUMN
        columns.append(in_order(part if width <= LANE_BYTES else array("Q", part.tobytes())))
        at = lanes_end
    return columns, payload[end:]


def differences(raw: bytes) -> bytes:
    """Each lane without the lane before it."""
    writer = BytesWriter()
    before: i64 = 0
    difference: i64 = 0
    for at in range(0, len(raw), LANE_BYTES):
        lane = i64(read_i32_le(raw, at)) & LANE_MASK
        # A difference below zero has borrowed from the next lane.
        difference = lane - before + (difference >> LANE_BITS)
        before = lane
        write_i32_le(writer, i32(((difference & LANE_MASK) ^ SIGN) - SIGN))
    return writer.getvalue()


def sums(raw: bytes) -> bytes:
    """The inverse of `differences`: each lane is added to the one before it, with what that carries over."""
    writer = BytesWriter()
    lane: i64 = 0
    for at in range(0, len(raw), LANE_BYTES):
        difference = i64(read_i32_le(raw, at))
        # What exceeds a lane is carried into the next one.
        lane = (lane & LANE_MASK) + (lane >> LANE_BITS) + (difference & LANE_MASK)
        write_i32_le(writer, i32(((lane & LANE_MASK) ^ SIGN) - SIGN))
    return writer.getvalue()
