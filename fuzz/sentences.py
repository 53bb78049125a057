"""Requests from the syntax of each command (connections/syntax.py), and how they are spoilt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from crdtstream.commands.table import COMMANDS
from crdtstream.connections.command import Command
from crdtstream.connections.syntax import Argument
from fuzz.values import HOSTILE, suiting

REPEATS_MAX = 3
HOSTILE_ONE_IN = 12
EVERY = [one for command in COMMANDS for one in (command, *(command.subcommands or {}).values())]
STREAM_COMMANDS = [one for one in EVERY if one.name.startswith("x") and one.arguments]

Draw = Callable[[st.SearchStrategy[Any]], Any]


def tokens_of(arguments: list[Argument]) -> set[bytes]:
    """All tokens of a syntax."""
    found: set[bytes] = set()
    for argument in arguments:
        found |= tokens_of(argument.children) | ({argument.token.encode()} if argument.token else set())
    return found


TOKENS = sorted(set().union(*(tokens_of(command.arguments) for command in EVERY)))
ADDED = st.one_of(HOSTILE, st.sampled_from(TOKENS))


class Sentence:
    """One request for a command, as its syntax wants it, with a strange value here and there."""

    def __init__(self, draw: Draw, command: Command) -> None:
        self._draw = draw
        self._command = command

    def argv(self) -> list[bytes]:
        name = [word.encode() for word in self._command.name.split("|")]
        return name + self._sequence(self._command.arguments)

    def _sequence(self, arguments: list[Argument]) -> list[bytes]:
        """Several arguments; those of them that repeat do so equally often, as keys and IDs of XREAD must."""
        repeated = any(argument.multiple for argument in arguments)
        repeats = self._draw(st.integers(1, REPEATS_MAX)) if repeated else 1
        return [word for argument in arguments for word in self._words(argument, repeats)]

    def _words(self, argument: Argument, repeats: int = 1) -> list[bytes]:
        """The words of one argument, which may be left out or repeated."""
        if argument.optional and self._draw(st.booleans()):
            return []
        token = [argument.token.encode()] if argument.token else []
        count = repeats if argument.multiple else 1
        return token + [word for _ in range(count) for word in self._value(argument)]

    def _value(self, argument: Argument) -> list[bytes]:
        if argument.kind == "oneof":
            return self._words(self._draw(st.sampled_from(argument.children)))
        if argument.kind == "block":
            return self._sequence(argument.children)
        if argument.kind == "pure-token":
            return []
        usual = suiting(self._command.name, argument.name, argument.kind)
        strange = self._draw(st.integers(1, HOSTILE_ONE_IN)) == HOSTILE_ONE_IN
        return [self._draw(HOSTILE if strange else st.sampled_from(usual))]


@st.composite
def requests(draw: Draw, commands: list[Command]) -> list[bytes]:
    """One request as its command wants it."""
    return Sentence(draw, draw(st.sampled_from(commands))).argv()


@st.composite
def spoilt(draw: Draw, commands: list[Command]) -> list[bytes]:
    """A request with one mistake or a few; the name may be hit too."""
    argv: list[bytes] = draw(requests(commands))
    for _ in range(draw(st.integers(1, 3))):
        argv = mistaken(draw, argv)
    return argv


def mistaken(draw: Draw, argv: list[bytes]) -> list[bytes]:
    """The request with a word left out, doubled, added or in the other case, or with an early end."""
    at = draw(st.integers(0, len(argv) - 1))
    kind = draw(st.integers(0, 4))
    if kind == 0:
        return argv[:at] + argv[at + 1 :] or argv
    if kind == 1:
        return [*argv[:at], argv[at], *argv[at:]]
    if kind == 2:
        return [*argv[: at + 1], draw(ADDED), *argv[at + 1 :]]
    if kind == 3:
        return argv[: at + 1]
    return [*argv[:at], argv[at].swapcase(), *argv[at + 1 :]]
