"""Commands on pending entries: XPENDING, XCLAIM, XAUTOCLAIM.

A claim first looks for the live entry: a pending entry whose entry was removed leaves, as in Redis since 7.0. The
decisions of a command are recorded at its end, in one fact of each kind. Until then the pending entries are unchanged,
and `Claims` keeps the decisions, for an ID that is named twice.

One ID may be pending in several origins (in ID modes that allow duplicates): its rows are claimed together and count as
one, because a cursor between them could never advance. Both bounds of a range are closed.

Reference: `xpendingCommand`, `xclaimCommand`, `xautoclaimCommand` of Redis 7.2.
"""

from __future__ import annotations

from crdtstream.commands import arguments
from crdtstream.commands.claiming import ATTEMPTS_PER_COUNT
from crdtstream.commands.dead_letters import DeadLetters, limited
from crdtstream.commands.delivery import look
from crdtstream.commands.groups import attend, live_entry
from crdtstream.commands.integers import I64_MAX, integer
from crdtstream.connections.client import Client
from crdtstream.connections.command import Command, keys_at
from crdtstream.connections.context import CommandError, Context, Reply, shown
from crdtstream.core.effects import Key
from crdtstream.core.groups.group import Group
from crdtstream.core.groups.pending import NOBODY, PendingEntries, PendingRow
from crdtstream.core.local_facts import PendingClaimed, PendingDropped, PositionRaised
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN, EntryId, format_id, parse_id
from crdtstream.core.values.origin_intervals import OriginIntervals
from crdtstream.protocols import replies

PAGE_ROWS = 128
COUNT_DEFAULT = 100
COUNT_MAX = I64_MAX // 16
GONE = 0
LEFT = 1
TAKEN = 2
# What XPENDING shows of an entry that was released.
RELEASED_IDLE_MS = -1
COUNT_TOO_SMALL = "ERR COUNT must be > 0"


def found_group(context: Context, key: Key, name: bytes) -> tuple[Stream, Group]:
    stream = context.look_up(key)
    group = None if stream is None else stream.groups.get(name)
    if stream is None or group is None:
        raise CommandError(f"NOGROUP No such key '{shown(key[1])}' or consumer group '{shown(name)}'")
    return stream, group


class PendingScan:
    """Reads pending entries in ID order, page by page; all rows of one ID are returned together."""

    __slots__ = ("_at", "_end", "_last_page", "_page", "_pending", "_start", "consumer")

    def __init__(self, pending: PendingEntries, start: EntryId, end: EntryId, consumer: bytes | None) -> None:
        self._pending = pending
        self._start = start
        self._end = end
        self._page: list[PendingRow] = []
        self._at = 0
        self._last_page = False
        self.consumer = consumer

    def next_rows(self) -> list[PendingRow]:
        """The rows of the next ID; empty at the end."""
        if self._at == len(self._page) and not self._fetch():
            return []
        first = self._at
        entry_id = self._page[first].entry_id
        while self._at < len(self._page) and self._page[self._at].entry_id == entry_id:
            self._at += 1
        return self._page[first : self._at]

    def _fetch(self) -> bool:
        if self._last_page:
            return False
        limit = PAGE_ROWS
        page = self._rows(limit)
        while len(page) == limit and page[0].entry_id == page[-1].entry_id:
            limit *= 2
            page = self._rows(limit)
        self._last_page = len(page) < limit
        if not self._last_page:
            # The last ID of the page may have more rows, so it is read again as the first one of the next page.
            self._start = page[-1].entry_id
            while page[-1].entry_id == self._start:
                page.pop()
        self._page = page
        self._at = 0
        return bool(page)

    def _rows(self, limit: int) -> list[PendingRow]:
        return self._pending.rows(self._start, self._end, limit, self.consumer)


# XPENDING


