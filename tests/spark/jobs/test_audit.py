"""What differs, what only seems to, and what cannot be compared."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark")

from crdtstream.spark.jobs.audit import Audited, audit
from crdtstream.spark.jobs.audited_regions import AuditError
from crdtstream.spark.offsets import origin_text
from tests.spark.fake_regions import FakeRegion, Regions
from tests.spark.jobs.streams import filled, source

pytestmark = pytest.mark.timeout(180)


def audited(spark: Any, regions: Regions, **given: Any) -> Audited:
    return audit(spark, source(regions), **{"settle_s": 5.0, **given})


def test_regions_that_hold_the_same_are_alike(spark: Any, regions: Regions) -> None:
    filled(regions)
    done = audited(spark, regions)
    assert (done.divergences, done.suspected, done.entries, done.streams) == ([], 0, 40, 2)
    assert done.cut == {origin_text(region.origin): 10 for region in regions.regions}


def test_a_planted_divergence_is_found(spark: Any, regions: Regions) -> None:
    filled(regions)
    regions[2].lacks.add((b"b", regions[1].origin, 8))
    (one,) = audited(spark, regions).divergences
    assert (one.stream, one.origin, one.seq, one.group) == ("b", origin_text(regions[1].origin), 8, "")
    assert list(one.held) == ["region1"]


def test_an_entry_that_differs_is_found(spark: Any, regions: Regions, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(regions)
    seen = FakeRegion.seen

    def lying(self: FakeRegion, stream: bytes, origin: int, after: int = 0, through: int | None = None) -> Any:
        rows = seen(self, stream, origin, after, through)
        wrong = self.number == 2 and stream == b"a" and origin == regions[1].origin
        return [(*row[:3], [b"f", b"other"]) if wrong and row[0] == 3 else row for row in rows]

    monkeypatch.setattr(FakeRegion, "seen", lying)
    (one,) = audited(spark, regions).divergences
    assert (one.stream, one.seq) == ("a", 3)
    assert len(set(one.held.values())) == 2


def test_a_removal_that_is_under_way_is_no_divergence(spark: Any, regions: Regions) -> None:
    filled(regions)
    place = (b"a", regions[1].origin, 2)
    regions[2].lacks.add(place)
    said: list[str] = []

    def arrives(text: str) -> None:
        said.append(text)
        if text.startswith("round"):
            regions[1].lacks.add(place)

    done = audited(spark, regions, progress=arrives)
    assert (done.suspected, done.divergences) == (1, [])
    assert any(text.startswith("round 2 of 3: 1 entries") for text in said)


def test_groups_that_rest_apart_are_found(spark: Any, regions: Regions) -> None:
    filled(regions)
    for region, seq in ((regions[1], 4), (regions[2], 3)):
        region.acknowledged[b"a", b"crew"] = {regions[1].origin: seq}
    (one,) = audited(spark, regions).divergences
    assert (one.stream, one.group, dict(one.held)) == ("a", "crew", {"region1": "4", "region2": "3"})


def test_a_group_that_one_region_lacks_is_found(spark: Any, regions: Regions) -> None:
    filled(regions)
    regions[1].acknowledged[b"a", b"crew"] = {}
    assert [(one.group, dict(one.held)) for one in audited(spark, regions).divergences] == [("crew", {"region1": "0"})]


def test_a_region_that_stays_behind_is_named(spark: Any, regions: Regions) -> None:
    filled(regions)
    regions[2].lacks.add((b"a", regions[1].origin, 1))
    regions[1].add("a", b"more")
    with pytest.raises(
        AuditError, match=r"have not applied each other's effects within 0\.2 s: region2 is at 10 of 11"
    ):
        audited(spark, regions, settle_s=0.2)


def test_one_region_is_refused(spark: Any, regions: Regions) -> None:
    with pytest.raises(AuditError, match="name the bulk ports of two or more"):
        audit(spark, {"endpoints": regions[1].address, "streamsPattern": "*"})


def test_nothing_to_compare(spark: Any, regions: Regions) -> None:
    done = audited(spark, regions)
    assert done == Audited(["region1", "region2"], {}, seconds=done.seconds)
    assert 0 <= done.seconds < 60
