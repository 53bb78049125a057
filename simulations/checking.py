"""The base of checkers: one invariant of a run, as a class with a name.

A checker may run after every turn, at every message, before a process stops, after it has started, and at the end, when
every fault is healed and the regions are quiet. It raises Violation with what it saw.
"""

from __future__ import annotations

from simulations.history import Violation
from simulations.network import Network, Watcher

LOOK_EVERY = 32


class Checker(Watcher):
    """One invariant."""

    name = ""

    def at_end(self, world: Network) -> None:
        """The run is over."""

    def fail(self, text: str) -> None:
        raise Violation(self.name, text)


class Sampled(Checker):
    """Checks one region every `LOOK_EVERY` turns, and all regions at the end."""

    def __init__(self) -> None:
        self._turns = 0

    def turned(self, world: Network, number: int) -> None:
        self._turns += 1
        if self._turns % LOOK_EVERY == 0:
            self.look(world, number)

    def at_end(self, world: Network) -> None:
        for number in world.machines:
            self.look(world, number)

    def look(self, world: Network, number: int) -> None:
        """Check one region."""