def xpending(context: Context, client: Client, argv: list[bytes]) -> Reply:
    key = (client.database, argv[1])
    if len(argv) == 3:
        _, group = found_group(context, key, argv[2])
        return pending_summary(group, client.protocol)
    options = PendingOptions(argv)
    _, group = found_group(context, key, argv[2])
    return replies.array([pending_row(row, context) for row in chosen_rows(group, options, context)])


def pending_summary(group: Group, protocol: int) -> bytes:
    lowest, highest = group.pending.min_id(), group.pending.max_id()
    if lowest is None or highest is None:
        null = replies.null_bulk(protocol)
        return replies.array([replies.ZERO, null, null, replies.null_array(protocol)])
    released = group.pending.released_count()
    named = group.pending.consumers_with_counts()
    held = [(name, count - released if name == NOBODY else count) for name, count in named]
    counts = [replies.bulk_array([name, b"%d" % count]) for name, count in held if count]
    ends = [replies.bulk(format_id(entry_id)) for entry_id in (lowest, highest)]
    return replies.array([replies.integer(group.pending.count), *ends, replies.array(counts)])


class PendingOptions:
    """`[IDLE ms] start end count [consumer]`; arguments after the consumer are ignored, as in Redis."""

    __slots__ = ("consumer", "count", "end", "idle_ms", "start")

    def __init__(self, argv: list[bytes]) -> None:
        if not 6 <= len(argv) <= 9:
            raise CommandError(arguments.SYNTAX)
        self.idle_ms = 0
        at = 3
        if argv[3].upper() == b"IDLE":
            self.idle_ms = integer(argv[4])
            if len(argv) < 8:
                raise CommandError(arguments.SYNTAX)
            at = 5
        self.count = max(integer(argv[at + 2]), 0)
        self.start = arguments.parse_range_start(argv[at])
        self.end = arguments.parse_range_end(argv[at + 1])
        self.consumer = argv[at + 3] if len(argv) > at + 3 else None


def chosen_rows(group: Group, options: PendingOptions, context: Context) -> list[PendingRow]:
    if options.idle_ms <= 0:
        return group.pending.rows(options.start, options.end, options.count, options.consumer)
    now_ms, idle_ms = context.now_ms, options.idle_ms
    if context.clock.idle_ms(now_ms + 1) < idle_ms:
        # Nothing counts that the clock has yet to reach again: delivery times decide, and spans bound theirs.
        return group.pending.rows(options.start, options.end, options.count, options.consumer, now_ms - idle_ms)
    scan = PendingScan(group.pending, options.start, options.end, options.consumer)
    chosen: list[PendingRow] = []
    while len(chosen) < options.count:
        rows = scan.next_rows()
        if not rows:
            break
        chosen += [row for row in rows if context.clock.idle_ms(row.delivered_ms) >= options.idle_ms]
    return chosen[: options.count]


def pending_row(row: PendingRow, context: Context) -> bytes:
    idle_ms = RELEASED_IDLE_MS if row.delivered_ms < 0 else context.clock.idle_ms(row.delivered_ms)
    numbers = [replies.integer(idle_ms), replies.integer(row.deliveries)]
    return replies.array([replies.bulk(format_id(row.entry_id)), replies.bulk(row.consumer), *numbers])


# Claiming


