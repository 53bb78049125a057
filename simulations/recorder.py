"""The events of a running world: one method for each, all of them empty.

A run that nobody needs to see again has a plain `Recorder`. `simulations.report` draws the events, and
`simulations.story` turns them into a scenario.

Bytes that were sent are the same object when they arrive, so `is` connects both ends of an arrow.
"""

from __future__ import annotations

from simulations.network import Connection, Network
from simulations.reply import Value


class Recorder:
    """Receives all events and keeps nothing."""

    def looked(self, world: Network) -> None:
        """One planned event is over: faults may have begun or ended."""

    def asked(self, world: Network, number: int, argv: list[bytes]) -> None:
        """A client of region `number` has sent a command."""

    def commanded(self, world: Network, number: int, argv: list[bytes], value: Value) -> None:
        """A client of region `number` has received a reply."""

    def sent(self, world: Network, connection: Connection, sender: int, data: bytes) -> None:
        """A message was sent."""

    def arrived(self, world: Network, connection: Connection, receiver: int, data: bytes) -> None:
        """A message is about to be received."""

    def opened(self, world: Network, connection: Connection) -> None:
        """A connection between two regions was opened."""

    def closed(self, world: Network, connection: Connection, end: int, reason: str) -> None:
        """One end of a connection was closed."""

    def stopped(self, world: Network, number: int, fault: str) -> None:
        """A process has ended, with the consequences of the fault."""

    def started(self, world: Network, number: int) -> None:
        """A process has recovered from its disk."""

    def synced(self, world: Network, number: int) -> None:
        """A region is about to sync its log."""

    def saved(self, world: Network, number: int) -> None:
        """A region has completed a checkpoint."""
