"""The lines about room on a disk that are broken on purpose, as those of `broken_lines.py`."""

from __future__ import annotations

from simulations.broken_lines import Mutation

FULL_DISKS = (
    Mutation(
        "a full disk makes no checkpoint due",
        "storage/disk_room.py",
        "            return self._checkpointer.is_owed()\n",
        "            return False\n",
        "full disk",
        focus={"small_volumes": True, "checkpoint_interval_ms": 0},
    ),
)
