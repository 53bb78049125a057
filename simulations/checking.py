"""The base of checkers: one invariant of a run, as a class with a name.

A checker may run after every turn, at every message, before a process stops, after it has started, and at the end, when
every fault is healed and the regions are quiet. It raises Violation with what it saw.
"""

from __future__ import annotations

from crdtstream.replication.wire_pb2 import Message
from simulations.history import Violation
from simulations.network import Connection, Network

LOOK_EVERY = 32


class Checker:
    """One invariant."""

    name = ""

    def turned(self, world: Network, number: int) -> None:
        """A region has finished a turn."""

    def sent(self, world: Network, connection: Connection, sender: int, message: Message) -> None:
        """A message is being sent."""

    def received(self, world: Network, connection: Connection, receiver: int, message: Message) -> None:
        """A message is about to be handled."""

    def stopping(self, world: Network, number: int, fault: str) -> None:
        """A process is about to end."""

    def started(self, world: Network, number: int, fault: str) -> None:
        """A process has recovered from its disk; `fault` is what had ended it."""

    def ticked(self, world: Network, number: int) -> None:
        """A region has handled a tick."""

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
