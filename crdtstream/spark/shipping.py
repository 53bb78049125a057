"""Python packages as a zip, for executors on which they are not installed (`spark-submit --py-files`).

The zip contains Python source only: executors run it interpreted, even if this installation is compiled. Dependencies
of the packages must be installed on the executors.
"""

from __future__ import annotations

import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def ship(spark: Any, *packages: str) -> None:
    """Send these packages of this process to the executors of a session."""
    target = Path(tempfile.mkdtemp(prefix="crdtstream-")) / f"{'-'.join(packages)}.zip"
    write_zip(target, *packages)
    spark.sparkContext.addPyFile(str(target))


def write_zip(target: Path, *packages: str) -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in packages:
            folder = folder_of(package)
            for path in sorted(folder.rglob("*.py")):
                archive.write(path, str(path.relative_to(folder.parent)))


def folder_of(package: str) -> Path:
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f"{package} is not a package of this Python: install it, or run in its source directory")
    return Path(next(iter(spec.submodule_search_locations)))
