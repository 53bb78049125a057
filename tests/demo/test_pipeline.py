"""The demo of the pipeline from outside: what it leaves, read by a program that knows nothing of it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import pyarrow.dataset
from deltalake import DeltaTable

from crdtstream.demo.cluster import DemoError
from crdtstream.demo.pipeline import (
    STREAMS,
    Answered,
    Compared,
    PipelineWriter,
    compare,
    complaints_of,
    rows_of_files,
    workplace,
)
from crdtstream.demo.region import Region
from crdtstream.processes.waiting import until
from crdtstream.spark.jobs.audit import Audited, Divergence


@pytest.mark.skipif(shutil.which("java") is None, reason="needs Java")
@pytest.mark.timeout(900)
def test_every_acknowledged_add_is_archived_once(tmp_path: Path) -> None:
    keep = tmp_path / "kept"
    command = [sys.executable, "-m", "crdtstream", "demo", "--spark", "--once", "--keep", str(keep)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=880)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert "All held: each archive has every acknowledged add once" in done.stdout
    assert "killing west" in done.stdout and "starting west again" in done.stdout
    answered = [json.loads(line) for line in (keep / "acknowledged.jsonl").read_text().splitlines()]
    table = pyarrow.dataset.dataset(keep / "archive", format="parquet").to_table(columns=["stream", "id"])
    held = Counter(zip(table["stream"].to_pylist(), table["id"].to_pylist(), strict=True))
    assert held == rows_of_delta(keep / "delta")
    assert len(answered) > 1_000
    assert {held[row["stream"], row["id"]] for row in answered} == {1}
    assert set(held.values()) == {1}


def rows_of_delta(directory: Path) -> Counter[tuple[str, str]]:
    table = DeltaTable(directory).to_pyarrow_table(columns=["stream", "id"])
    return Counter(zip(table["stream"].to_pylist(), table["id"].to_pylist(), strict=True))


def parquet(directory: Path, ids: list[str]) -> str:
    directory.mkdir()
    table = pyarrow.table({"stream": ["s"] * len(ids), "id": ids})
    pyarrow.dataset.write_dataset(table, directory, format="parquet")
    return str(directory)


def test_what_is_missing_and_what_is_there_twice_is_named(tmp_path: Path) -> None:
    archive = parquet(tmp_path / "a", ["1-1", "2-1", "2-1", "9-9"])
    compared = compare([("s", "1-1"), ("s", "2-1"), ("s", "3-1")], rows_of_files(archive))
    assert (compared.answered, compared.archived) == (3, 4)
    assert (compared.missing, compared.twice) == ([("s", "3-1")], [("s", "2-1")])
    alike = Audited(["a", "b"], {})
    assert complaints_of(compared, alike) == [
        "acknowledged, but not in the archive: ('s', '3-1')",
        "more than once in the archive: ('s', '2-1')",
    ]
    assert complaints_of(Compared(1, 1, [], []), alike) == []
    apart = Audited(["a", "b"], {}, divergences=[Divergence("s", "1.a", 3, "", {"a": "1-1"})])
    assert complaints_of(Compared(0, 0, [], []), apart)[1:] == ["no add was acknowledged"]


def test_a_directory_that_holds_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(DemoError, match="is not empty: name a directory that is"), workplace(tmp_path):
        pass
    with workplace(None) as made:
        assert made.is_dir()
    assert not made.exists()


@pytest.mark.parametrize("shards", [1, 2])
def test_a_writer_finds_the_shards_of_its_region_again_after_a_kill(tmp_path: Path, shards: int) -> None:
    region = Region("east", 1, tmp_path, shards=shards)
    writer = PipelineWriter(region)
    try:
        region.begin([])
        region.await_serving()
        writer.start()
        until(lambda: streams_of(writer.answered) == set(STREAMS), "adds to all streams are answered")
        region.kill()
        region.begin([])
        region.await_serving()
        before = len(writer.answered)
        until(lambda: streams_of(writer.answered[before:]) == set(STREAMS), "adds to all streams are answered again")
    finally:
        writer.stop()
        region.request_stop()
        region.stop()
    assert writer.lost_connections


def streams_of(answered: list[Answered]) -> set[str]:
    return {stream for stream, _ in answered}
