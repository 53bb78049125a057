"""What a region can do now: whether it serves, takes writes, and has room on its disk and in its memory.

Commands read it before they run, and replication before it accepts what has to be logged. Each field has one writer:
`loading` replication (replication/membership/lifecycle.py), `departing` replication (replication/exchange/draining.py),
`writable` the node, `memory_short` the context, `paused` CLIENT PAUSE (connections/pausing.py), `volume` the runtime.

What frees room goes on while the disk is full, as far as its reserve still takes it: removals of data within
`removal_bytes`, changes of members within `member_bytes`. The node sets both with `writable`, each turn, and commands
take their parts.
"""

from __future__ import annotations

from typing import Final

from crdtstream.status.volume import Volume

OOM: Final = "OOM command not allowed when used memory > 'maxmemory'."
DISK_FULL: Final = (
    "MISCONF The disk is full: writes are rejected until space on it is freed; reads still work, and so do DEL, XTRIM,"
    " SAVE and CRDT.EVICT; see INFO persistence"
)
# What one tick may write of removals, or of members, while the disk is full.
TICK_BYTES: Final = 1 << 16
# What CLIENT PAUSE stops.
PAUSED_NOTHING: Final = 0
PAUSED_WRITES: Final = 1
PAUSED_ALL: Final = 2
# What a region may lack room in.
DISK: Final = "disk"
MEMORY: Final = "memory"


class Standing:
    """`loading`: what clients are told while the region does not serve, empty when it does. `writable`: false while the
    disk is full, so that nothing that brings data is accepted: commands are refused, batches of peers wait.
    `memory_short`: the process uses more memory than its limit. `departing`: what clients that write are told while the
    region hands over what it has, before it stops or leaves the cluster; empty while it takes writes. Reads and batches
    of peers go on. `paused`: which commands of clients wait.
    """

    __slots__ = (
        "departing",
        "loading",
        "member_bytes",
        "memory_short",
        "paused",
        "removal_bytes",
        "volume",
        "writable",
    )

    def __init__(self) -> None:
        self.loading = ""
        self.departing = ""
        self.writable = True
        self.memory_short = False
        self.paused = PAUSED_NOTHING
        self.removal_bytes = 0
        self.member_bytes = 0
        self.volume = Volume()

    def refusal(self, writes: bool, denies_oom: bool, reserved: bool = False) -> str:
        """Why a command that writes, or needs more memory, is refused now; empty if it is not. `reserved`: it frees
        room, and takes what it writes from the reserve of a full disk (commands/reserve.py).
        """
        if self.memory_short and denies_oom:
            return OOM
        if writes and not (self.writable or reserved):
            return DISK_FULL
        if self.departing and writes:
            return f"READONLY {self.departing}"
        return ""

    @property
    def lacking(self) -> str:
        """What there is no room in for more data; empty if there is room."""
        if not self.writable:
            return DISK
        return MEMORY if self.memory_short else ""

    def may_remove(self) -> bool:
        """True if a tick may remove data."""
        return self.writable or self.removal_bytes >= TICK_BYTES

    def may_change_members(self) -> bool:
        """True if a tick may change members."""
        return self.writable or self.member_bytes >= TICK_BYTES

    def spend_removal(self, byte_count: int) -> bool:
        """Take room for a command's records of this size that remove data; false if there is not so much."""
        return self.writable or self._spend(self.removal_bytes, byte_count)

    def spend_members(self, byte_count: int) -> bool:
        """The same for records that change members."""
        return self.writable or self._spend(self.member_bytes, byte_count)

    def _spend(self, room_bytes: int, byte_count: int) -> bool:
        if byte_count > room_bytes:
            return False
        self.removal_bytes = max(0, self.removal_bytes - byte_count)
        self.member_bytes = max(0, self.member_bytes - byte_count)
        return True
