"""Where the chance of one world comes from: a source for each part, made of the seed and the name of the part.

What one part draws shifts nothing in another, so a part can be added, or draw more, while all others stay as they were.
A seed names a world only together with the version. A change of what existing seeds draw makes a new version, and the
seeds that tests pin have to be chosen again. A world of version 5 whose regions have one shard is that of version 4;
one of version 4 that does not spill is that of version 3.
"""

from __future__ import annotations

from random import Random

DRAW_VERSION = 5


class Draw:
    """The sources of a world; those of each shard of a region are others, shard 0 has those of a world alone."""

    def __init__(self, seed: int, shard: int = 0) -> None:
        self._named = f"{seed} shard {shard}" if shard else f"{seed}"
        # Times, faults, commands, and what settings there are always.
        self.common = Random(self._named if shard else seed)
        self._parts: dict[str, Random] = {}

    def of(self, part: str) -> Random:
        """Return the source of a part; it goes on where it was left."""
        if part not in self._parts:
            self._parts[part] = Random(f"{part} {self._named}")
        return self._parts[part]


def named(seed: int) -> str:
    """The name of a world in what people read."""
    return f"seed {seed} of draw {DRAW_VERSION}"
