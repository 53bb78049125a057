"""The jobs for spark-submit: `spark-submit [options] --py-files crdtstream.zip deploy/spark_job.py archive DIR ...`.

A file of its own because spark-submit runs a file, not a module. See docs/spark.md, "On a cluster".
"""

from crdtstream.spark.app import main

main()
