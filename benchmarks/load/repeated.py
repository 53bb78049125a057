"""Large loads of XADDs from several connections: some thousand requests are made once and sent again and again, so that
neither their sender nor its memory limits what a region is filled with. A block has fewer entries than differ.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from benchmarks.load.driver import Step, fields
from benchmarks.load.loads import Exchanges
from benchmarks.load.wire import command

WRITERS = 8
DEPTH = 128
DISTINCT_STEPS = 64
SMALL = "16-byte"


def entry_steps(key: str, count: int, seed: int, shape: str = SMALL) -> list[Step]:
    """Add so many entries to a stream."""
    generator = random.Random(seed)
    few = min(count, DISTINCT_STEPS * DEPTH)
    requests = [command("XADD", key, "*", *fields(shape, generator)) for _ in range(few)]
    passes, rest = divmod(count, len(requests)) if requests else (0, 0)
    return steps_of(requests) * passes + steps_of(requests[:rest])


def stream_steps(names: Sequence[str], seed: int) -> list[Step]:
    """Add one entry to each of these streams."""
    generator = random.Random(seed)
    return steps_of([command("XADD", name, "*", *fields(SMALL, generator)) for name in names])


def steps_of(requests: Sequence[bytes]) -> list[Step]:
    pieces = [requests[begin : begin + DEPTH] for begin in range(0, len(requests), DEPTH)]
    return [(b"".join(piece), 2 * len(piece)) for piece in pieces]


def parted(total: int) -> list[int]:
    """Divide a number among the writers."""
    return [total // WRITERS + (writer < total % WRITERS) for writer in range(WRITERS)]


def entries_in(port: int, keys: Sequence[str], total: int, shape: str = SMALL) -> Exchanges:
    """The load of so many entries, in these streams by turns."""
    scripts = [
        entry_steps(keys[writer % len(keys)], count, writer, shape) for writer, count in enumerate(parted(total))
    ]
    return Exchanges(port, [steps for steps in scripts if steps], total, by_lines=True)
