"""`audit`: compares the entries and groups of all regions at a cut, while they are written to.

The **cut** is a vector that all regions have passed when the audit begins. Up to the cut every region must hold the
same entries, except where a removal has reached only some of them. Differences are therefore read again after each
region has applied what the others had applied, and then once more: by then such removals have arrived. A difference
that is the same every time is a divergence.

1. Sums: count and checksum of each bucket of seqs, for each stream and origin, in each region. 2. Entries of the
buckets that differ. 3. Rounds: the differing entries, again.

Groups are compared in the same rounds, by how far they have acknowledged each origin up to the cut: a frontier that
moves is in use, and one that rests must be the same in all regions.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as f

from crdtstream.spark.jobs.audited_regions import AuditedRegions
from crdtstream.spark.jobs.defaults import ROUNDS, SETTLE_S
from crdtstream.spark.offsets import OffsetPosition, Positions, origin_text, parse_origin, to_json

BUCKET_SEQS = 10_000
SHOWN_MAX = 10_000

# What each region holds in one place, by the index of the region.
HeldBy = dict[int, str]
# Stream, origin, and the seq of an entry or the name of a group.
EntryPlace = tuple[str, int, int | str]


@dataclass(frozen=True)
class Divergence:
    """One place where regions differ. `held`, by region name, is the ID and checksum of an entry, or the seq up to
    which a group has acknowledged; a region without the entry or group is missing.
    """

    stream: str
    origin: str
    seq: int
    group: str
    held: Mapping[str, str]


@dataclass
class Audited:
    """`entries` counts those of all regions together, `suspected` the places that differed at first."""

    regions: list[str]
    cut: dict[str, int]
    streams: int = 0
    entries: int = 0
    suspected: int = 0
    divergences: list[Divergence] = field(default_factory=list)
    seconds: float = 0.0


Progress = Callable[[str], None]


def audit(
    spark: SparkSession,
    options: Mapping[str, str],
    rounds: int = ROUNDS,
    settle_s: float = SETTLE_S,
    progress: Progress | None = None,
) -> Audited:
    """Compare the regions at the `endpoints` of these data source options, which also select the streams.

    Raises AuditError if a region cannot be compared because it does not answer, or stays behind for `settle_s`.
    """
    return AuditReport(spark, options, settle_s, progress or (lambda _: None)).run(rounds)


class AuditReport:
    """One comparison."""

    def __init__(self, spark: SparkSession, options: Mapping[str, str], settle_s: float, tell: Progress) -> None:
        self._spark = spark
        self._options = {
            key: value for key, value in options.items() if key.lower() not in ("streams", "streamspattern")
        }
        self._settle_s = settle_s
        self._tell = tell
        self._regions = AuditedRegions(options)
        self._cut: OffsetPosition = self._regions.cut()

    def run(self, rounds: int) -> Audited:
        began_s = time.monotonic()
        streams = self._regions.streams()
        shown_cut = {origin_text(origin): seq for origin, seq in self._cut.items()}
        done = Audited(self._regions.names, shown_cut, len(streams))
        self._tell(f"comparing {len(streams)} streams of {', '.join(done.regions)}")
        entries = self._differing_entries(streams, done)
        groups = self._differing_groups()
        done.suspected = len(entries) + len(groups)
        for number in range(1, rounds):
            if not entries and not groups:
                break
            self._tell(f"round {number + 1} of {rounds}: {len(entries)} entries, {len(groups)} groups differ")
            self._regions.await_each_other(self._settle_s)
            entries = unchanged(entries, self._entries_again(entries))
            groups = unchanged(groups, self._differing_groups())
        done.divergences = [self._shown(place, held) for place, held in sorted({**entries, **groups}.items(), key=str)]
        done.seconds = time.monotonic() - began_s
        return done

    def _shown(self, place: EntryPlace, held: HeldBy) -> Divergence:
        stream, origin, what = place
        seq, group = (what, "") if isinstance(what, int) else (0, what)
        by_name = {self._regions.names[region]: text for region, text in sorted(held.items())}
        return Divergence(stream, origin_text(origin) if origin else "", seq, group, by_name)

    # Entries

    def _differing_entries(self, streams: list[str], done: Audited) -> dict[EntryPlace, HeldBy]:
        if not streams or not self._cut:
            return {}
        through = {stream: self._regions.part_of(self._cut, stream) for stream in streams}
        sums = self._each_region({stream: {} for stream in streams}, through, bucket_sums)
        sums.persist()
        try:
            done.entries = sums.agg(f.sum("entries")).first()[0] or 0
            unequal = self._unequal(sums, ["stream", "origin", "bucket"], f.struct("entries", "checksum")).collect()
        finally:
            sums.unpersist()
        return self._compared(buckets_of(unequal))

    def _entries_again(self, suspects: Iterable[EntryPlace]) -> dict[EntryPlace, HeldBy]:
        spans: dict[tuple[str, int], list[int]] = defaultdict(list)
        for stream, origin, seq in suspects:
            spans[stream, origin].append(int(seq))
        return self._compared({place: (min(seqs) - 1, max(seqs)) for place, seqs in spans.items()})

    def _compared(self, spans: Mapping[tuple[str, int], tuple[int, int]]) -> dict[EntryPlace, HeldBy]:
        """Return the entries that differ in these spans of seqs, the lower bound exclusive."""
        if not spans:
            return {}
        after: Positions = defaultdict(dict)
        through: Positions = defaultdict(dict)
        for (stream, origin), (low, high) in spans.items():
            after[stream][origin], through[stream][origin] = low, min(high, self._cut[origin])
        # Origins without a difference get an empty span.
        for stream, position in after.items():
            for origin, seq in self._regions.part_of(self._cut, stream).items():
                position.setdefault(origin, seq)
                through[stream].setdefault(origin, seq)
        rows = self._each_region(after, through, lambda entries: entries.select("region", *PLACE, text_of_entry()))
        unequal = self._unequal(rows, ["stream", "origin", "seq"], f.col("text"))
        return {
            (row["stream"], parse_origin(row["origin"]), row["seq"]): {
                each["region"]: each["what"] for each in row["held"]
            }
            for row in unequal.limit(SHOWN_MAX).collect()
        }

    def _each_region(self, after: Positions, through: Positions, shaped: Callable[[DataFrame], DataFrame]) -> DataFrame:
        """Return the entries of each region in these intervals, transformed by `shaped`, with the region's index."""
        options = {
            **self._options,
            "streams": json.dumps(sorted(through)),
            "startingOffsets": json.dumps(to_json(after)),
            "endingOffsets": json.dumps(to_json(through)),
            # A trim in one region is exactly what the audit compares.
            "failOnDataLoss": "false",
        }
        parts = []
        for region, endpoint in enumerate(self._regions.endpoints):
            read = self._spark.read.format("crdtstream").options(**{**options, "endpoints": endpoint}).load()
            parts.append(shaped(read.withColumn("region", f.lit(region))))
        return reduce(DataFrame.unionAll, parts)

    def _unequal(self, rows: DataFrame, place: list[str], what: Column) -> DataFrame:
        """Return the places where a region holds something else, or nothing."""
        held = f.collect_list(f.struct("region", what.alias("what"))).alias("held")
        gathered = rows.groupBy(*place).agg(held, f.count_distinct(what).alias("kinds"))
        return gathered.where((f.col("kinds") > 1) | (f.size("held") < len(self._regions.endpoints)))

    # Groups

    def _differing_groups(self) -> dict[EntryPlace, HeldBy]:
        found: dict[EntryPlace, HeldBy] = {}
        each = self._regions.frontiers(self._cut)
        for stream, group, origin in {place for frontiers in each for place in frontiers}:
            held = {
                region: str(rows[stream, group, origin])
                for region, rows in enumerate(each)
                if (stream, group, origin) in rows
            }
            if len(held) < len(each) or len(set(held.values())) > 1:
                found[stream, origin, group] = held
        return found


