"""What tests of jobs in processes of their own share."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest

needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="needs Java")
ROOT: Final = Path(__file__).resolve().parents[2]
# Java's own, because Spark asks for that module.
OF_THE_JVM: Final = "WARNING: Using incubator modules: jdk.incubator.vector"


def said(stderr: str) -> list[str]:
    """The lines that a job has printed itself."""
    return [line for line in stderr.splitlines() if line != OF_THE_JVM]
