"""How many bytes the fields of entries have, as Spark counts them, in any of the forms of `fieldsAs`."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, MapType


def field_bytes(rows: DataFrame) -> Column:
    """Names and values together, of the column `fields`; where that is JSON, its text."""
    held = rows.schema["fields"].dataType
    if isinstance(held, ArrayType):
        return total_of(f.col("fields"), "field")
    if isinstance(held, MapType):
        return total_of(f.map_entries("fields"), "key")
    return f.octet_length("fields").cast("long")


def total_of(pairs: Column, name: str) -> Column:
    def add(so_far: Column, pair: Column) -> Column:
        return so_far + f.octet_length(pair[name]) + f.octet_length(pair["value"])

    return f.aggregate(pairs, f.lit(0).cast("long"), add)
