"""Regions in memory for every test, and one session for those that need a JVM; without pyspark nothing is collected."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
INSTALLED = all(find_spec(name) for name in ("numpy", "pyarrow", "pyspark"))
# Tests move few rows: what the JVM's second compiler costs they never get back.
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
collect_ignore_glob = [] if INSTALLED else ["test_*.py", "*/test_*.py"]


def pytest_report_header() -> str:
    return "spark: installed" if INSTALLED else "spark: not installed, tests/spark is left out"


@pytest.fixture
def regions() -> Iterator[Any]:
    from tests.spark.fake_regions import Regions

    made = Regions()
    yield made
    made.stop()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Workers find the package, and the tests' own modules, where this process does."""
    if shutil.which("java") is None:
        pytest.skip("needs Java")
    from crdtstream.spark.session import start_session

    warehouse = tmp_path_factory.mktemp("warehouse")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", str(HERE.parent.parent))
        settings = {"spark.sql.warehouse.dir": str(warehouse), "spark.driver.extraJavaOptions": QUICK_START}
        session = start_session("tests", settings=settings)
        session.sparkContext.setLogLevel("ERROR")
        yield session
        session.stop()
