"""Series of streams and groups, and what is left out of them."""

from __future__ import annotations

from crdtstream.runtime.metrics.of_streams import stream_families
from tests.runtime.metrics.scraped import scraped
from tests.runtime.metrics.test_survey import filled, seen_in


async def test_streams_groups_and_what_is_omitted() -> None:
    region = filled(5)
    region.run("XADD", b"\xff", "*", "f", "v")
    found = scraped(stream_families(await seen_in(region, 20)))
    four = {"db": "0", "stream": "s4"}
    assert found.value("stream_length", **four) == found.value("stream_entries_added_total", **four) == 4
    assert found.value("group_pending", **four, group="g") == 2
    assert found.value("group_unacknowledged", **four, group="g") == 3
    assert found.value("group_deliveries_total", **four, group="g") == 3
    assert (found.value("all_streams"), found.value("omitted_streams")) == (5, 3)
    assert (found.value("all_entries"), found.value("omitted_entries")) == (11, 4)
    series = [name for name, labels in found.samples if dict(labels).get("stream")]
    assert len(series) <= 20


async def test_no_walk_no_series() -> None:
    assert list(stream_families(None)) == []
