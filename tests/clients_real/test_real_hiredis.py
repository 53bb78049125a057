"""hiredis, the C library: a program is compiled and plays the scenario; the test cuts in when it says where it is."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from crdtstream.processes.waiting import DEADLINE_S
from tests.clients_real.moving import GROUP, STREAM, Handled, Pair
from tests.clients_real.rows import HIREDIS

PROGRAM = Path(__file__).with_name("hiredis_consumer.c")
COMPILER = shutil.which("gcc")
INCLUDE = Path("/usr/include/hiredis")
pytestmark = [
    pytest.mark.skipif(COMPILER is None, reason="needs gcc"),
    pytest.mark.skipif(not (INCLUDE / "hiredis.h").exists(), reason="needs libhiredis-dev"),
]
WARNINGS = ("-Wall", "-Wextra", "-Werror")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    made = tmp_path / "hiredis_consumer"
    command = [str(COMPILER), *WARNINGS, f"-I{INCLUDE}", "-o", str(made), str(PROGRAM), "-lhiredis"]
    subprocess.run(command, check=True, timeout=DEADLINE_S)
    return made


def test_a_consumer_moves(pair: Pair, program: Path) -> None:
    handled = Handled()
    # What the program waits for when it says this.
    events = {"produced": pair.settle, "in hand": pair.crash}
    command = [str(program), *[str(port) for port in pair.ports]]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        for line in map(str.strip, process.stdout):
            if line.startswith("handled "):
                handled(line.removeprefix("handled "))
            elif line in events:
                events[line]()
                process.stdin.write("go on\n")
                process.stdin.flush()
    assert process.returncode == 0
    handled.check(HIREDIS.repeats)
    assert pair.west.ask("XPENDING", STREAM, GROUP)[0] == 0
    assert pair.unknown <= HIREDIS.unknown
