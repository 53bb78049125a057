"""Spark versions that lack what the source needs."""

from __future__ import annotations

import sys

import pytest

from crdtstream.spark.options import OptionError
from crdtstream.spark.source import CrdtStreamSource


def test_an_older_spark_is_named_with_the_one_that_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.__version__", "4.1.4")
    monkeypatch.setitem(sys.modules, "pyspark.sql.streaming.datasource", None)
    with pytest.raises(OptionError, match=r"^Spark 4\.1\.4 has no rate limits .* use 4\.2 or newer$"):
        CrdtStreamSource({})
