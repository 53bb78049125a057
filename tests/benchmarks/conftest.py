"""The redis-server beside which benchmarks measure."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmarks.servers import BenchmarkError, find_redis_server


@pytest.fixture
def redis_server(tmp_path: Path) -> Path:
    try:
        return find_redis_server(tmp_path)
    except BenchmarkError as error:
        program = shutil.which("redis-server")
        if program is None:
            pytest.skip(f"no redis-server to measure beside: {error}")
        return Path(program)
