"""A package of its own because of its name: Spark looks for `DefaultSource` in top-level modules that begin with
`pyspark_`, and so finds the data source without being told.

It must never raise: an error here would break every look-up of a data source, not only of this one.
"""

try:
    from crdtstream.spark.source import CrdtStreamSource as DefaultSource
except Exception:
    __all__ = []
else:
    __all__ = ["DefaultSource"]
