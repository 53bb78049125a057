"""The unit keeps the rules that docs/deployment.md has for services, and systemd accepts it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from crdtstream.settings.config import Limits

FILE = Path(__file__).resolve().parents[2] / "deploy" / "systemd" / "crdtstream.service"
UNIT = FILE.read_text()
# systemd rates from 0, for nothing that an attacker could use, to 10; beyond 2 something of value was left out.
EXPOSURE_MAX = 2.0
needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze of systemd")


def test_a_service_is_killed_only_after_a_region_would_have_stopped() -> None:
    [seconds] = re.findall(r"^TimeoutStopSec=(\d+)$", UNIT, re.MULTILINE)
    assert int(seconds) * 1000 > Limits().stop_checkpoint_ms_max + Limits().stop_handover_ms_max


def test_a_supervisor_alone_is_told_to_stop() -> None:
    """A second SIGTERM makes a region stop at once, without a checkpoint or a handover."""
    assert re.findall(r"^KillMode=(.*)$", UNIT, re.MULTILINE) == ["mixed"]


def analyze(tmp_path: Path, *arguments: str) -> str:
    """What systemd-analyze says of the unit, which starts a program that exists."""
    unit = tmp_path / FILE.name
    unit.write_text(UNIT.replace("/usr/bin/crdtstream", "/bin/true"))
    done = subprocess.run(["systemd-analyze", *arguments, unit], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@needs_systemd
def test_systemd_knows_every_line(tmp_path: Path) -> None:
    assert FILE.name not in analyze(tmp_path, "verify", "--man=no")


@needs_systemd
def test_the_unit_is_hardened(tmp_path: Path) -> None:
    said = analyze(tmp_path, "security", "--offline=true", "--no-pager")
    [exposure] = re.findall(r"Overall exposure level for crdtstream.service: ([\d.]+)", said)
    assert float(exposure) <= EXPOSURE_MAX
