"""One region: a `crdtstream serve` process of its own, and a Redis client that talks to it.

Ports are free ones that the process takes itself and names in its log, so that no two starts fight for one.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from crdtstream.demo.waiting import DemoError, wait_until

CLUSTER = "demo"
LOG_LINES_SHOWN = 15
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 20.0
REPLY_TIMEOUT_S = 20.0

SERVING = re.compile(r"event='serving'.* redis='127\.0\.0\.1:(\d+)'.* replication='127\.0\.0\.1:(\d+)'")


class Region:
    """A region by name and number; `start` begins its process in `directory`."""

    def __init__(self, name: str, number: int, directory: Path) -> None:
        self.name = name
        self.number = number
        self.port = 0
        self.replication_port = 0
        self.data = directory / name
        self._log = directory / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._client: Any = None

    @property
    def process_id(self) -> int:
        return 0 if self._process is None else self._process.pid

    def start(self, port: int, peers: list[str]) -> None:
        """Begin the process; port 0 takes a free one. A session of its own keeps Ctrl-C for the demo to act on."""
        arguments = ["--name", self.name, "--region", str(self.number), "--cluster", CLUSTER, "--data", str(self.data)]
        arguments += ["--port", str(port), "--replication-port", "0", "--incarnation", "0"]
        for peer in peers:
            arguments += ["--peer", peer]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "crdtstream", "serve", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def await_serving(self) -> None:
        """Wait until the process has named its ports, and connect."""
        wait_until(self._is_serving, lambda: f"region {self.name} does not serve{self.log_end()}", START_TIMEOUT_S)
        self._client = redis.Redis(
            port=self.port,
            protocol=2,
            decode_responses=True,
            socket_timeout=REPLY_TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),
            single_connection_client=True,
        )
        # Replies as redis-cli shows them: the client's own shapes differ between its releases.
        self._client.response_callbacks.clear()

    def _is_serving(self) -> bool:
        self.check_alive()
        named = SERVING.search(self._log.read_text(errors="replace"))
        if named is None:
            return False
        self.port, self.replication_port = int(named[1]), int(named[2])
        return True

    def check_alive(self) -> None:
        code = None if self._process is None else self._process.poll()
        if code is not None:
            raise DemoError(f"region {self.name} ended with exit code {code}{self.log_end()}")

    def log_end(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
        return "".join(f"\n    {line}" for line in lines) or "; its log is empty"

    def terminate(self) -> None:
        """Ask the process to stop cleanly."""
        if self._client is not None:
            self._client.close()
        if self._process is not None:
            self._process.terminate()

    def await_end(self) -> None:
        """Kill what does not stop."""
        if self._process is None:
            return
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    # Commands

    def run(self, *argv: str) -> Any:
        """A command's reply; an error that the region replies with is a value, a lost region is a DemoError."""
        try:
            return self._client.execute_command(*argv)
        except redis.ResponseError as error:
            return error
        except redis.RedisError as error:
            self.check_alive()
            raise DemoError(
                f"region {self.name} does not answer {shlex.join(argv)}: {error}{self.log_end()}"
            ) from error

    def vector(self) -> dict[str, int]:
        """What is applied here: origin -> counter."""
        applied = pairs(self.run("CRDT.VECTOR"))["applied"]
        return {origin: int(counter) for origin, counter in pairs(applied).items()}

    def own_counter(self) -> int:
        return self.vector().get(f"{self.number}.0", 0)

    def digest(self, *key: str) -> str:
        return str(self.run("CRDT.DIGEST", *key))

    def open_links(self) -> int:
        rows = [pairs(row) for row in self.run("CRDT.REGIONS")]
        return sum(row["link"] == "open" for row in rows)


def pairs(flat: Iterable[Any]) -> dict[str, Any]:
    """A RESP2 map: key, value, key, value."""
    items = iter(flat)
    return dict(zip(items, items, strict=True))
