"""The machine on which the figures were measured; they mean nothing without it."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.bench import Node
from benchmarks.load.loads import generator_name


def describe(node: Node, redis_server: Path | None, scale: str, counted: str) -> dict[str, str]:
    cpuinfo = Path("/proc/cpuinfo").read_text()
    core = "compiled" if node.compiled else "interpreted"
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{os.cpu_count()} cores, {processor(cpuinfo)}, Linux {platform.release()}",
        "load": f"{os.getloadavg()[0]:.2f} at the start",
        "crdtstream": f"{node.version}, {core} core, Python {node.python_version}",
        "redis": "none" if redis_server is None else redis_version(redis_server),
        "load generator": generator_name(),
        "scale": scale,
        "instructions": counted,
    }


def processor(cpuinfo: str) -> str:
    found = re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    return found[1] if found else platform.machine()


def redis_version(program: Path) -> str:
    text = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"v=(\S+)", text)
    return found[1] if found else text.strip()