class Claims:
    """The decisions of one claim so far, on top of the unchanged pending entries."""

    __slots__ = (
        "_claimed",
        "_context",
        "_dropped",
        "_group",
        "chunks",
        "consumer",
        "delivered_ms",
        "just_id",
        "letters",
        "retries",
    )

    def __init__(self, context: Context, group: Group, consumer: bytes, delivered_ms: int, just_id: bool) -> None:
        self._context = context
        self._group = group
        self._claimed: dict[tuple[int, EntryId], tuple[int, int]] = {}
        self._dropped: dict[int, dict[EntryId, None]] = {}
        self.consumer = consumer
        self.delivered_ms = delivered_ms
        self.just_id = just_id
        self.retries: int | None = None
        self.letters: DeadLetters | None = None
        self.chunks: list[bytes] = []

    def state_of(self, origin: int, entry_id: EntryId) -> tuple[int, int] | None:
        """Delivery time and delivery count of a pending entry; None if it is not pending."""
        known = self._claimed.get((origin, entry_id))
        if known is not None:
            return known
        pending = self._group.pending.get(origin, entry_id)
        return None if pending is None else (pending.delivered_ms, pending.deliveries)

    def drop(self, origin: int, entry_id: EntryId) -> None:
        self._dropped.setdefault(origin, {})[entry_id] = None

    def claim(self, origin: int, entry_id: EntryId, entry: bytes, deliveries: int) -> None:
        self._claimed[(origin, entry_id)] = (self.delivered_ms, self._deliveries_after(deliveries))
        self.chunks.append(replies.bulk(format_id(entry_id)) if self.just_id else entry)

    def _deliveries_after(self, deliveries: int) -> int:
        if self.retries is not None:
            return self.retries
        return deliveries if self.just_id else min(deliveries + 1, I64_MAX)

    def claim_idle(self, origin: int, entry_id: EntryId, idle_ms: int, entry: bytes) -> bool:
        """Claim a pending entry if it was idle long enough; returns whether it was."""
        state = self.state_of(origin, entry_id)
        if state is None or self._group.withholds(origin) or self._context.clock.idle_ms(state[0]) < idle_ms:
            return False
        if self.letters is None or not self._is_poison(origin, entry_id, entry, state[1]):
            self.claim(origin, entry_id, entry, state[1])
        return True

    def _is_poison(self, origin: int, entry_id: EntryId, entry: bytes, deliveries: int) -> bool:
        """True if this would be one delivery too many, and the entry is moved instead. JUSTID delivers nothing."""
        if self.letters is None or self.just_id or (origin, entry_id) in self._claimed:
            return False
        if self._deliveries_after(deliveries) <= self._group.rules.deliveries_max:
            return False
        return self.letters.accept(origin, entry_id, entry, deliveries)

    def reply(self) -> bytes:
        return replies.array(self.chunks)

    def _takes_chain(self, stream: Stream) -> bool:
        """True if this consumer then holds all that live and are pending."""
        held = [row for row in self._group.pending.rows(ID_MIN, ID_MAX, -1, None) if row.consumer != self.consumer]
        held = [row for row in held if not self._group.withholds(row.origin)]
        moved = self.letters.accepted if self.letters is not None else {}
        left = [row for row in held if (row.origin, row.entry_id) not in {**self._claimed, **moved}]
        return not any(live_entry(stream, row.origin, row.entry_id) for row in left)

    def record(self, context: Context, key: Key, name: bytes, stream: Stream) -> None:
        if self._group.rules.ordered and not self._takes_chain(stream):
            self._claimed, self.chunks, self.letters = {}, [], None
        attend(context, key, name, self.consumer)
        if self._dropped:
            pending = self._group.pending
            pieces = {origin: pending.pieces_of(origin, sorted(ids)) for origin, ids in sorted(self._dropped.items())}
            context.replica.record(PendingDropped(key, name, OriginIntervals.of(pieces)))
        if self._claimed:
            rows = [(origin, entry_id, *state) for (origin, entry_id), state in self._claimed.items()]
            context.replica.record(PendingClaimed(key, name, self.consumer, rows))
            self._group.deliveries += len(rows)
            self._group.touch(self.consumer, context.now_ms).active_ms = context.now_ms
        if self.letters is not None:
            self.letters.write()


# XCLAIM


