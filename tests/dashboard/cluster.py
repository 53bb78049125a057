"""Readings of made-up regions, for tests of what is pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from crdtstream.observing.info import RegionReport, report_of
from crdtstream.observing.reading import RegionReading
from crdtstream.observing.rows import LinkRow, OriginRow

NAMES = {0: "", 1: "east", 2: "west", 3: "north"}


def report(region: int, vector: dict[str, int], **changes: Any) -> RegionReport:
    told = report_of({"region": str(region), "region_name": NAMES[region], "admitted": "1", "cluster": "shop"})
    return replace(
        told,
        vector=vector,
        origin=f"{region}.a",
        disk_free_bytes=1 << 30,
        **changes,
    )


def row(region: int, link: str = "open", lag: int = 0, reason: str = "", unlinked_ms: int = -1) -> LinkRow:
    return LinkRow(region, NAMES[region], "", link, 0, lag, lag, unlinked_ms, reason, "", 0, 0, "", "")


def reading(region: int, vector: dict[str, int], *rows: LinkRow, error: str = "", **changes: Any) -> RegionReading:
    links = (row(region, "self"), *rows)
    origins = (OriginRow(f"{region}.a", region, NAMES[region], 2, "member", 0),)
    return RegionReading(f"h:{7000 + region}", report(region, vector, **changes), links, origins, error)
