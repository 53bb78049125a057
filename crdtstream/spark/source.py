"""The data source: options and schema. Spark creates readers and writers from it in separate processes.

Spark imports this module to look up any format, so other modules are imported only where they are needed.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from importlib import import_module
from typing import Any

import pyspark
from pyspark.sql.datasource import DataSource

from crdtstream.spark.options import OptionError, Options

NAME = "crdtstream"


class CrdtStreamSource(DataSource):
    """`spark.read.format("crdtstream")`, `readStream`, `write` and `writeStream`."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        refuse_old_spark()
        super().__init__(options)
        self.parsed = Options(options)

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        from crdtstream.spark.columns import columns_of, ddl

        own = ddl(columns_of(self.parsed["fieldsAs"], self.parsed["includeMetadata"]))
        if self.parsed["payloadSchema"] is None:
            return own
        from crdtstream.spark.payloads.decoding import ddl_of

        return own + ddl_of(self.parsed)

    def reader(self, schema: Any) -> Any:
        from crdtstream.spark.reader import BatchReader

        return BatchReader(self.parsed, schema)

    def streamReader(self, schema: Any) -> Any:
        from crdtstream.spark.reader import BulkStreamReader

        return BulkStreamReader(self.parsed, schema)

    def writer(self, schema: Any, overwrite: bool) -> Any:
        from crdtstream.spark.writer import BatchWriter

        return BatchWriter(self.parsed, schema, overwrite)

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        from crdtstream.spark.writer import StreamWriter

        return StreamWriter(self.parsed, schema, overwrite)


def refuse_old_spark() -> None:
    """Spark 4.0 and 4.1 find this source, but lack what its readers are made of."""
    try:
        import_module("pyspark.sql.streaming.datasource")
    except ImportError:
        raise OptionError(
            f"Spark {pyspark.__version__} has no rate limits and no AvailableNow for sources in Python: use 4.2 or"
            " newer"
        ) from None
