"""Whether containers can be run here, and how tests that need them say so."""

from __future__ import annotations

import importlib.util
import os
import subprocess

import pytest

os.environ["TESTCONTAINERS_RYUK_DISABLED"] = "true"  # before the import: its helper image may be out of reach


def reason_to_skip() -> str:
    if importlib.util.find_spec("testcontainers") is None:
        return "container tests need testcontainers: pip install -e '.[dev,containers]'"
    try:
        answer = subprocess.run(
            ["docker", "version", "--format", "{{.Server.Version}}"], capture_output=True, timeout=20
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"no container engine answers: {error}"
    return "" if answer.returncode == 0 else f"no container engine answers: {answer.stderr.decode().strip()}"


REASON = reason_to_skip()
marks = [
    pytest.mark.skipif(bool(REASON), reason=REASON or "an engine answers"),
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
