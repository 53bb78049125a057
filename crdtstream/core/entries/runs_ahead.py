"""Runs of blocks that are visited once and in order, as by a DUMP, while blocks may be spilled."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Final

from crdtstream.core.entries.block import Block, demand_blocks
from crdtstream.core.entries.merging import BlockRange

# So many runs of spilled blocks are read together.
RUNS_READ: Final = 8


class RunsAhead:
    """Runs of blocks in order, of which some are viewed before they are asked for, because `next` must not fail. Each
    block is read once, and none is opened that others have open.
    """

    def __init__(self, runs: list[BlockRange]) -> None:
        self._runs = deque(runs)
        self._ahead: deque[tuple[Block, int, int]] = deque()
        # The reader of one entry may pass over one of each other origin, with the same ID.
        self._runs_ahead = len({run.origin for run in runs}) + 1
        # The block of each origin that was viewed last, and its view.
        self._viewed: dict[int, tuple[Block, Block]] = {}

    def look_ahead(self) -> None:
        """Have some runs ready, if there are any; raises NotAtOnce with the next few blocks that are not in memory."""
        while self._runs and len(self._ahead) < self._runs_ahead:
            run = self._runs[0]
            self._ahead.append((self._view(run), run.low, run.high))
            self._runs.popleft()

    def _view(self, run: BlockRange) -> Block:
        known = self._viewed.get(run.origin)
        if known is not None and known[0] is run.block:
            return known[1]
        if run.block.is_spilled():
            demand_blocks([one.block for one in islice(self._runs, RUNS_READ)])
        view = run.block.viewed()
        self._viewed[run.origin] = (run.block, view)
        return view

    def next(self) -> tuple[Block, int, int] | None:
        return self._ahead.popleft() if self._ahead else None
