"""The archive directory: Parquet files that any reader may read at any time, without a list of valid files.

    DIR/stream_part=<stream>/date=<day>/batch-0000000007-0.parquet   of one micro-batch
    DIR/stream_part=<stream>/date=<day>/merged-0000000019-0.parquet  of the micro-batches up to one
    DIR/_published.json                                              the query that writes here, and its last batch
    DIR/_checkpoint/, DIR/_staging/, DIR/_journal/                   readers skip names that begin with _

The executors write a micro-batch to `_staging`; the driver moves its files into place and then records the batch
number. A batch that is repeated after a crash during the moves replaces its own files, which carry its number; a batch
that is repeated because its commit was lost is skipped. Spark's own file sink writes directly where readers look, and
only Spark knows which files are valid, so other readers see the files of a killed job as duplicates.

Only files of published batches are merged. A merge records in a journal which files the new one replaces before it
moves any file, and an interrupted merge is finished before anything is written.

Paths are those of `pyarrow.fs`, so a directory may be on any file system that it supports (file, s3, gs, hdfs).
"""

from __future__ import annotations

import json
import re
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

import pyarrow.fs as filesystems
import pyarrow.parquet as parquet

from crdtstream.spark.tables.commits import PARQUET, PUBLISHED, ForeignQuery, Published, refuse_others

STAGING = "_staging"
JOURNAL = "_journal"
# A task of a query that was stopped goes on writing until its executor hears of that.
REMOVALS = 20
REMOVAL_PAUSE_S = 0.5
NAMED = re.compile(r"(?P<kind>batch|merged)-(?P<batch>\d{10})-(?P<index>\d+)\.parquet")


@dataclass(frozen=True)
class DataFile:
    """One Parquet file: its path inside the directory, the batch in its name, and its size in bytes."""

    path: str
    kind: str
    batch: int
    size_bytes: int

    @property
    def folder(self) -> str:
        return str(PurePosixPath(self.path).parent)


