"""Inputs drawn from a seed: mutations of what a target gives, and random bytes. The same seed gives the same inputs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from hashlib import sha1
from itertools import count
from pathlib import Path
from random import Random

from fuzz import commanding, parsing
from fuzz.target import Target

RANDOM_BYTES_MAX = 1500
MUTATIONS_MAX = 6
PIECE_BYTES_MAX = 12
WORDS = (b"\r\n", b"\0", b"$", b"*", b"-1", b'"', b"9" * 20)


TARGETS = {target.name: target for target in (parsing.TARGET, commanding.TARGET)}


class Failed(Exception):
    """An input for which a property does not hold; the cause is what the target raised."""

    def __init__(self, target: str, number: int, data: bytes) -> None:
        super().__init__(f"{target}: input {number} of {len(data)} bytes")
        self.target = target
        self.data = data

    def store(self, directory: Path) -> Path:
        """Write the input to a file that is named by it."""
        place = directory / f"fuzz-{self.target}-{sha1(self.data).hexdigest()[:12]}"
        place.write_bytes(self.data)
        return place


def search(target: Target, seed: int, seconds: float = 0.0, runs: int = 0) -> int:
    """Try inputs until the time or the number is used up; returns how many it were."""
    end = time.monotonic() + seconds
    for number, data in enumerate(inputs(target, seed)):
        if (number == runs) if runs else (time.monotonic() > end):
            return number
        try:
            target.run(data)
        except Exception as fault:
            raise Failed(target.name, number, data) from fault
    raise AssertionError("inputs never end")


def inputs(target: Target, seed: int) -> Iterator[bytes]:
    yield from target.seeds
    random = Random(seed)
    for _ in count():
        if random.random() < 0.5:
            yield random.randbytes(random.randrange(RANDOM_BYTES_MAX))
        else:
            yield mutated(random, random.choice(target.seeds))


def mutated(random: Random, data: bytes) -> bytes:
    """The bytes with some pieces flipped, added, left out or repeated, or with another end."""
    for _ in range(random.randint(1, MUTATIONS_MAX)):
        at = random.randrange(len(data) + 1)
        to = at + random.randint(0, PIECE_BYTES_MAX)
        piece = bytes(byte ^ 1 << random.randrange(8) for byte in data[at:to])
        added = random.choice((piece, random.randbytes(to - at), b"", data[at:to] * 2, random.choice(WORDS)))
        data = data[:at] + added + (data[to:] if random.random() < 0.9 else b"")
    return data
