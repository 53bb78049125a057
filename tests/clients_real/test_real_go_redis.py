"""go-redis, a client of Redis Cluster in Go: a program is compiled and works on all shards of a region."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from crdtstream.processes.sharded import ShardedRegion
from crdtstream.processes.waiting import DEADLINE_S

PROGRAM = Path(__file__).with_name("go_cluster.go")
COMPILER = shutil.which("go")
# Where Debian's package golang-gopkg-redis.v5-dev puts it.
PACKAGES = Path("/usr/share/gocode")
pytestmark = [
    pytest.mark.skipif(COMPILER is None, reason="needs Go"),
    pytest.mark.skipif(not (PACKAGES / "src/gopkg.in/redis.v5").exists(), reason="needs golang-gopkg-redis.v5-dev"),
]
SHARDS = 3
HANDLED = [f"handled {stream}-{order}" for stream in range(20) for order in range(10)]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    made = tmp_path / "go_cluster"
    told = {"GO111MODULE": "off", "GOPATH": str(PACKAGES), "GOCACHE": str(tmp_path / "cache")}
    command = [str(COMPILER), "build", "-o", str(made), str(PROGRAM)]
    subprocess.run(command, check=True, env={**os.environ, **told}, timeout=2 * DEADLINE_S)
    return made


def test_a_consumer_finds_every_stream(program: Path, tmp_path: Path) -> None:
    with ShardedRegion(1, tmp_path, SHARDS) as region:
        region.start()
        region.await_serving()
        command = [str(program), f"127.0.0.1:{region.port + 1}"]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=DEADLINE_S)
        *handled, pending = done.stdout.splitlines()
        assert sorted(handled) == sorted(HANDLED)
        assert pending == "pending 0"
        assert all(size > 0 for size in region.ask_shards("DBSIZE"))
