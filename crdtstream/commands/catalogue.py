"""All commands by name, for commands that are in the table themselves: table.py, which imports them, fills it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from crdtstream.connections.command import Command


class Catalogue:
    """The commands in the order of the table; found by names in upper case."""

    __slots__ = ("_by_name",)

    def __init__(self) -> None:
        self._by_name: dict[bytes, Command] = {}

    def fill(self, commands: list[Command]) -> None:
        self._by_name = {command.name.upper().encode(): command for command in commands}

    def named(self, name: bytes) -> Command | None:
        """The command with a full name such as `xadd` or `xgroup|create`."""
        parent, bar, child = name.upper().partition(b"|")
        command = self._by_name.get(parent)
        if command is None or not bar:
            return command
        return (command.subcommands or {}).get(child)

    def of_request(self, request: list[bytes]) -> Command | None:
        """The command or subcommand that a request names."""
        command = self._by_name.get(request[0].upper())
        if command is None or command.subcommands is None or len(request) == 1:
            return command
        return command.subcommands.get(request[1].upper())

    def __iter__(self) -> Iterator[Command]:
        """Each command, followed by its subcommands."""
        for command in self._by_name.values():
            yield command
            yield from (command.subcommands or {}).values()


CATALOGUE: Final = Catalogue()
