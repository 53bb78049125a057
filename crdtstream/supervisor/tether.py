"""What ties the process of a shard to its supervisor: it is told to stop when the supervisor ends, however that ends.

The kernel sends SIGTERM (`PR_SET_PDEATHSIG` of Linux), so a shard whose supervisor was killed takes a checkpoint and
hands over as in any other stop. While it has no handler yet, the signal ends it at once. A supervisor that ended before
the kernel knew of the wish is found by the ID of the parent.

Reference: prctl(2).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Mapping

from crdtstream.settings.config import ConfigError
from crdtstream.settings.table import SHARD_PROCESS, SUPERVISOR

SET_PARENT_DEATH_SIGNAL = 1
ORPHANED = "the supervisor has ended"


def shard_number(variables: Mapping[str, str]) -> int | None:
    """The number of the shard whose process this is; None in any other process. Raises ConfigError."""
    text = variables.get(SHARD_PROCESS, "")
    if not text:
        return None
    if not (text.isdecimal() and text.isascii()):
        raise ConfigError(f"the variable {SHARD_PROCESS} is for a supervisor alone: do not set it")
    return int(text)


def end_with(supervisor: int) -> None:
    """Have this process told to stop once that one has ended; exit if it has ended already."""
    prctl = getattr(ctypes.CDLL(None, use_errno=True), "prctl", None)
    if prctl is not None and prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGTERM, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    if os.getppid() != supervisor:
        sys.exit(ORPHANED)


def tie(variables: Mapping[str, str]) -> None:
    """Tie this process to the supervisor that its variables name, if any."""
    supervisor = variables.get(SUPERVISOR, "")
    if supervisor:
        end_with(int(supervisor))
