"""What commands ask of the process: the settings in their file, a clean stop, its memory; on a real process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import redis

from crdtstream.processes.ports import free_port
from crdtstream.processes.server import ServerProcess
from crdtstream.processes.waiting import until
from crdtstream.runtime import process
from nemesis.cluster import ROOT

FILE = """\
# The eastern region.
name = "east"
region = 1
cluster = "shop"
port = {port}  # free
replication-port = {replication_port}
data = "{data}"
"""


class Started(ServerProcess):
    """A region that was started from a file."""

    def __init__(self, directory: Path) -> None:
        super().__init__("east", directory)
        self.path = directory / "region.toml"
        self.path.write_text(FILE.format(port=self.port, replication_port=free_port(), data=directory / "data"))
        self.launch(["serve", "--config", str(self.path)])

    @cached_property
    def connection(self) -> Any:
        return self.connect()

    def run(self, text: str) -> Any:
        return self.connection.execute_command(*text.split())

    def info(self, section: str) -> dict[str, str]:
        text = self.run(f"INFO {section}").decode()
        return dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)


@pytest.fixture
def region(tmp_path: Path) -> Iterator[Started]:
    started = Started(tmp_path)
    try:
        yield started.await_serving()
    finally:
        started.kill()


def test_settings_are_written_and_read_again(region: Started, tmp_path: Path) -> None:
    before = region.path.read_text()
    assert region.run("CONFIG REWRITE") == b"OK"
    assert region.path.read_text() == before
    assert region.run("CONFIG SET maxclients 77 loglevel debug") == b"OK"
    assert region.run("CONFIG REWRITE") == b"OK"
    assert region.path.read_text() == before + 'log-level = "debug"\n\n[limits]\nclients_max = 77\n'
    checked = subprocess.run(
        [
            sys.executable,
            "-m",
            "crdtstream",
            "serve",
            "--config",
            str(region.path),
            "--check",
            "--data",
            str(tmp_path / "other"),
            # Those of the file are in use.
            "--port",
            "0",
            "--replication-port",
            "0",
        ],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr
    region.path.unlink()
    with pytest.raises(redis.ResponseError, match="Rewriting config file: No such file or directory"):
        region.run("CONFIG REWRITE")


def test_shutdown_is_a_clean_stop(region: Started) -> None:
    assert region.run("XADD s * f v")
    with pytest.raises(redis.ConnectionError):
        region.run("SHUTDOWN")
    assert region.await_end() == 0
    assert "Traceback" not in region.log()


def test_saves_are_checkpoints(region: Started) -> None:
    started_s = region.run("LASTSAVE")
    assert region.run("XADD s * f v")
    assert int(region.info("persistence")["rdb_changes_since_last_save"]) >= 1
    assert region.run("SAVE") == b"OK"
    assert region.info("persistence")["rdb_changes_since_last_save"] == "0"
    assert region.run("LASTSAVE") >= started_s
    assert region.run("BGSAVE") == b"Background saving started"
    with pytest.raises(redis.ConnectionError):
        region.run("SHUTDOWN SAVE")
    assert region.await_end() == 0


def test_the_process_shows_what_it_uses(region: Started) -> None:
    server, memory, processor = region.info("server"), region.info("memory"), region.info("cpu")
    assert int(server["process_id"]) == region.pid
    assert len(server["run_id"]) == 40
    assert server["config_file"] == str(region.path)
    assert int(memory["total_system_memory"]) > int(memory["used_memory"]) > 10 << 20
    assert float(processor["used_cpu_user"]) > 0


def test_memory_is_measured_while_it_runs(region: Started) -> None:
    used = int(region.info("memory")["used_memory"])
    region.run(f"CONFIG SET maxmemory {used + (8 << 20)}")
    value = os.urandom(1 << 20)

    def refused() -> bool:
        try:
            region.connection.execute_command("XADD", "s", "*", "f", value)
        except redis.ResponseError as error:
            assert str(error).startswith(("OOM", "command not allowed when used memory"))
            return True
        return False

    until(refused, "memory is never short")
    assert region.run("DEL s") == 1
    until(lambda: not refused(), "memory stays short after it was freed")


def test_memory_of_this_process() -> None:
    held, user_s, system_s = process.usage()
    assert 1 << 20 < held < process.system_bytes()
    assert user_s > 0 and system_s >= 0
