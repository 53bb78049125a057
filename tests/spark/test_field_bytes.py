"""Bytes of fields in each of their forms."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark")

from crdtstream.spark.field_bytes import field_bytes
from tests.spark.fake_regions import Regions
from tests.spark.jobs.streams import source


@pytest.mark.timeout(180)
@pytest.mark.parametrize(("form", "expected"), [("array", 6), ("map", 6), ("json", len('{"f": "value"}'))])
def test_names_and_values_are_counted(spark: Any, regions: Regions, form: str, expected: int) -> None:
    regions[1].add("s", [b"f", b"value"])
    regions.sync()
    rows = spark.read.format("crdtstream").options(**source(regions), fieldsAs=form).load()
    assert [row[0] for row in rows.select(field_bytes(rows)).collect()] == [expected]
