"""`python -m nemesis.cold`: a region with less memory than entries, killed at random moments; exits with 1 if anything
is wrong.

Each round adds, trims and removes entries, reads ranges at random positions, and kills the process while it writes a
checkpoint or at any other moment. After each start every stream is read from end to end and compared with what was
answered. At the end, bits of the block files are flipped: a reader of such a block gets an error, every other
reader the right entries.

    missing, wrong    entries that were answered and are not there, or have another value
    back              entries that were removed and are there again
    spilled           blocks on the disk only, at the end of a round
    waited            blocks that the region itself waited for in the middle of a command
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import redis
import typer
from rich.console import Console
from rich.table import Table

from crdtstream.processes.launching import end_cleanly_at_signals
from crdtstream.processes.region import RegionProcess, regions_in
from crdtstream.processes.waiting import until

FAILURE = 1
STREAMS = ("a", "b", "c")
VALUE_BYTES = 700
PIPELINE = 100
PAGE = 1_000
READS = 40
# So little that a round spills most of what was there before.
HOT_BYTES_MAX = 1 << 20
# A range of this many entries has several blocks.
RANGE_ENTRIES = 300
# Into so many parts a block file is divided by the bits that are flipped.
PARTS = 8

Entries = dict[bytes, bytes]


@dataclass
class Round:
    """What one round found."""

    number: int
    killed_in: str = ""
    entries: int = 0
    missing: int = 0
    wrong: int = 0
    back: int = 0
    spilled: int = 0
    read: int = 0
    waited: int = 0

    @property
    def is_sound(self) -> bool:
        return not (self.missing or self.wrong or self.back)

    def row(self) -> list[str]:
        numbers = (self.entries, self.missing, self.wrong, self.back, self.spilled, self.read, self.waited)
        return [str(self.number), self.killed_in, *[f"{number:,}" for number in numbers]]


@dataclass
class Model:
    """What clients were answered: the entries of each stream, in order, and the IDs of those that were removed."""

    entries: dict[str, Entries] = field(default_factory=lambda: {name: {} for name in STREAMS})
    removed: dict[str, set[bytes]] = field(default_factory=lambda: {name: set() for name in STREAMS})


class Drill:
    """One region, and what it was asked."""

    def __init__(self, region: RegionProcess, seed: int, entries: int) -> None:
        self.region = region
        self.model = Model()
        self._random = random.Random(seed)
        self._entries = entries

    def start(self) -> None:
        self.region.start(incarnation=0, hot_bytes_max=HOT_BYTES_MAX, open_blocks_bytes_max=HOT_BYTES_MAX // 4)
        self.region.await_serving()

    def run(self, number: int) -> Round:
        """Write, read, kill, start again, and compare."""
        with closing(self.region.connect()) as client:
            for _ in range(self._entries // PIPELINE):
                self._add(client)
            until(self._spills, lambda: f"{self.region} spills blocks{self.region.log_end()}")
            self._remove(client)
            found = Round(number, read=sum(self._read(client) for _ in range(READS)))
            found.spilled, found.waited = self.region.told("spilled_blocks"), self.region.told("cold_reads_waited")
            found.killed_in = self._kill(client)
        self.start()
        with closing(self.region.connect()) as client:
            self._compare(client, found)
        return found

    def _spills(self) -> bool:
        return self.region.told("spilled_blocks") > 0

    def _add(self, client: Any) -> None:
        name = self._random.choice(STREAMS)
        values = [self._random.randbytes(VALUE_BYTES) for _ in range(PIPELINE)]
        pipeline = client.pipeline(transaction=False)
        for value in values:
            pipeline.xadd(name, {"f": value})
        self.model.entries[name].update(zip(pipeline.execute(), values, strict=True))

    def _remove(self, client: Any) -> None:
        """Trim one stream, and remove some entries of another one wherever they lie."""
        name, other = self._random.sample(STREAMS, 2)
        kept = self.model.entries[name]
        if len(kept) > PAGE:
            count = self._random.randrange(len(kept) // 2)
            client.xtrim(name, maxlen=len(kept) - count, approximate=False)
            self._forget(name, list(kept)[:count])
        held = list(self.model.entries[other])
        some = self._random.sample(held, min(len(held), PIPELINE))
        if some:
            client.xdel(other, *some)
            self._forget(other, some)

    def _forget(self, name: str, ids: list[bytes]) -> None:
        for entry_id in ids:
            del self.model.entries[name][entry_id]
        self.model.removed[name].update(ids)

    def _read(self, client: Any) -> int:
        """Read a range at a random position; returns how many entries it had."""
        name = self._random.choice(STREAMS)
        ids = list(self.model.entries[name])
        if not ids:
            return 0
        at = self._random.randrange(len(ids))
        found = client.xrange(name, ids[at], count=RANGE_ENTRIES)
        wanted = ids[at : at + RANGE_ENTRIES]
        assert [entry_id for entry_id, _ in found] == wanted, f"{name} from {ids[at]!r} on has other entries"
        return len(found)

    def _kill(self, client: Any) -> str:
        """Kill the region, half of the times while it writes a checkpoint."""
        if self._random.random() < 0.5:
            self.region.kill()
            return "rest"
        client.bgsave()
        time.sleep(self._random.uniform(0, 0.4))
        self.region.kill()
        return "checkpoint"

    def _compare(self, client: Any, found: Round) -> None:
        """Count what is not as it was answered."""
        for name, entries in self.model.entries.items():
            there = dict(all_of(client, name))
            found.entries += len(there)
            found.missing += len(entries.keys() - there.keys())
            found.back += len(there.keys() & self.model.removed[name])
            found.wrong += sum(there[entry_id] != value for entry_id, value in entries.items() if entry_id in there)

    def read_damaged(self) -> tuple[int, int]:
        """Flip some bits of each block file while the region runs, and read all; returns how many pages were refused,
        and how many entries were wrong.
        """
        for path in self.region.data.glob("blocks-*"):
            flip_bits(path)
        refused = wrong = 0
        with closing(self.region.connect()) as client:
            for name, entries in self.model.entries.items():
                ids = list(entries)
                for at in range(0, len(ids), RANGE_ENTRIES):
                    end = ids[min(at + RANGE_ENTRIES, len(ids)) - 1]
                    try:
                        page = client.xrange(name, ids[at], end)
                    except redis.ResponseError:
                        refused += 1
                    else:
                        wrong += sum(entries[entry_id] != fields[1] for entry_id, fields in page)
        return refused, wrong


def all_of(client: Any, name: str) -> Iterator[tuple[bytes, bytes]]:
    """The IDs and values of a stream."""
    start: bytes = b"-"
    while page := client.xrange(name, start, count=PAGE):
        for entry_id, fields in page:
            yield entry_id, fields[1]
        start = b"(" + page[-1][0]


def flip_bits(path: Path) -> None:
    """Flip one bit in the middle of each part of the file."""
    step = path.stat().st_size // (PARTS + 1)
    with path.open("r+b") as file:
        for offset in range(step, PARTS * step + 1, step):
            file.seek(offset)
            byte = file.read(1)[0]
            file.seek(offset)
            file.write(bytes([byte ^ 1]))


def drilled(directory: Path, rounds: int, entries: int, seed: int) -> Iterator[Round | tuple[int, int]]:
    """What each round found, and at last the pages that were refused and the entries that were wrong."""
    with regions_in(directory) as owned:
        (region,) = owned.make(1)
        drill = Drill(region, seed, entries)
        drill.start()
        for number in range(1, rounds + 1):
            yield drill.run(number)
        yield drill.read_damaged()


def main(
    rounds: Annotated[int, typer.Option(min=1, help="How many times the region is killed.")] = 20,
    entries: Annotated[int, typer.Option(min=PIPELINE, help="Entries that each round adds.")] = 20_000,
    seed: Annotated[int, typer.Option(help="Of what is written, removed and read, and when it is killed.")] = 1,
) -> None:
    """Kill a region that has most of its entries on the disk only."""
    table = Table("round", "killed in", "entries", "missing", "wrong", "back", "spilled", "read", "waited")
    sound = True
    with TemporaryDirectory(prefix="cold-") as directory:
        for found in drilled(Path(directory), rounds, entries, seed):
            if isinstance(found, Round):
                sound = sound and found.is_sound
                table.add_row(*found.row())
            else:
                refused, wrong = found
                sound = sound and refused > 0 and wrong == 0
    Console().print(table, f"flipped bits: {refused} pages refused, {wrong} entries wrong")
    if not sound:
        raise typer.Exit(FAILURE)


if __name__ == "__main__":
    end_cleanly_at_signals()
    typer.run(main)
