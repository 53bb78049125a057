"""What is searched: a function of bytes that raises when a property does not hold, and inputs to begin with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    name: str
    run: Callable[[bytes], object]
    seeds: list[bytes]
