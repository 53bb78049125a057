"""What a region can do now: whether it serves, takes writes, and has room on its disk and in its memory.

Commands read it before they run, and replication before it accepts what has to be logged. Each field has one writer:
`loading` replication (replication/membership/life.py), `departing` replication (replication/draining.py), `writable`
the node, `memory_short` the context, `paused` CLIENT PAUSE (clients/pausing.py).
"""

from __future__ import annotations

from typing import Final

OOM: Final = "OOM command not allowed when used memory > 'maxmemory'."
DISK_FULL: Final = "MISCONF The disk is full: writes are rejected until space on it is freed; reads still work"
# What CLIENT PAUSE stops.
PAUSED_NOTHING: Final = 0
PAUSED_WRITES: Final = 1
PAUSED_ALL: Final = 2


class Standing:
    """`loading`: what clients are told while the region does not serve, empty when it does. `writable`: false while the
    disk is full, so that nothing that needs a record of the log is accepted, from clients or peers. `memory_short`: the
    process uses more memory than its limit. `departing`: what clients that write are told while the region hands over
    what it has, before it stops or leaves the cluster; empty while it takes writes. Reads and batches of peers go on.
    `paused`: which commands of clients wait.
    """

    __slots__ = ("departing", "loading", "memory_short", "paused", "writable")

    def __init__(self) -> None:
        self.loading = ""
        self.departing = ""
        self.writable = True
        self.memory_short = False
        self.paused = PAUSED_NOTHING

    def refusal(self, writes: bool, denies_oom: bool) -> str:
        """Why a command that writes, or needs more memory, is refused now; empty if it is not."""
        if self.memory_short and denies_oom:
            return OOM
        if not self.writable and writes:
            return DISK_FULL
        if self.departing and writes:
            return f"READONLY {self.departing}"
        return ""
