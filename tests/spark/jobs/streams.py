"""What tests of jobs share: streams that are there, and what an archive has of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.dataset

from crdtstream.spark.jobs.archive import Archived
from crdtstream.spark.jobs.table_archive import TableArchive
from crdtstream.spark.offsets import origin_text
from crdtstream.spark.tables.entry_table import EntryTable
from tests.spark.fake_regions import Regions


def source(regions: Regions, pattern: str = "*") -> dict[str, str]:
    return {"endpoints": regions.endpoints, "streamsPattern": pattern, "discoveryIntervalMs": "1"}


def filled(regions: Regions, count: int = 5) -> None:
    for region in regions.regions:
        for stream in ("a", "b"):
            region.add(stream, *[b"%d-%d" % (region.number, number) for number in range(count)])
    regions.sync()


def archive_to(
    table: EntryTable,
    spark: Any,
    regions: Regions,
    options: Mapping[str, str] | None = None,
    keep_removed: bool = True,
) -> Archived:
    """Archive to a table what is there."""
    job = TableArchive(spark, source(regions) | dict(options or {}), table, keep_removed=keep_removed)
    job.start().awaitTermination()
    return job.finish()


def found(directory: Path) -> list[tuple[str, str, int]]:
    table = pyarrow.dataset.dataset(directory, format="parquet").to_table()
    return sorted(zip(*(table[name].to_pylist() for name in ("stream", "origin", "seq")), strict=True))


def held(regions: Regions) -> list[tuple[str, str, int]]:
    return sorted(
        (stream.decode(), origin_text(origin), entry[0])
        for stream, origins in regions.streams.items()
        for origin, entries in origins.items()
        for entry in entries
    )


def sink(regions: Regions) -> dict[str, str]:
    return {"endpoints": regions.endpoints}
