"""A process sees the time of day plus an offset, which changes while it runs; other clocks are right."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from nemesis.skew import Clocks, reason_for_no_skew

ASKED = "import sys, time\nfor _ in sys.stdin: print(time.time(), time.monotonic(), flush=True)"


@pytest.mark.skipif(bool(reason_for_no_skew()), reason=f"no clock can be set: {reason_for_no_skew() or 'it can'}")
def test_a_clock_jumps_while_its_process_runs(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ASKED]
    with closing(Clocks(tmp_path, (1, 2))) as clocks:
        process = subprocess.Popen(
            command, env=clocks.environment(2), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdin is not None and process.stdout is not None
        for offset_ms in (0, 60_000, -60_000):
            clocks.set(1, 5)
            clocks.set(2, offset_ms)
            process.stdin.write("?\n")
            process.stdin.flush()
            shown, steady = map(float, process.stdout.readline().split())
            assert abs(shown - time.time() - offset_ms / 1_000) < 30
            assert abs(steady - time.monotonic()) < 30
        process.communicate("")
