"""Heads of streams, merged over regions: a region that is behind or down does not reduce what others report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from crdtstream.bulk import bulk_pb2
from crdtstream.spark.offsets import OffsetPosition, Positions, stream_text
from crdtstream.spark.options import EARLIEST, EARLIEST_SEQ, LATEST, LATEST_SEQ, Offsets, Options
from crdtstream.spark.sharded import ShardedClient

LEDGERS: Final = "crdtstream:published:"


@dataclass(slots=True)
class Head:
    """One origin in one stream; each number is the highest that a region reported. A stream is `deleted` if it exists
    in no region. What was deleted up to `unsure` before the entries from `since` on were added, no region remembers.
    """

    head: int = 0
    trimmed: int = 0
    at: int = 0
    length: int = 0
    waiting: int = 0
    deleted: bool = False
    since: int = 0
    unsure: int = 0

    @classmethod
    def of_deleted(cls) -> Head:
        return cls(deleted=True)

    def join(self, other: bulk_pb2.OriginHead, deleted: bool) -> None:
        self.head = max(self.head, other.head)
        self.trimmed = max(self.trimmed, other.trimmed)
        self.at = max(self.at, other.at)
        self.length = max(self.length, other.length)
        self.waiting = max(self.waiting, other.waiting)
        self.deleted = self.deleted and deleted
        # A region that still has what it noted of an earlier deletion has forgotten none since.
        unsure = 0 if other.trimmed else other.forgotten
        if other.since == self.since:
            self.unsure = min(self.unsure, unsure)
        elif other.since > self.since:
            self.since, self.unsure = other.since, unsure


Heads = dict[str, dict[int, Head]]


def merge(answers: Iterable[Iterable[bulk_pb2.StreamHead]]) -> Heads:
    heads: Heads = {}
    for answer in answers:
        for stream in answer:
            row = heads.setdefault(stream_text(stream.stream), {})
            for origin in stream.origins:
                row.setdefault(origin.origin, Head.of_deleted()).join(origin, stream.deleted)
    return heads


def ask(
    client: ShardedClient, options: Options, positions: Positions | None = None, before_ms: int | None = None
) -> Heads:
    """Return the heads of the selected streams. A pattern never includes the ledgers of sinks: a sink would feed
    itself.
    """
    streams, pattern = options["streams"] or (), options["streamsPattern"] or ""
    heads = merge(client.heads(streams, pattern, positions, before_ms, deleted=True))
    return {stream: row for stream, row in heads.items() if not pattern or not stream.startswith(LEDGERS)}


def is_deleted(row: dict[int, Head]) -> bool:
    """True for a stream that exists in no region, of which a region remembers that it was deleted."""
    return bool(row) and all(head.deleted for head in row.values())


def missing(client: ShardedClient, heads: Heads, options: Options) -> list[str]:
    """Return the streams, or the pattern, that the options name and no region has heard of."""
    named = options["streams"] or ()
    if not named:
        return [] if heads else [options["streamsPattern"]]
    absent = [stream for stream in named if not heads.get(stream)]
    # A stream without an entry so far has no origins, but exists.
    answers = client.heads(absent) if absent else []
    existing = {stream_text(each.stream) for answer in answers for each in answer if each.exists}
    return [stream for stream in absent if stream not in existing]


def latest(heads: Heads) -> Positions:
    return {stream: {origin: head.head for origin, head in row.items()} for stream, row in heads.items()}


def earliest(heads: Heads) -> Positions:
    return {stream: {origin: head.trimmed for origin, head in row.items()} for stream, row in heads.items()}


def before(heads: Heads) -> Positions:
    return {stream: {origin: head.at for origin, head in row.items()} for stream, row in heads.items()}


def resolve(heads: Heads, offsets: Offsets, default: str) -> Positions:
    """Resolve `startingOffsets` or `endingOffsets` to positions; streams that it does not name are at `default`."""
    words = {EARLIEST: earliest(heads), LATEST: latest(heads)}
    if isinstance(offsets, str):
        return words[offsets]
    result = words[default]
    for stream, given in offsets.items():
        result[stream] = resolve_stream(given, {word: rows.get(stream, {}) for word, rows in words.items()}, default)
    return result


def resolve_stream(given: int | Mapping[int, int], words: Mapping[str, OffsetPosition], default: str) -> OffsetPosition:
    by_number = {EARLIEST_SEQ: words[EARLIEST], LATEST_SEQ: words[LATEST]}
    if isinstance(given, int):
        return dict(by_number[given])
    position = dict(words[default])
    for origin, seq in given.items():
        position[origin] = by_number[seq].get(origin, 0) if seq < 0 else seq
    return position
