"""One region: a `crdtstream serve` process, and a Redis client connected to it.

The process picks free ports itself and logs them, so that concurrent starts never compete for a port.
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
REGIONS = 3
LOG_LINES_SHOWN = 15
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 20.0
REPLY_TIMEOUT_S = 20.0

SERVING = re.compile(
    r"event='serving'.* redis='127\.0\.0\.1:(\d+)'.* replication='127\.0\.0\.1:(\d+)'(?:.* bulk='127\.0\.0\.1:(\d+)')?"
)


class Region:
    """A region; `start` runs its process in `directory`, with a bulk port if `bulk` is set."""

    def __init__(self, name: str, number: int, directory: Path, bulk: bool = False) -> None:
        self.name = name
        self.number = number
        self.port = 0
        self.replication_port = 0
        self.bulk_port = 0
        self._bulk = bulk
        self.data = directory / name
        self._log = directory / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._client: Any = None

    @property
    def process_id(self) -> int:
        return 0 if self._process is None else self._process.pid

    def start(self, port: int, peers: list[str]) -> None:
        """Start the process. Port 0 picks a free port, and a restarted region keeps its ports. The process has its own
        session, so that Ctrl-C reaches only the demo.
        """
        arguments = ["--name", self.name, "--region", str(self.number), "--cluster", CLUSTER, "--data", str(self.data)]
        arguments += ["--port", str(port), "--replication-port", str(self.replication_port), "--incarnation", "0"]
        if self._bulk:
            arguments += ["--bulk-port", str(self.bulk_port)]
        for peer in peers:
            arguments += ["--peer", peer]
        for number in range(1, REGIONS + 1):
            arguments += ["--allow-region", str(number)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "crdtstream", "serve", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def await_serving(self) -> None:
        """Wait until the process has logged its ports, and connect."""
        wait_until(self._is_serving, lambda: f"region {self.name} does not serve{self.log_end()}", START_TIMEOUT_S)
        self._client = redis.Redis(
            port=self.port,
            protocol=2,
            decode_responses=True,
            socket_timeout=REPLY_TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),
            single_connection_client=True,
        )
        # Replies as redis-cli shows them: the client's own conversions differ between its releases.
        self._client.response_callbacks.clear()

    def _is_serving(self) -> bool:
        self.check_alive()
        named = SERVING.search(self._log.read_text(errors="replace"))
        if named is None:
            return False
        self.port, self.replication_port, self.bulk_port = int(named[1]), int(named[2]), int(named[3] or 0)
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

    def kill(self) -> None:
        """End the process at once, as the kernel or a power failure would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def await_end(self) -> None:
        """Wait for the end; kill a process that does not stop."""
        if self._process is None:
            return
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    # Commands

    def run(self, *argv: str) -> Any:
        """Return a command's reply. An error reply is returned as a value; a lost region raises DemoError."""
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
        """The applied vector of the region: origin -> counter."""
        applied = pairs(self.run("CRDT.VECTOR"))["applied"]
        return {origin: int(counter) for origin, counter in pairs(applied).items()}

    def own_counter(self) -> int:
        own = f"{self.number}."
        return sum(counter for origin, counter in self.vector().items() if origin.startswith(own))

    def digest(self, *key: str) -> str:
        return str(self.run("CRDT.DIGEST", *key))

    def is_admitted(self) -> bool:
        """Return whether XGROUP CREATE is answered at once."""
        return "admitted:1" in self.run("INFO", "replication").splitlines()

    def open_links(self) -> int:
        rows = [pairs(row) for row in self.run("CRDT.REGIONS")]
        return sum(row["link"] == "open" for row in rows)


def pairs(flat: Iterable[Any]) -> dict[str, Any]:
    """Convert a RESP2 map: key, value, key, value."""
    items = iter(flat)
    return dict(zip(items, items, strict=True))
