"""What the ledger of a sink says, and when it says nothing."""

from __future__ import annotations

import logging

import pytest

pytest.importorskip("pyspark")

import grpc

from crdtstream.spark.heads import LEDGERS
from crdtstream.spark.ledgers import LedgerWatch
from crdtstream.spark.options import Options
from tests.spark.fake_regions import Regions
from tests.spark.support import FAST


def test_a_batch_is_unknown_if_the_ledger_was_not_read_on_both_sides_of_it(
    regions: Regions, caplog: pytest.LogCaptureFixture
) -> None:
    def deny() -> None:
        for region in regions.regions:
            region.fail("Heads", grpc.StatusCode.PERMISSION_DENIED)

    def publish() -> None:
        regions[1].add(LEDGERS + "loads", b"batch")

    deny()
    with caplog.at_level(logging.WARNING):
        watch = LedgerWatch(Options({"endpoints": regions.endpoints, **FAST}), "loads")
        deny()
        assert watch.has_changed() is None
    assert caplog.text.count("is not known until the ledger can be read") == 1
    publish()
    assert watch.has_changed() is None
    publish()
    assert watch.has_changed() is True
    deny()
    publish()
    assert watch.has_changed() is None
    assert watch.has_changed() is None, "the batch before may be the change"
    assert watch.has_changed() is False
