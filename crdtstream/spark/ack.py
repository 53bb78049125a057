"""Consumer groups that track a streaming query: what the query has committed counts as delivered and acknowledged.

Spark reports a commit to a source when it plans the next batch, and never reports the last batch of a run. A group that
relies on option `ackGroup` alone therefore stays one batch behind while no new entries arrive. Two ways avoid that:

    spark.streams.addListener(AckListener(options, query_name="orders"))     after each batch, while the query runs
    advance_from_checkpoint("/data/state", options)                          at any time, from the query's checkpoint

`options` are those of the source. All three only move a group forward, so they can be combined.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from pyarrow import fs
from pyspark.sql.streaming.listener import StreamingQueryListener

from crdtstream.spark.losses import report
from crdtstream.spark.offsets import Positions, from_json
from crdtstream.spark.options import Options
from crdtstream.spark.regions import BulkError
from crdtstream.spark.sharded import client_of

log = logging.getLogger(__name__)


class NoCommit(LookupError):
    """The directory contains no committed batch."""


def advance(options: Mapping[str, str], positions: Positions) -> int:
    """Advance the group, and create it if it does not exist; return how many entries were newly acknowledged.

    Raises DataLoss, with the group advanced, if entries after the positions were trimmed or deleted with their stream;
    without `failOnDataLoss` it logs them.
    """
    parsed = Options(options)
    parsed.need("endpoints")
    done = client_of(parsed).advance(parsed.need("ackGroup"), positions)
    report(done.losses, parsed["failOnDataLoss"], had="acknowledged")
    return done.entries


def advance_from_checkpoint(checkpoint: str, options: Mapping[str, str], source: int = 0) -> int:
    """Advance the group to the last committed batch of a query; `source` counts the query's sources from 0."""
    return advance(options, committed(checkpoint, source))


def committed(checkpoint: str, source: int = 0) -> Positions:
    """Return the end of the last batch in Spark's commit log; `checkpoint` is a path or a URI."""
    files, root = files_of(checkpoint)
    batches = numbers(files, f"{root}/commits") & numbers(files, f"{root}/offsets")
    if not batches:
        raise NoCommit(f"{checkpoint} holds no committed batch: give the checkpointLocation of a query that has run")
    return planned(checkpoint, max(batches), source)


def planned(checkpoint: str, batch: int, source: int = 0) -> Positions:
    """Return the end of a batch, which Spark notes before it runs the batch."""
    files, root = files_of(checkpoint)
    with files.open_input_stream(f"{root}/offsets/{batch}") as file:
        # The file has a version, Spark's own metadata, and a line for each source.
        lines = file.read().decode().splitlines()[2:]
    if source >= len(lines):
        raise NoCommit(f"the query at {checkpoint} has {len(lines)} sources: give a number below that, counted from 0")
    return from_json(json.loads(lines[source]))


def files_of(checkpoint: str) -> tuple[Any, str]:
    """The file system and the path of a directory that is given as a path or a URI."""
    if "://" not in checkpoint:
        return fs.LocalFileSystem(), checkpoint
    files, root = fs.FileSystem.from_uri(checkpoint)
    return files, root


def numbers(files: Any, directory: str) -> set[int]:
    found = files.get_file_info(fs.FileSelector(directory, allow_not_found=True))
    return {int(each.base_name) for each in found if each.base_name.isdecimal()}


class AckListener(StreamingQueryListener):
    """Advances the group after each batch of one query, selected by name or ID. It runs in the driver process."""

    def __init__(self, options: Mapping[str, str], query_name: str = "", query_id: str = "", source: int = 0) -> None:
        if not query_name and not query_id:
            raise ValueError("neither query_name nor query_id was given: name the query that the group tracks")
        self.options = dict(options)
        self.query_name = query_name
        self.query_id = query_id
        self.source = source

    def onQueryStarted(self, event: Any) -> None:
        """Nothing to do."""

    def onQueryProgress(self, event: Any) -> None:
        progress = event.progress
        if self.query_name and progress.name != self.query_name:
            return
        if self.query_id and str(progress.id) != self.query_id:
            return
        end = progress.sources[self.source].endOffset
        if end:
            self.advance(from_json(json.loads(end)))

    def advance(self, positions: Positions) -> None:
        """Advance the group, and log a failure: an exception would silence the listener, and the next batch advances it
        as far. A loss is logged too: the query fails of it by itself, and may have read the entries by now.
        """
        try:
            advance({**self.options, "failOnDataLoss": "false"}, positions)
        except BulkError as error:
            log.warning("the group was not advanced, the next batch will retry: %s", error)

    def onQueryIdle(self, event: Any) -> None:
        """Nothing to do."""

    def onQueryTerminated(self, event: Any) -> None:
        """Nothing to do."""
