"""What a region can do now: whether it serves, and whether there is room on its disk and in its memory.

Commands read it before they run, and replication before it accepts what has to be logged. Each field has one writer:
`loading` replication (replication/membership/life.py), `writable` the node, `memory_short` the context.
"""

from __future__ import annotations


class Standing:
    """`loading`: what clients are told while the region does not serve, empty when it does. `writable`: false while the
    disk is full, so that nothing that needs a record of the log is accepted, from clients or peers. `memory_short`: the
    process uses more memory than its limit.
    """

    __slots__ = ("loading", "memory_short", "writable")

    def __init__(self) -> None:
        self.loading = ""
        self.writable = True
        self.memory_short = False
