"""What a world tells about itself while it runs: one method for each thing that happens, all of them empty.

A run that nobody wants to see again has a plain `Recorder`. `simulations.report` draws what it hears,
`simulations.story` tells it again.

Bytes that were sent are the same object when they arrive: `is` joins both ends of an arrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulations.reply import Value

if TYPE_CHECKING:
    from simulations.world import Connection, World


class Recorder:
    """Hears everything and keeps nothing."""

    def looked(self, world: World) -> None:
        """One planned event is over: faults may have come or gone."""

    def asked(self, world: World, number: int, argv: list[bytes]) -> None:
        """A client of region `number` has sent a command."""

    def commanded(self, world: World, number: int, argv: list[bytes], value: Value) -> None:
        """A client of region `number` was answered."""

    def sent(self, world: World, connection: Connection, sender: int, data: bytes) -> None:
        """A message left."""

    def arrived(self, world: World, connection: Connection, receiver: int, data: bytes) -> None:
        """A message is about to be received."""

    def opened(self, world: World, connection: Connection) -> None:
        """Two regions are joined by a connection."""

    def closed(self, world: World, connection: Connection, end: int, reason: str) -> None:
        """One end of a connection is gone."""

    def stopped(self, world: World, number: int, fault: str) -> None:
        """A process is gone, and with it what the fault takes along."""

    def started(self, world: World, number: int) -> None:
        """A process has recovered from its disk."""

    def synced(self, world: World, number: int) -> None:
        """A region is about to sync its log."""

    def saved(self, world: World, number: int) -> None:
        """A region has a checkpoint."""
