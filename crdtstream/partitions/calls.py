"""Calls of partitioned streams as rows of plain values, as they are carried out here or travel to the home.

    call   [operation, stream, arguments...]     reply   [true, result] or [false, code, text]

Bookmark: [generation, epoch number, epoch origin, [start origin, start counter], [[partition, offset]...]], where the
generation is three numbers, because it does not fit into 64 bits (coordinator.py).
"""

from __future__ import annotations

from typing import Any, Final

from crdtstream.partitions.state import NUMBER_BITS
from crdtstream.partitions.values import Bookmark, NewMessage, Polled, Refused, Reservation, Stamp
from crdtstream.protocols.call_rows import CallRow as Row

PUT: Final = "put"
JOIN: Final = "join"
POLL: Final = "poll"
COMMIT: Final = "commit"
HEARTBEAT: Final = "heartbeat"
GROUP: Final = "group"
RESET: Final = "reset"
# Not a call of a client: [partition, offset] -> the epoch of that offset, or nothing.
LOCATE: Final = "locate"

MASK: Final = (1 << NUMBER_BITS) - 1


def refusal_row(refused: Refused) -> Row:
    return [False, refused.code, refused.text]


def result_of(row: Row) -> Any:
    """The result of a reply; raises Refused if it is a refusal."""
    if row[0]:
        return row[1]
    raise Refused(row[1], row[2])


# Values


def message_rows(messages: list[NewMessage]) -> Row:
    return [[one.partition, one.key, one.value] for one in messages]


def messages_in(rows: Row) -> list[NewMessage]:
    return [NewMessage(partition, key, value) for partition, key, value in rows]


def stamp_rows(stamps: list[Stamp]) -> Row:
    return [[one.partition, one.offset, one.time_ms] for one in stamps]


def stamps_in(rows: Row) -> list[Stamp]:
    return [Stamp(partition, offset, time_ms) for partition, offset, time_ms in rows]


def generation_row(generation: int) -> Row:
    return [generation >> 2 * NUMBER_BITS, generation >> NUMBER_BITS & MASK, generation & MASK]


def generation_in(row: Row) -> int:
    resets, number, count = row
    whole: int = (resets << NUMBER_BITS | number) << NUMBER_BITS | count
    return whole


def bookmark_row(bookmark: Bookmark) -> Row:
    return [generation_row(bookmark.generation), *bookmark.epoch, [*bookmark.start], offset_rows(bookmark.offsets)]


def bookmark_in(row: Row) -> Bookmark:
    generation, number, origin, start, offsets = row
    return Bookmark(generation_in(generation), (number, origin), (start[0], start[1]), offsets_in(offsets))


def polled_row(polled: Polled) -> Row:
    return [generation_row(polled.generation), *polled.epoch, [*polled.start], offset_rows(polled.positions)]


def polled_in(row: Row) -> Polled:
    generation, number, origin, start, positions = row
    return Polled(generation_in(generation), (number, origin), (start[0], start[1]), offsets_in(positions))


def offset_rows(offsets: dict[int, int]) -> Row:
    return [[partition, offsets[partition]] for partition in sorted(offsets)]


def offsets_in(rows: Row) -> dict[int, int]:
    return dict(rows)


def reservation_rows(reservations: list[Reservation]) -> Row:
    return [[one.partition, one.committed, one.instance, one.until_ms] for one in reservations]


def reservations_in(rows: Row) -> list[Reservation]:
    return [Reservation(*row) for row in rows]
