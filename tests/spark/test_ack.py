"""Groups that follow a query, by its checkpoint and by its progress."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from crdtstream.spark.ack import AckListener, NoCommit, advance, advance_from_checkpoint, committed
from crdtstream.spark.losses import DataLoss
from crdtstream.spark.options import OptionError
from tests.spark.fake_regions import Regions
from tests.spark.support import FAST

ORIGIN = 1 + (0xAB01 << 8)


def checkpoint(root: Path, batches: int, commits: int) -> str:
    """What Spark leaves: batch n ends at seq n + 1."""
    for name, count in (("offsets", batches), ("commits", commits)):
        (root / name).mkdir()
        for number in range(count):
            offset = json.dumps({"s": {"1.ab01": number + 1}})
            (root / name / str(number)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{offset}\n{offset}\n')
            (root / name / f".{number}.crc").write_text("x")
    return str(root)


def given(regions: Regions) -> dict[str, str]:
    return {"endpoints": regions.endpoints, "ackGroup": "g", **FAST}


def test_the_last_committed_batch_counts(regions: Regions, tmp_path: Path) -> None:
    regions[1].add("s", b"1", b"2", b"3")
    path = checkpoint(tmp_path, 3, 2)
    assert committed(path) == committed(f"file://{path}", 1) == {"s": {ORIGIN: 2}}
    assert advance_from_checkpoint(path, given(regions)) == 2
    assert advance_from_checkpoint(path, given(regions)) == 0
    assert regions[1].acknowledged[b"s", b"g"] == {ORIGIN: 2}
    with pytest.raises(NoCommit, match="has 2 sources"):
        committed(path, 2)


def test_a_directory_without_commits_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoCommit, match="give the checkpointLocation"):
        committed(str(tmp_path))
    with pytest.raises(NoCommit):
        committed(checkpoint(tmp_path, 1, 0))


def test_group_and_endpoints_must_be_named(regions: Regions) -> None:
    with pytest.raises(OptionError, match="ackGroup is missing"):
        advance({"endpoints": regions.endpoints}, {})
    with pytest.raises(OptionError, match="endpoints is missing"):
        advance({"ackGroup": "g"}, {})


def test_what_was_removed_behind_the_positions_is_an_error_or_a_warning(
    regions: Regions, caplog: pytest.LogCaptureFixture
) -> None:
    last = regions[1].add("s", b"1", b"2", b"3", b"4")
    regions[1].trim("s", ORIGIN, last - 1)
    with pytest.raises(DataLoss, match=r"before they were acknowledged: stream 's', origin 1\.ab01, seq 3 to 3\."):
        advance(given(regions), {"s": {ORIGIN: 2}})
    assert regions[1].acknowledged[b"s", b"g"] == {ORIGIN: 2}
    assert advance({**given(regions), "failOnDataLoss": "false"}, {"s": {ORIGIN: 2}}) == 0
    AckListener(given(regions), query_name="mine").onQueryProgress(progress("mine", 2))
    assert [each.getMessage().count("seq 3 to 3") for each in caplog.records] == [1, 1]
    assert advance(given(regions), {"s": {ORIGIN: 3}}) == 0


def progress(name: str, seq: int) -> SimpleNamespace:
    end = json.dumps({"s": {"1.ab01": seq}})
    return SimpleNamespace(
        progress=SimpleNamespace(name=name, id=f"id-{name}", sources=[SimpleNamespace(endOffset=end)])
    )


def test_a_listener_follows_one_query(regions: Regions) -> None:
    by_name = AckListener(given(regions), query_name="mine")
    by_name.onQueryProgress(progress("other", 5))
    assert regions[1].count("Advance") == 0
    by_name.onQueryProgress(progress("mine", 2))
    assert regions[1].acknowledged[b"s", b"g"] == {ORIGIN: 2}
    AckListener(given(regions), query_id="id-mine").onQueryProgress(progress("mine", 3))
    assert regions[1].acknowledged[b"s", b"g"] == {ORIGIN: 3}
    regions.stop()
    by_name.onQueryProgress(progress("mine", 4))
    with pytest.raises(ValueError, match="name the query"):
        AckListener(given(regions))
