"""How a process is started. What differs between the demo, a namespace, a benchmark and a container is here.

A `Launcher` starts a program on this machine; another kind of launcher (of containers, for one) returns something else
that is `Running`.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from crdtstream.processes.clients import Inside

BESIDE = Path(__file__).resolve().parents[2]
# An installed package is found from anywhere; a checkout is found from its own directory.
CHECKOUT = BESIDE if (BESIDE / "pyproject.toml").exists() else None


def end_cleanly_at_signals() -> None:
    """Have SIGTERM and SIGINT raise KeyboardInterrupt, so that a program stops what it has started. A job in the
    background of a shell starts with SIGINT ignored.
    """
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, signal.default_int_handler)


class Running(Protocol):
    """What was started, as `subprocess.Popen` shows it."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int:
        """Raises subprocess.TimeoutExpired."""

    def send_signal(self, sig: int, /) -> None: ...


class Launching(Protocol):
    """Starts a process whose output goes to the end of a log; `inside` is where its clients create their sockets."""

    @property
    def inside(self) -> Inside: ...

    def launch(self, arguments: Sequence[str], log_path: Path) -> Running: ...


@dataclass(frozen=True, slots=True)
class Launcher:
    """Starts a program of this machine.

    `before` is a command that ends by becoming the program (`ip netns exec`, `setpriv`, `taskset`), so that the process
    keeps its ID. The process has a session of its own: Ctrl-C reaches only its owner, who then stops it.
    """

    command: tuple[str, ...] = (sys.executable, "-m", "crdtstream")
    before: tuple[str, ...] = ()
    directory: Path | None = CHECKOUT
    environment: Mapping[str, str] | None = None
    inside: Inside = nullcontext

    def launch(self, arguments: Sequence[str], log_path: Path) -> Running:
        with log_path.open("ab") as log:
            return subprocess.Popen(
                [*self.before, *self.command, *arguments],
                cwd=self.directory,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )


LOCAL = Launcher()
