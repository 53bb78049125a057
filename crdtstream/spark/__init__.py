"""The PySpark data source `crdtstream`: batch and streaming reads and writes over the bulk ports of the regions.

    register(spark)
    spark.readStream.format("crdtstream").option("endpoints", "eu:7201,us:7201").option("streams", "orders").load()

A client of the public bulk port, in processes of its own: of the node's code it imports only the contract.

    options    what a user may set                       offsets    positions in Spark's format
    regions, client, heads    the bulk ports of all regions, used as one
    sharded    the shards of all regions: a client for each, and what needs all of them
    plan       positions to tasks                        reader     batches and streaming queries from streams
    entries, columns    replies to Arrow                 rows, writer    Arrow to rows, staged and published once
    session    a session whose workers use this Python   ack        consumer groups that track a query
"""

from __future__ import annotations

from typing import Any


def register(spark: Any) -> None:
    """Register the format with this SparkSession. Other sessions need their own call, or `pyspark_crdtstream`
    installed.
    """
    try:
        from crdtstream.spark.source import CrdtStreamSource
    except ImportError as error:
        raise ImportError(f"{error}; install what Spark needs: pip install 'crdtstream[spark]'") from error
    spark.dataSource.register(CrdtStreamSource)
