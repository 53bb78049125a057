"""Where a node spends its time while a row measures it: cProfile, or perf for a compiled core.

Only the time inside `attached` counts, so that filling a stream does not hide the cost of reading it.
"""

from __future__ import annotations

import io
import os
import pstats
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LINES_SHOWN = 35
SAMPLES_A_SECOND = 299
SETTLE_S = 0.5  # until perf has opened its counters
PROFILED = Path(__file__).with_name("profiled_server.py")
COMPILED_FUNCTION = "CPyDef_"


class Profile:
    """The profile of one node process, written to `path`."""

    def __init__(self, name: str, compiled: bool) -> None:
        self.native = compiled and shutil.which("perf") is not None
        self.path = Path(f"{name}.perf" if self.native else f"{name}.prof").absolute()

    def command(self, command: list[str]) -> list[str]:
        """Return the command that runs the node profiled; `command` is an interpreter and `-m crdtstream`."""
        return command if self.native else [command[0], str(PROFILED), str(self.path)]

    @contextmanager
    def attached(self, process_id: int) -> Iterator[None]:
        with self._sampled(process_id) if self.native else switched(process_id):
            yield

    @contextmanager
    def _sampled(self, process_id: int) -> Iterator[None]:
        command = ["perf", "record", "-F", str(SAMPLES_A_SECOND), "--call-graph", "dwarf,8192"]
        command += ["-o", str(self.path), "-p", str(process_id)]
        perf = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(SETTLE_S)
        try:
            yield
        finally:
            perf.send_signal(signal.SIGINT)
            perf.wait()

    def report(self) -> str:
        if not self.native:
            text = io.StringIO()
            pstats.Stats(str(self.path), stream=text).sort_stats("tottime").print_stats(LINES_SHOWN)
            return text.getvalue()
        inclusive = [line for line in self._perf_report("--children") if COMPILED_FUNCTION in line]
        lines = [
            "compiled functions, including their callees",
            *inclusive[:LINES_SHOWN],
            "",
            "all functions, excluding their callees",
        ]
        return "\n".join([*lines, *self._perf_report("--no-children")[:LINES_SHOWN]])

    def _perf_report(self, children: str) -> list[str]:
        command = ["perf", "report", "--stdio", children, "-g", "none", "-i", str(self.path)]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        return [line for line in lines if line.strip() and not line.startswith("#")]


@contextmanager
def switched(process_id: int) -> Iterator[None]:
    """Let the process profile itself between two signals."""
    os.kill(process_id, signal.SIGUSR1)
    try:
        yield
    finally:
        os.kill(process_id, signal.SIGUSR2)
