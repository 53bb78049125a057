"""The archive's directory: what a reader of all its files finds after each kind of interruption."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

import pyarrow
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet

from crdtstream.spark.jobs import dataset as dataset_module
from crdtstream.spark.jobs.dataset import Dataset
from crdtstream.spark.tables.commits import ForeignQuery, Published

FOLDER = "stream_part=s/date=2026-11-22"


class Killed(Exception):
    """The process ends here."""


def stage(dataset: Dataset, batch: int, ids: list[str], folder: str = FOLDER, name: str = "part-0") -> None:
    target = Path(dataset.staging_of(batch)) / folder
    target.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.table({"stream": ["s"] * len(ids), "id": ids}), target / f"{name}.parquet")


def found(directory: Path) -> list[str]:
    """The IDs that a reader finds which knows nothing of this layout."""
    table = pyarrow.dataset.dataset(directory, format="parquet").to_table()
    return sorted(table["id"].to_pylist()) if table.num_columns else []


def published(directory: Path, *batches: list[str]) -> Dataset:
    dataset = Dataset(str(directory))
    dataset.recover()
    for number, ids in enumerate(batches):
        stage(dataset, number, ids)
        dataset.publish("q", number)
    return dataset


def failing_move(dataset: Dataset, monkeypatch: pytest.MonkeyPatch, moves: int) -> None:
    """The process is killed when it has moved so many files."""
    move, left = dataset._move, [moves]

    def moved(source: str, target: str) -> None:
        if not left[0]:
            raise Killed
        left[0] -= 1
        move(source, target)

    monkeypatch.setattr(dataset, "_move", moved)


def test_a_batch_is_moved_in_and_counted(tmp_path: Path) -> None:
    dataset = Dataset(str(tmp_path))
    dataset.recover()
    assert dataset.last_batch("q") == -1
    stage(dataset, 0, ["1-1", "2-1"])
    stage(dataset, 0, ["3-1"], "stream_part=t/date=2026-11-22")
    done = dataset.publish("q", 0)
    assert (done.files, done.rows) == (2, 3)
    assert done.size_bytes == sum(file.size_bytes for file in dataset.files())
    assert dataset.last_batch("q") == 0
    assert found(tmp_path) == ["1-1", "2-1", "3-1"]
    assert not list(tmp_path.glob("_staging/*"))


def test_an_empty_batch_is_published(tmp_path: Path) -> None:
    dataset = published(tmp_path)
    assert dataset.publish("q", 0) == Published()
    assert dataset.last_batch("q") == 0


@pytest.mark.parametrize("moves", [0, 1, 2])
def test_a_batch_that_was_killed_in_its_moves_replaces_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moves: int
) -> None:
    dataset = published(tmp_path, ["1-1"])
    for name in ("a", "b", "c"):
        stage(dataset, 1, [f"2-{ord(name)}"], name=name)
    failing_move(dataset, monkeypatch, moves)
    with pytest.raises(Killed):
        dataset.publish("q", 1)
    again = Dataset(str(tmp_path))
    again.recover()
    assert again.last_batch("q") == 0
    stage(again, 1, ["2-97", "2-98", "2-99"])
    again.publish("q", 1)
    assert found(tmp_path) == ["1-1", "2-97", "2-98", "2-99"]


def test_what_was_staged_by_a_killed_job_is_removed(tmp_path: Path) -> None:
    stage(published(tmp_path), 7, ["9-9"])
    Dataset(str(tmp_path)).recover()
    assert not (tmp_path / "_staging").exists()


class LateTask:
    """A file system on which a directory cannot be removed for so many times, because a task writes into it."""

    def __init__(self, files: pyarrow.fs.FileSystem, times: int) -> None:
        self._files = files
        self.times = times

    def delete_dir(self, path: str) -> None:
        if self.times:
            self.times -= 1
            raise OSError(errno.ENOTEMPTY, "Cannot delete directory")
        self._files.delete_dir(path)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)


def beside_late_task(directory: Path, monkeypatch: pytest.MonkeyPatch, times: int) -> Dataset:
    monkeypatch.setattr(dataset_module, "REMOVAL_PAUSE_S", 0.001)
    dataset = Dataset(str(directory))
    stage(dataset, 0, ["1-1"])
    monkeypatch.setattr(dataset, "_files", LateTask(dataset._files, times))
    return dataset


def test_what_a_late_task_writes_is_removed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beside_late_task(tmp_path, monkeypatch, dataset_module.REMOVALS - 1).recover()
    assert not (tmp_path / "_staging").exists()


def test_a_directory_that_stays_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = beside_late_task(tmp_path, monkeypatch, dataset_module.REMOVALS)
    with pytest.raises(OSError, match="Cannot delete"):
        dataset.recover()


def test_another_query_is_refused(tmp_path: Path) -> None:
    dataset = published(tmp_path, ["1-1"])
    with pytest.raises(ForeignQuery, match="written by query q, but its checkpoint belongs to query other: restore"):
        dataset.last_batch("other")


def test_small_files_are_merged_in_order(tmp_path: Path) -> None:
    dataset = published(tmp_path, ["1-1"], ["2-1"], ["3-1"])
    (files,) = dataset.small("q", 1 << 20, 3)
    dataset.merge(files)
    (merged,) = dataset.files()
    assert (merged.kind, merged.batch, merged.folder) == ("merged", 2, FOLDER)
    assert pyarrow.parquet.read_table(tmp_path / merged.path)["id"].to_pylist() == ["1-1", "2-1", "3-1"]
    assert list(dataset.small("q", 1 << 20, 2)) == []


def test_files_with_other_columns_are_merged_apart(tmp_path: Path) -> None:
    dataset = published(tmp_path, ["1-1"], ["2-1"])
    for number in (2, 3):
        target = Path(dataset.staging_of(number)) / FOLDER
        target.mkdir(parents=True)
        rows = pyarrow.table({"stream": ["s"], "id": [f"{number}-9"], "price": [1.5]})
        pyarrow.parquet.write_table(rows, target / "part-0.parquet")
        dataset.publish("q", number)
    for files in [*dataset.small("q", 1 << 20, 2)]:
        dataset.merge(files)
    assert len(dataset.files()) == 2
    assert found(tmp_path) == ["1-1", "2-1", "2-9", "3-9"]


def test_large_and_few_files_are_left(tmp_path: Path) -> None:
    dataset = published(tmp_path, ["1-1"], ["2-1"])
    assert list(dataset.small("q", 1 << 20, 3)) == []
    assert list(dataset.small("q", 10, 1)) == []


def test_files_of_a_batch_that_is_not_complete_are_not_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = published(tmp_path, ["1-1"], ["2-1"])
    for name in ("a", "b"):
        stage(dataset, 2, [f"3-{ord(name)}"], name=name)
    failing_move(dataset, monkeypatch, 1)
    with pytest.raises(Killed):
        dataset.publish("q", 2)
    (files,) = Dataset(str(tmp_path)).small("q", 1 << 20, 2)
    assert [file.batch for file in files] == [0, 1]


def test_merged_files_are_merged_again(tmp_path: Path) -> None:
    dataset = published(tmp_path, ["1-1"], ["2-1"])
    dataset.merge(next(dataset.small("q", 1 << 20, 2)))
    stage(dataset, 2, ["3-1"])
    dataset.publish("q", 2)
    dataset.merge(next(dataset.small("q", 1 << 20, 2)))
    assert found(tmp_path) == ["1-1", "2-1", "3-1"]
    assert len(dataset.files()) == 1


def killed_merge(directory: Path, monkeypatch: pytest.MonkeyPatch, step: str, after: int) -> None:
    """A merge of three batches; the process is killed at its nth call of that step of the file system."""
    dataset = published(directory, ["1-1"], ["2-1"], ["3-1"])
    files: Any = dataset._files

    class Files:
        left = after

        def __getattr__(self, name: str) -> Any:
            if name == step:
                if not self.left:
                    raise Killed
                self.left -= 1
            return getattr(files, name)

    finish = dataset._finish

    def killed(journal: str) -> None:
        monkeypatch.setattr(dataset, "_files", Files())
        finish(journal)

    monkeypatch.setattr(dataset, "_finish", killed)
    with pytest.raises(Killed):
        dataset.merge(next(dataset.small("q", 1 << 20, 3)))


@pytest.mark.parametrize(
    ("step", "after"),
    [
        ("delete_file", 0),
        ("delete_file", 1),
        ("delete_file", 2),
        ("move", 0),
        ("delete_file", 3),
    ],
)
def test_a_merge_that_was_killed_loses_and_repeats_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, after: int
) -> None:
    killed_merge(tmp_path, monkeypatch, step, after)
    again = Dataset(str(tmp_path))
    again.recover()
    assert found(tmp_path) == ["1-1", "2-1", "3-1"]
    assert not list(tmp_path.glob("_journal/*"))


def test_a_journal_that_was_cut_short_is_forgotten(tmp_path: Path) -> None:
    published(tmp_path, ["1-1"])
    (tmp_path / "_journal").mkdir()
    (tmp_path / "_journal" / "x.json").write_text(json.dumps({"staged": "a"})[:7])
    Dataset(str(tmp_path)).recover()
    assert found(tmp_path) == ["1-1"]
    assert not list(tmp_path.glob("_journal/*"))


def test_a_uri_is_a_directory_too(tmp_path: Path) -> None:
    dataset = Dataset(tmp_path.as_uri())
    dataset.recover()
    assert dataset.staging_of(3) == f"{tmp_path.as_uri()}/_staging/3"
    assert dataset.files() == []
