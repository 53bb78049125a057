"""A process that is tied to another one ends with it, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from crdtstream.processes.waiting import until
from crdtstream.settings.config import ConfigError
from crdtstream.settings.table import SHARD_PROCESS, SUPERVISOR
from crdtstream.supervisor.tether import shard_number, tie

CHILD = (
    "import os, signal, sys, time; from crdtstream.supervisor.tether import tie;"
    " signal.signal(signal.SIGTERM, lambda *_: (open(sys.argv[1], 'w').close(), os._exit(0)));"
    " tie(os.environ); print(os.getpid(), flush=True); time.sleep(600)"
)
PARENT = (
    "import os, subprocess, sys, time;"
    f" os.environ[{SUPERVISOR!r}] = str(os.getpid());"
    f" subprocess.Popen([sys.executable, '-c', {CHILD!r}, sys.argv[1]], start_new_session=True); time.sleep(600)"
)


def test_a_child_is_asked_to_stop_when_its_supervisor_is_killed(tmp_path: Path) -> None:
    told = tmp_path / "told"
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(told)], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    os.kill(child, 0)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    until(told.exists, "the child was told")
    until(lambda: not Path(f"/proc/{child}").exists(), "the child has ended")


def test_a_child_whose_supervisor_has_ended_already_does_not_begin() -> None:
    program = "import os; from crdtstream.supervisor.tether import tie; tie(os.environ); print('begun')"
    environment = {**os.environ, SUPERVISOR: "1"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (1, "", "the supervisor has ended")


def test_other_processes_are_tied_to_nothing() -> None:
    tie({})
    assert shard_number({}) is None
    assert shard_number({SHARD_PROCESS: "7"}) == 7
    with pytest.raises(ConfigError, match="is for a supervisor alone: do not set it"):
        shard_number({SHARD_PROCESS: "-1"})
