"""A table and the live tail as one DataFrame: nothing is missing and nothing comes twice, whatever was trimmed."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

import pyarrow as pa

from crdtstream.spark.archived import ArchiveTask, PinnedTable
from crdtstream.spark.options import OptionError, Options
from crdtstream.spark.tables.commits import PUBLISHED
from crdtstream.spark.tables.files import TableFile
from crdtstream.spark.tables.opening import table_of
from tests.spark.fake_regions import Regions
from tests.spark.jobs.streams import archive_to, filled, held, source
from tests.spark.support import FAST

pytestmark = pytest.mark.timeout(180)
DEADLINE_S = 90
PLACE = ("stream", "origin", "seq")


def archived(
    spark: Any,
    regions: Regions,
    directory: Path,
    kind: str = "delta",
    storage: Mapping[str, str] | None = None,
    catalog: str = "",
) -> str:
    """Archive what is there; return where."""
    archive_to(table_of(kind, str(directory), storage, catalog), spark, regions)
    return str(directory)


def given(regions: Regions, archive: str, **more: str) -> dict[str, str]:
    return {"endpoints": regions.endpoints, **FAST, "streamsPattern": "*", "archive": archive, **more}


def places(frame: Any) -> list[tuple[str, str, int]]:
    return sorted((row.stream, row.origin, row.seq) for row in frame.select(*PLACE).collect())


def loaded(spark: Any, options: dict[str, str]) -> Any:
    return spark.read.format("crdtstream").options(**options).load()


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_the_table_and_what_came_later(spark: Any, regions: Regions, tmp_path: Path, kind: str) -> None:
    filled(regions)
    archive = archived(spark, regions, tmp_path, kind)
    filled(regions, 3)
    regions[1].add("new", b"later")
    regions.sync()
    frame = loaded(spark, given(regions, archive))
    assert places(frame) == held(regions)
    assert frame.where("stream = 'a'").count() == loaded(spark, given(regions, archive)).where("stream = 'a'").count()
    live = spark.read.format("crdtstream").options(**source(regions)).load()
    columns = [*PLACE, "id", "timestamp", "fields"]
    assert frame.select(*columns).exceptAll(live.select(*columns)).count() == 0


def test_a_table_in_a_catalogue_and_what_came_later(spark: Any, regions: Regions, tmp_path: Path) -> None:
    filled(regions)
    uri = f"sqlite:///{tmp_path}/lake.db"
    archive = archived(spark, regions, tmp_path / "orders", "iceberg", {"uri": uri}, "lake")
    before = held(regions)
    regions[1].trim("a", regions[1].origin, 5)
    regions[1].add("a", b"later")
    regions.sync()
    where = {"archiveCatalog": "lake", "archiveStoreOptions": f"uri={uri}"}
    assert places(loaded(spark, given(regions, archive, **where))) == sorted({*before, *held(regions)})
    assert not (tmp_path / "orders" / "catalog.db").exists()
    for options, text in (
        ({"archiveCatalog": "lake"}, "archiveCatalog: pyiceberg cannot open the catalogue lake: URI missing"),
        ({}, "there is no table at .* the catalogue of an Iceberg table with archiveCatalog"),
    ):
        with pytest.raises(Exception, match=text):
            loaded(spark, given(regions, archive, **options)).count()


def test_tasks_read_from_the_store_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []

    def batches_of(_file: TableFile, _names: Sequence[str], storage: Mapping[str, str]) -> Iterator[Any]:
        seen.append(storage)
        return iter(())

    monkeypatch.setattr("crdtstream.spark.archived.batches_of", batches_of)
    task = ArchiveTask([TableFile("s3://lake/1.parquet", "a", 1)], {"a": {}}, {"AWS_REGION": "eu"})
    assert list(pickle.loads(pickle.dumps(task)).batches(pa.schema([]))) == [] and seen == [{"AWS_REGION": "eu"}]


def test_what_was_trimmed_since_is_there(spark: Any, regions: Regions, tmp_path: Path) -> None:
    filled(regions)
    before = held(regions)
    archive = archived(spark, regions, tmp_path)
    for region in regions.regions:
        region.trim("a", region.origin, 5)
    regions[1].add("a", b"later")
    regions.sync()
    assert len(held(regions)) < len(before)
    assert places(loaded(spark, given(regions, archive))) == sorted({*before, *held(regions)})


def test_positions_are_cut_out_of_both(spark: Any, regions: Regions, tmp_path: Path) -> None:
    filled(regions)
    archive = archived(spark, regions, tmp_path)
    filled(regions, 3)
    everything = held(regions)
    origin = everything[0][1]
    seqs = [seq for stream, its, seq in everything if (stream, its) == ("a", origin)]
    for low in (0, seqs[1], seqs[-2]):
        for high in (seqs[2], seqs[-1]):
            frame = loaded(
                spark,
                given(regions, archive)
                | {
                    "startingOffsets": f'{{"a": {{"{origin}": {low}}}, "b": -1}}',
                    "endingOffsets": f'{{"a": {{"{origin}": {high}}}, "b": -1}}',
                },
            )
            found = [place for place in places(frame) if place[:2] == ("a", origin)]
            assert found == [("a", origin, seq) for seq in seqs if low < seq <= high]
            assert not [place for place in places(frame) if place[0] == "b"]


def test_metadata_is_worked_out(spark: Any, regions: Regions, tmp_path: Path) -> None:
    filled(regions, 1)
    live = spark.read.format("crdtstream").options(**source(regions), includeMetadata="true").load()
    archive = archived(spark, regions, tmp_path)
    frame = loaded(spark, given(regions, archive, includeMetadata="true"))
    columns = [*PLACE, "id", "region", "id_ms", "id_seq"]
    assert sorted(map(tuple, frame.select(*columns).collect())) == sorted(map(tuple, live.select(*columns).collect()))
    assert {row.region_read for row in frame.collect()} == {None}


@pytest.mark.parametrize("catalog", ["", "lake"])
def test_a_streaming_query_begins_with_the_table(spark: Any, regions: Regions, tmp_path: Path, catalog: str) -> None:
    """And goes on, also by another process, when the table has grown past it and the streams were trimmed."""
    filled(regions)
    storage = {"uri": f"sqlite:///{tmp_path}/lake.db"} if catalog else {}
    where = {"archiveCatalog": catalog, "archiveStoreOptions": json.dumps(storage)} if catalog else {}
    place = ("iceberg" if catalog else "delta", storage, catalog)
    archive = archived(spark, regions, tmp_path / "table", *place)
    seen: list[tuple[str, str, int]] = []

    def run() -> int:
        options = given(regions, archive, startingOffsets="earliest", maxOffsetsPerTrigger="7", **where)
        frame = spark.readStream.format("crdtstream").options(**options).load()
        writer = frame.writeStream.foreachBatch(lambda rows, _: seen.extend(places(rows)))
        query = writer.option("checkpointLocation", str(tmp_path / "state")).trigger(availableNow=True).start()
        assert query.awaitTermination(DEADLINE_S)
        return len(query.recentProgress)

    first = held(regions)
    for region in regions.regions:
        region.trim("a", region.origin, 5)
    filled(regions, 8)
    assert run() > 2
    assert sorted(seen) == sorted({*first, *held(regions)})
    filled(regions, 2)
    grown = sorted({*seen, *held(regions)})
    archived(spark, regions, tmp_path / "table", *place)
    for region in regions.regions:
        region.trim("b", region.origin, max(entry[0] for entry in regions.streams[b"b"][region.origin]))
    run()
    assert sorted(seen) == grown


def test_a_place_without_a_table_is_refused_with_words_for_the_option(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / PUBLISHED).write_text("{}")
    for place in (tmp_path / "none", files):
        options = Options({"endpoints": "a:1", "streamsPattern": "*", "archive": str(place)})
        with pytest.raises(OptionError, match=r"archive: there is no table at .* or leave the option archive out"):
            PinnedTable(options, None)


def test_what_does_not_fit_is_refused(spark: Any, regions: Regions, tmp_path: Path) -> None:
    filled(regions, 1)
    archive = archived(spark, regions, tmp_path / "table")
    for options, text in (
        (given(regions, str(tmp_path / "none")), "there is no table at"),
        (given(regions, archive, fieldsAs="json"), "archive: column fields of the table at"),
        (given(regions, archive, payloadSchema="order BIGINT"), "has no column order"),
    ):
        with pytest.raises(Exception, match=text):
            loaded(spark, options).count()
    with pytest.raises(OptionError, match="archive and startingTimestamp were both given"):
        Options(given(regions, archive, startingTimestamp="1"))
