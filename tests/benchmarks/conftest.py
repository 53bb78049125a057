"""The redis-server beside which benchmarks measure."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmarks.servers import NO_REDIS_SERVER, find_redis_server


@pytest.fixture
def redis_server(tmp_path: Path) -> Path:
    found = find_redis_server(tmp_path)
    program = shutil.which("redis-server") if found is None else found
    if program is None:
        pytest.skip(f"nothing to measure beside: {NO_REDIS_SERVER}")
    return Path(program)