PLACE = ("stream", "origin", "seq")


def checksum() -> Column:
    return f.xxhash64("id", "fields")


def text_of_entry() -> Column:
    return f.concat_ws(" ", "id", f.hex(checksum())).alias("text")


def bucket_sums(entries: DataFrame) -> DataFrame:
    """Return count and checksum of each bucket; checksums are combined by exclusive or, so their order does
    not matter.
    """
    # Seqs begin at 1, so bucket 0 holds 1 to BUCKET_SEQS.
    bucket = f.floor((f.col("seq") - 1) / BUCKET_SEQS).alias("bucket")
    sums = entries.groupBy("region", "stream", "origin", bucket)
    return sums.agg(f.count("*").alias("entries"), f.bit_xor(f.xxhash64("seq", "id", "fields")).alias("checksum"))


def buckets_of(rows: Iterable[Row]) -> dict[tuple[str, int], tuple[int, int]]:
    """Return for each stream and origin a span of seqs, the lower bound exclusive, that includes all these buckets."""
    spans: dict[tuple[str, int], tuple[int, int]] = {}
    for row in rows:
        place = (row["stream"], parse_origin(row["origin"]))
        low, high = row["bucket"] * BUCKET_SEQS, (row["bucket"] + 1) * BUCKET_SEQS
        before = spans.get(place, (low, high))
        spans[place] = (min(low, before[0]), max(high, before[1]))
    return spans


def unchanged(before: Mapping[EntryPlace, HeldBy], now: Mapping[EntryPlace, HeldBy]) -> dict[EntryPlace, HeldBy]:
    """Return the differences that are the same as before."""
    return {place: held for place, held in now.items() if before.get(place) == held}
