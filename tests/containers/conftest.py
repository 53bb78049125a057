"""The image that all tests of containers run."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Iterator

import pytest

from tests.containers.cluster import DEPLOY, run


@pytest.fixture(scope="session")
def image() -> Iterator[str]:
    """The one that IMAGE names, else one that is built for this run."""
    if "IMAGE" in os.environ:
        yield os.environ["IMAGE"]
        return
    tag = f"crdtstream:test-{uuid.uuid4().hex[:8]}"
    try:
        # Compiling takes minutes; what is proved here does not depend on it.
        run(DEPLOY / "build", tag, CRDTSTREAM_COMPILE="0")
        yield tag
    finally:
        subprocess.run(["docker", "image", "rm", "--force", tag], capture_output=True, check=False)
