"""A short run on real processes; `python -m nemesis` is the long one."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest

from crdtstream.processes.waiting import until
from nemesis.checker import LOST
from nemesis.cluster import PACKETS, RELAYS, ROOT
from nemesis.network import PREFIX, run
from nemesis.run import rounds
from tests.nemesis.needs import namespaces


@pytest.mark.parametrize("kind", [pytest.param(PACKETS, marks=namespaces), RELAYS])
def test_faults_lose_nothing(kind: str, tmp_path: Path) -> None:
    faults = ["killed", "region cut off"] if kind == PACKETS else ["link cut", "stopped", "cut off and disk lost"]
    # Any seed does: it draws the order of the faults and where they strike.
    running = rounds("everysec", faults, 120, 2, seed=1, keep=tmp_path, kind=kind)
    with closing(running):
        rows = list(islice(running, len(faults)))
    assert {row.fault for row in rows} == set(faults)
    for row in rows:
        assert row.is_sound, f"{row.fault}: {row.problems} {[*map(str, row.anomalies)]}"
        assert row.written and row.operations > row.written
        assert bool(row.perished) == (row.fault == "cut off and disk lost")
    assert not list(tmp_path.iterdir())


# A start forgets the last records, however sound they are, and asks no witness; all of them lie in one large segment.
FORGETFUL = (
    (
        "storage/recovery.py",
        "in scan(self._window(segment), segment.end, self.last + 1, self.salt):",
        "in list(scan(self._window(segment), segment.end, self.last + 1, self.salt))[:-24]:",
    ),
    ("storage/recovery.py", "        self._refuse_with_witness(damage, names)\n", ""),
    (
        "runtime/opening.py",
        "salt=salt, segment_bytes_max=segment_bytes_max)",
        "salt=salt, segment_bytes_max=8 << 20)",
    ),
)


@pytest.mark.interpreted
def test_what_a_restart_forgets_is_named(tmp_path: Path) -> None:
    """The region was alone when it acknowledged that, so no peer gives it back."""
    source = tmp_path / "source"
    shutil.copytree(ROOT / "crdtstream", source / "crdtstream", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for file, line, broken in FORGETFUL:
        path = source / "crdtstream" / file
        text = path.read_text(encoding="utf-8")
        assert text.count(line) == 1, "the code has moved on: break what it is now"
        path.write_text(text.replace(line, broken), encoding="utf-8")
    # Any seed does: it draws which region is killed.
    [row] = rounds("always", ["cut off and killed"], 0, 1, seed=1, keep=tmp_path / "kept", kind=RELAYS, source=source)
    assert row.agree and not row.problems, row.problems
    found = [each for each in row.anomalies if each.kind == LOST]
    assert found and all(each.why == "nothing removed it" for each in found)
    assert not row.is_sound and (tmp_path / "kept" / "always-1" / "history.jsonl").exists()


@namespaces
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_run_leaves_nothing(number: signal.Signals, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "nemesis", "--faults", "stopped", "--fsync", "everysec"],
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    mark = f"{PREFIX}-{process.pid}-"
    try:
        until(lambda: len(regions_of(mark)) == 3, "three regions run")
        process.send_signal(number)
        said = process.communicate(timeout=120)[0].decode()
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 1, said
    assert "interrupted" in said and "Traceback" not in said
    until(lambda: not regions_of(mark), "a region that was just being started ends with its maker")
    assert mark not in run("ip", "netns", "list")
    assert mark not in Path("/proc/mounts").read_text()
    assert not list(tmp_path.iterdir())


def regions_of(mark: str) -> list[str]:
    """The processes that serve in this run's directory."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"serve" in words and any(mark.encode() in word for word in words):
            found.append(path.parent.name)
    return found
