"""A declarative pipeline: orders as a table, a view of it, and a copy of the stream in another one."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()
SOURCE = {"endpoints": "10.0.0.5:7201,10.1.0.5:7201", "streams": "orders", "startingOffsets": "earliest"}


@dp.table
def orders() -> DataFrame:
    return spark.readStream.format("crdtstream").options(**SOURCE, payloadSchema="number BIGINT, item STRING").load()


@dp.materialized_view
def items() -> DataFrame:
    return spark.read.table("orders").groupBy("item").count()


dp.create_sink("copies", "crdtstream", {"endpoints": SOURCE["endpoints"], "stream": "copy"})


@dp.append_flow(target="copies")
def copy() -> DataFrame:
    return spark.readStream.format("crdtstream").options(**SOURCE).load().select("fields")