class Dataset:
    """An archive at a path or URI; one job at a time may write to it."""

    def __init__(self, directory: str) -> None:
        if "://" in directory:
            self._files, self.root = filesystems.FileSystem.from_uri(directory)
        else:
            self._files, self.root = filesystems.LocalFileSystem(), str(PurePosixPath(directory))
        self.uri = directory.rstrip("/")

    def recover(self) -> None:
        """Finish interrupted merges, and remove what a killed job had staged. Call it before writing. Raises
        ForeignQuery for a table.
        """
        refuse_others(self._files, self.root, self.uri, PARQUET)
        self._files.create_dir(self.root, recursive=True)
        for journal in self._list(JOURNAL):
            self._finish(journal.path)
        self._remove_tree(STAGING)

    # Batches

    def staging_of(self, batch: int) -> str:
        """Return the URI where the executors write a batch, for Spark."""
        return f"{self.uri}/{STAGING}/{batch}"

    def last_batch(self, query: str) -> int:
        """Return the last batch that this query published here, or -1. `query` is the query's Spark ID, which is stored
        in its checkpoint.
        """
        text = self.read(PUBLISHED)
        if text is None:
            return -1
        noted = json.loads(text)
        if noted["query"] != query:
            raise ForeignQuery(
                f"{self.uri} was written by query {noted['query']}, but its checkpoint belongs to query {query}:"
                " restore the checkpoint, or archive to another directory"
            )
        return int(noted["batch"])

    def publish(self, query: str, batch: int) -> Published:
        """Move the staged files into place, replacing those of an earlier attempt at this batch."""
        for file in self.files():
            if file.kind == "batch" and file.batch == batch:
                self._files.delete_file(self._absolute(file.path))
        staged = [info for info in self._list(f"{STAGING}/{batch}") if info.path.endswith(".parquet")]
        rows = sum(self._rows(info.path) for info in staged)
        indexes: dict[str, int] = defaultdict(int)
        for info in sorted(staged, key=lambda info: info.path):
            folder = str(PurePosixPath(self._relative(info.path)).parent.relative_to(f"{STAGING}/{batch}"))
            self._move(info.path, f"{folder}/batch-{batch:010}-{indexes[folder]}.parquet")
            indexes[folder] += 1
        self._record(query, batch)
        self._remove_tree(f"{STAGING}/{batch}")
        return Published(len(staged), rows, sum(info.size for info in staged))

    def _record(self, query: str, batch: int) -> None:
        path = self._absolute(PUBLISHED)
        with self._files.open_output_stream(f"{path}.new") as out:
            out.write(json.dumps({"query": query, "batch": batch}).encode())
        self._files.move(f"{path}.new", path)

    # Merging

    def small(self, query: str, below_bytes: int, files_min: int) -> Iterator[list[DataFile]]:
        """Yield for each folder its small published files with the same columns, if there are at least `files_min` of
        them.
        """
        published = self.last_batch(query)
        folders: dict[str, list[DataFile]] = defaultdict(list)
        for file in self.files():
            if file.size_bytes < below_bytes and file.batch <= published:
                folders[file.folder].append(file)
        for _, files in sorted(folders.items()):
            if len(files) >= files_min:
                yield from (alike for alike in self._by_columns(files) if len(alike) >= files_min)

    def _by_columns(self, files: list[DataFile]) -> list[list[DataFile]]:
        """The files in order, those with the same columns together: a file has one schema."""
        found: dict[str, list[DataFile]] = defaultdict(list)
        for file in sorted(files, key=lambda file: (file.batch, file.path)):
            schema = parquet.ParquetFile(self._absolute(file.path), filesystem=self._files).schema_arrow
            found[schema.to_string(show_field_metadata=False, show_schema_metadata=False)].append(file)
        return list(found.values())

    def merge(self, files: list[DataFile]) -> None:
        """Replace these files of one folder with one file."""
        through = max(file.batch for file in files)
        target = self._free_name(files[0].folder, through)
        staged = self._absolute(f"{STAGING}/{target}")
        self._files.create_dir(str(PurePosixPath(staged).parent), recursive=True)
        self._concatenate([self._absolute(file.path) for file in files], staged)
        journal = self._absolute(f"{JOURNAL}/{target.replace('/', '%')}.json")
        self._files.create_dir(self._absolute(JOURNAL), recursive=True)
        plan = {"staged": f"{STAGING}/{target}", "target": target, "replaces": [file.path for file in files]}
        with self._files.open_output_stream(journal) as out:
            out.write(json.dumps(plan).encode())
        self._finish(journal)

    def _finish(self, journal: str) -> None:
        """Complete a merge whose new file is staged: delete the old files, move the new one into place, delete the
        journal.

        In this order a concurrent reader may briefly miss rows, but never reads a row twice; the staged file is kept
        until it is moved.
        """
        try:
            plan = json.loads(self.read(self._relative(journal)) or b"")
        except ValueError:
            self._files.delete_file(journal)  # It was cut short while being written, so no file was moved yet.
            return
        staged = self._absolute(plan["staged"])
        if self._exists(staged):
            for path in plan["replaces"]:
                if self._exists(self._absolute(path)):
                    self._files.delete_file(self._absolute(path))
            self._move(staged, plan["target"])
        self._files.delete_file(journal)

    def _concatenate(self, paths: list[str], target: str) -> None:
        schema = parquet.ParquetFile(paths[0], filesystem=self._files).schema_arrow
        with parquet.ParquetWriter(target, schema, filesystem=self._files) as writer:
            for path in paths:
                for batch in parquet.ParquetFile(path, filesystem=self._files).iter_batches():
                    writer.write_batch(batch)

    def _free_name(self, folder: str, through: int) -> str:
        taken = {file.path for file in self.files()}
        index = 0
        while f"{folder}/merged-{through:010}-{index}.parquet" in taken:
            index += 1
        return f"{folder}/merged-{through:010}-{index}.parquet"

    # Files

    def read(self, path: str) -> bytes | None:
        """Read a small file of the directory; None if it does not exist."""
        if not self._exists(self._absolute(path)):
            return None
        with self._files.open_input_stream(self._absolute(path)) as stream:
            return bytes(stream.read())

    def files(self) -> list[DataFile]:
        found = []
        for info in self._list(""):
            path = self._relative(info.path)
            named = NAMED.fullmatch(PurePosixPath(path).name)
            if named and not path.startswith("_"):
                found.append(DataFile(path, named["kind"], int(named["batch"]), info.size))
        return found

    def _list(self, folder: str) -> list[filesystems.FileInfo]:
        selector = filesystems.FileSelector(self._absolute(folder), allow_not_found=True, recursive=True)
        return [info for info in self._files.get_file_info(selector) if info.type == filesystems.FileType.File]

    def _rows(self, path: str) -> int:
        return int(parquet.ParquetFile(path, filesystem=self._files).metadata.num_rows)

    def _move(self, source: str, target: str) -> None:
        absolute = self._absolute(target)
        self._files.create_dir(str(PurePosixPath(absolute).parent), recursive=True)
        self._files.move(source, absolute)

    def _remove_tree(self, folder: str) -> None:
        """Remove a directory if it is there, and try again while a task that has not ended yet writes into it."""
        path = self._absolute(folder)
        for left in reversed(range(REMOVALS)):
            if self._files.get_file_info(path).type != filesystems.FileType.Directory:
                return
            try:
                self._files.delete_dir(path)
            except OSError:
                if not left:
                    raise
                time.sleep(REMOVAL_PAUSE_S)

    def _exists(self, path: str) -> bool:
        return bool(self._files.get_file_info(path).type != filesystems.FileType.NotFound)

    def _absolute(self, path: str) -> str:
        return str(PurePosixPath(self.root) / path)

    def _relative(self, path: str) -> str:
        return str(PurePosixPath(path).relative_to(self.root))
