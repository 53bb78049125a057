"""A Spark session whose workers run this Python; a local session listens only on loopback."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from crdtstream.spark import register

# The second number is the attempts of a task; `local[2]` would allow only one.
MASTER: Final = "local[2,4]"
# Results have UTC times wherever a job runs. Unix sockets between executors and workers would save 10 ms of a task, but
# each worker that Spark closes after a minute without work then prints a BrokenPipeError.
SETTINGS: Final = {"spark.sql.session.timeZone": "UTC"}
LOGGING: Final = Path(__file__).with_name("log4j2.properties")
# Settings for sessions whose executors are on this machine.
LOCAL_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.catalogImplementation": "in-memory",
    # The JVM's second compiler stays on: without it a session starts 1 to 2 s sooner, but moves half the rows.
    "spark.driver.extraJavaOptions": f"-XX:+UseSerialGC -Dlog4j2.configurationFile={LOGGING.as_uri()}",
}
# Of a job, which says by itself how it ended: its local session has no log of failed queries and tasks, with their
# stacks. A task may succeed when it is repeated.
JOB_SETTINGS: Final = {
    "spark.driver.extraJavaOptions": f"{LOCAL_SETTINGS['spark.driver.extraJavaOptions']} -Dcrdtstream.failures=off"
}


def start_session(
    name: str = "crdtstream",
    master: str = MASTER,
    settings: Mapping[str, str] | None = None,
    local: Mapping[str, str] | None = None,
) -> Any:
    """Start a session and register the format; `local` are further settings of a local session. Workers would otherwise
    use the `python3` on the PATH, perhaps another Python.

    Under `spark-submit` its master and settings apply; `master` is for a process that starts Spark itself.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise ImportError(f"{error}; install what Spark needs: pip install 'crdtstream[spark]'") from error
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    chosen = dict(SETTINGS)
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        builder = builder.master(master)
        if master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            chosen |= {**LOCAL_SETTINGS, **(local or {})}
    for key, value in {**chosen, **(settings or {})}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    register(spark)
    return spark
