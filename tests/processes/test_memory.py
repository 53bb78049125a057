"""The memory of a process is what the kernel says, and nothing once it has ended."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from crdtstream.processes.memory import ANONYMOUS, RESIDENT, RESIDENT_PEAK, PeakMemory, status_bytes

MIB = 1 << 20


@pytest.mark.parametrize("field", [ANONYMOUS, RESIDENT])
def test_a_size_is_that_of_the_kernel(field: str) -> None:
    before = status_bytes(os.getpid(), field)
    kept = b"x" * (256 * MIB)
    grown = status_bytes(os.getpid(), field) - before
    assert grown > 100 * MIB and len(kept)
    assert status_bytes(os.getpid(), RESIDENT_PEAK) >= status_bytes(os.getpid(), field)


def test_a_process_that_has_ended_has_no_memory() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert status_bytes(ended.pid, ANONYMOUS) == 0


def test_the_peak_is_of_what_was_freed_again() -> None:
    program = "kept = b'x' * (200 << 20); del kept; print('done', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        with PeakMemory(process.pid) as memory:
            assert process.stdout.readline() == b"done\n"
        process.stdin.write(b"\n")
    assert memory.peak_bytes > 100 * MIB
