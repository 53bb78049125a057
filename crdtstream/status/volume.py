"""The volume of the data directory, as the runtime has measured it last."""

from __future__ import annotations


class Volume:
    """`free_bytes`: what the process may still allocate. `needed_bytes`: how much has to be free for writes to go on, 0
    while they do. `reserve_bytes`: what the reserve holds. `log_bytes`: what the log takes.
    """

    __slots__ = ("free_bytes", "log_bytes", "needed_bytes", "reserve_bytes")

    def __init__(self) -> None:
        self.free_bytes = 0
        self.needed_bytes = 0
        self.reserve_bytes = 0
        self.log_bytes = 0