class ClaimOptions:
    """`[IDLE ms] [TIME ms] [RETRYCOUNT n] [FORCE] [JUSTID] [LASTID id]`, in any order."""

    __slots__ = ("delivered_ms", "force", "just_id", "last_id", "retries")

    def __init__(self) -> None:
        self.delivered_ms: int | None = None
        self.force = False
        self.just_id = False
        self.last_id: EntryId = ID_MIN
        self.retries: int | None = None

    def parse(self, argv: list[bytes], at: int, now_ms: int) -> int:
        """Parse the option at `at`; returns how many arguments it takes."""
        word = argv[at].upper()
        if word == b"FORCE":
            self.force = True
            return 1
        if word == b"JUSTID":
            self.just_id = True
            return 1
        if at + 1 == len(argv) or word not in (b"IDLE", b"TIME", b"RETRYCOUNT", b"LASTID"):
            raise CommandError(f"ERR Unrecognized XCLAIM option '{shown(argv[at])}'")
        self._parse_value(word, argv[at + 1], now_ms)
        return 2

    def _parse_value(self, word: bytes, value: bytes, now_ms: int) -> None:
        if word == b"LASTID":
            self.last_id = arguments.parse_entry_id(value)
            return
        number = integer(value, f"ERR Invalid {word.decode()} option argument for XCLAIM")
        if word == b"IDLE":
            self.delivered_ms = now_ms - number
        elif word == b"TIME":
            self.delivered_ms = number
        else:
            self.retries = number if number >= 0 else None

    def delivered_at(self, now_ms: int) -> int:
        """The delivery time to record. An impossible time becomes now, because clients use their own clocks."""
        given = self.delivered_ms
        return now_ms if given is None or given < 0 or given > now_ms else given


def minimum_idle(text: bytes, command: str) -> int:
    return max(integer(text, f"ERR Invalid min-idle-time argument for {command}"), 0)


def parse_claimed_ids(argv: list[bytes]) -> list[EntryId]:
    """The IDs from the sixth argument on; the first argument that is not an ID starts the options."""
    ids: list[EntryId] = []
    for text in argv[5:]:
        entry_id = parse_id(text, 0)
        if entry_id is None:
            break
        ids.append(entry_id)
    return ids


def parse_claim(argv: list[bytes], at: int, now_ms: int) -> ClaimOptions:
    options = ClaimOptions()
    while at < len(argv):
        at += options.parse(argv, at, now_ms)
    return options


def xclaim(context: Context, client: Client, argv: list[bytes]) -> Reply:
    key, now_ms = (client.database, argv[1]), context.now_ms
    stream, group = found_group(context, key, argv[2])
    idle_ms = minimum_idle(argv[4], "XCLAIM")
    ids = parse_claimed_ids(argv)
    options = parse_claim(argv, 5 + len(ids), now_ms)
    look(context, key, argv[2], stream, group, False)
    if options.last_id != ID_MIN and options.last_id > group.last_delivered():
        context.replica.record(PositionRaised(key, argv[2], options.last_id))
    claims = Claims(context, group, argv[3], options.delivered_at(now_ms), options.just_id)
    claims.retries = options.retries
    claims.letters = limited(context, key, argv[2], stream, group)
    for entry_id in ids:
        claim_id(stream, group, claims, entry_id, idle_ms, options.force)
    claims.record(context, key, argv[2], stream)
    return claims.reply()


def claim_id(stream: Stream, group: Group, claims: Claims, entry_id: EntryId, idle_ms: int, force: bool) -> None:
    pending = group.pending.origins_of(entry_id)
    live = stream.origins_holding(entry_id)
    for origin in sorted({*pending, *live}):
        if origin not in live:
            claims.drop(origin, entry_id)
            continue
        entry = live_entry(stream, origin, entry_id)
        assert entry is not None
        if claims.state_of(origin, entry_id) is not None:
            claims.claim_idle(origin, entry_id, idle_ms, entry)
        elif force and not group.withholds(origin):
            # As in Redis, FORCE creates a pending entry with one delivery, to which the claim adds another.
            claims.claim(origin, entry_id, entry, 1)


# XAUTOCLAIM


class AutoclaimOptions:
    """`[COUNT n] [JUSTID]`."""

    __slots__ = ("count", "just_id")

    def __init__(self, argv: list[bytes]) -> None:
        self.count = COUNT_DEFAULT
        self.just_id = False
        at = 6
        while at < len(argv):
            word = argv[at].upper()
            if word == b"COUNT" and at + 1 < len(argv):
                self.count = integer(argv[at + 1], COUNT_TOO_SMALL)
                if not 0 < self.count <= COUNT_MAX:
                    raise CommandError(COUNT_TOO_SMALL)
                at += 2
            elif word == b"JUSTID":
                self.just_id = True
                at += 1
            else:
                raise CommandError(arguments.SYNTAX)


