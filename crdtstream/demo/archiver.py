"""The job that archives to a Delta table, as a process of its own that is killed with all that it has started.

A job that ends by itself is started again, as a service manager would do: Spark waits ten seconds for each worker that
it starts, and on a busy machine one may come later.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from crdtstream.demo.cluster import DemoError
from crdtstream.processes.launching import LOCAL, Running
from crdtstream.processes.waiting import until
from crdtstream.spark.tables.delta import DeltaArchive

INTERVAL_S = 1
COMMIT_S = 300.0
END_S = 400.0
ATTEMPTS = 3


class TableArchiver:
    """`crdtstream spark archive --table delta`, started again and again; `table` is what it writes."""

    def __init__(self, endpoints: str, pattern: str, directory: Path, master: str, log_path: Path) -> None:
        self.table = DeltaArchive(str(directory))
        self._words = ["spark", "archive", str(directory), "--table", "delta", "--endpoints", endpoints]
        self._words += ["--streams-pattern", pattern, "--master", master]
        self._log_path = log_path
        self._process: Running | None = None

    def start(self) -> None:
        self._launch(["--continuous", "--interval-s", str(INTERVAL_S)])

    def _launch(self, more: list[str]) -> None:
        self._process = LOCAL.launch([*self._words, *more], self._log_path)

    def version(self) -> int:
        """The number of the latest commit of the table; -1 while there is none."""
        table = self.table.table()
        return -1 if table is None else table.version()

    def files(self) -> list[str]:
        """The files that count."""
        table = self.table.table()
        return [] if table is None else table.file_uris()

    def await_commit(self) -> None:
        """Wait until it has committed a batch from now on; the first commit of a table makes it, empty."""
        beyond = max(self.version(), 0)
        until(
            lambda: self._has_committed(beyond),
            lambda: f"the archive job commits to the table{self._log_end()}",
            COMMIT_S,
        )

    def _has_committed(self, beyond: int) -> bool:
        if self._process is not None and self._process.poll() is not None:
            self.start()
        return self.version() > beyond

    def kill(self) -> None:
        """Kill driver and JVM at once; the workers end with the JVM."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(END_S)
        self._process = None

    def finish(self) -> None:
        """Archive what is left."""
        for _ in range(ATTEMPTS):
            if not self._run_to_end():
                return
        raise DemoError(f"the archive job failed {ATTEMPTS} times{self._log_end()}")

    def _run_to_end(self) -> int:
        """Return the exit code."""
        self._launch([])
        assert self._process is not None, "it was launched"
        try:
            return self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            raise DemoError(f"the archive job did not end within {END_S:g} s{self._log_end()}") from None
        finally:
            self.kill()

    def _log_end(self) -> str:
        lines = self._log_path.read_text(errors="replace").splitlines()[-20:]
        return "".join(f"\n    {line}" for line in lines)
