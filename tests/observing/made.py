"""Readings that tests of what is observed share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from crdtstream.observing.info import report_of
from crdtstream.observing.reading import RegionReading
from crdtstream.observing.rows import LinkRow, link_row, origin_rows


def row(region: int, link: str = "open", **fields: Any) -> LinkRow:
    told = {"region": region, "name": f"r{region}".encode(), "link": link.encode()}
    return link_row(told | {name.replace("_", "-"): value for name, value in fields.items()})


def reading(region: int, *rows: LinkRow, **fields: str) -> RegionReading:
    report = report_of({"region": str(region), "region_name": f"r{region}", "cluster": "shop", **fields})
    return RegionReading(f"r{region}:6379", report, (row(region, "self"), *rows))


def shard(region: int, number: int, *rows: LinkRow, shards: int = 2, **fields: str) -> RegionReading:
    """A shard of a region, which knows the others of its region."""
    found = reading(region, *rows, shard=str(number), shards=str(shards), **fields)
    addresses = {each: shard_address(region, each) for each in range(shards)}
    return replace(found, address=shard_address(region, number), shard_addresses=addresses)


def shard_address(region: int, number: int) -> str:
    return f"r{region}:{6379 + number}"


def origin(region: int, state: str) -> Any:
    """The origins of a reading in which this region has one."""
    flat = [b"origin", b"%d.a" % region, b"region", region, b"name", b"", b"state", state.encode()]
    return tuple(origin_rows([flat]))