def xautoclaim(context: Context, client: Client, argv: list[bytes]) -> Reply:
    key = (client.database, argv[1])
    idle_ms = minimum_idle(argv[4], "XAUTOCLAIM")
    start = arguments.parse_range_start(argv[5])
    options = AutoclaimOptions(argv)
    stream, group = found_group(context, key, argv[2])
    look(context, key, argv[2], stream, group, False)
    if group.rules.ordered:
        options.count = max(options.count, group.pending.count)
    claims = Claims(context, group, argv[3], context.now_ms, options.just_id)
    claims.letters = limited(context, key, argv[2], stream, group)
    cursor, deleted = autoclaim(stream, PendingScan(group.pending, start, ID_MAX, None), claims, idle_ms, options.count)
    claims.record(context, key, argv[2], stream)
    gone = replies.bulk_array([format_id(entry_id) for entry_id in deleted])
    return replies.array([replies.bulk(format_id(cursor)), claims.reply(), gone])


def autoclaim(
    stream: Stream, scan: PendingScan, claims: Claims, idle_ms: int, count: int
) -> tuple[EntryId, list[EntryId]]:
    """Claim up to `count` IDs, counting deleted ones; returns the cursor (0-0 at the end) and the deleted IDs."""
    attempts = count * ATTEMPTS_PER_COUNT
    deleted: list[EntryId] = []
    while True:
        rows = scan.next_rows()
        if not rows:
            return ID_MIN, deleted
        entry_id = rows[0].entry_id
        if attempts == 0 or count == 0:
            return entry_id, deleted
        attempts -= 1
        fate = claim_rows(stream, claims, rows, idle_ms)
        if fate == GONE:
            deleted.append(entry_id)
        if fate != LEFT:
            count -= 1


def claim_rows(stream: Stream, claims: Claims, rows: list[PendingRow], idle_ms: int) -> int:
    """Claim all rows of one ID; returns TAKEN if any was claimed, else LEFT if any stays, else GONE."""
    fate = GONE
    for row in rows:
        entry = live_entry(stream, row.origin, row.entry_id)
        if entry is None:
            claims.drop(row.origin, row.entry_id)
        elif claims.claim_idle(row.origin, row.entry_id, idle_ms, entry):
            fate = TAKEN
        else:
            fate = max(fate, LEFT)
    return fate


COMMANDS: list[Command] = [
    Command(
        "xpending",
        xpending,
        arity=-3,
        flags="readonly",
        counts_itself=True,
        keys=keys_at(1, "RO access"),
        since="5.0.0",
        group="stream",
        summary="Returns the information and entries from a stream consumer group's pending entries list.",
        syntax="key group [filters:([IDLE min-idle-time#@6.2.0] start end count# [consumer])]",
    ),
    Command(
        "xclaim",
        xclaim,
        arity=-6,
        flags="write fast",
        keys=keys_at(1, "RW update"),
        since="5.0.0",
        group="stream",
        summary="Changes, or acquires, ownership of a message in a consumer group.",
        syntax=(
            "key group consumer min-idle-time id... [IDLE ms#] [TIME unix-time-milliseconds] [RETRYCOUNT count#]"
            " [FORCE] [JUSTID] [LASTID lastid]"
        ),
    ),
    Command(
        "xautoclaim",
        xautoclaim,
        arity=-6,
        flags="write fast",
        keys=keys_at(1, "RW delete"),
        since="6.2.0",
        group="stream",
        summary="Changes, or acquires, ownership of idle messages in a consumer group.",
        syntax="key group consumer min-idle-time start [COUNT count#] [JUSTID]",
    ),
]
