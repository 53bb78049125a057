"""Found by Spark, which looks for `DefaultSource` in every module whose name begins with `pyspark_`.

It must never raise: an error here would break every look-up of a data source, not only of this one.
"""

try:
    from crdtstream.spark.source import CrdtStreamSource as DefaultSource
except Exception:
    __all__ = []
else:
    __all__ = ["DefaultSource"]
