"""Requests from the syntax of each command (connections/syntax.py), and how they are spoilt."""

from __future__ import annotations

from crdtstream.commands.table import COMMANDS
from crdtstream.connections.command import Command
from crdtstream.connections.syntax import Argument
from fuzz.choices import Choices
from fuzz.values import hostile, suiting

REPEATS_MAX = 3
HOSTILE_ONE_IN = 12
EVERY = [one for command in COMMANDS for one in (command, *(command.subcommands or {}).values())]
# Two of three requests are about streams; all others have their turn.
STREAM_COMMANDS = [one for one in EVERY if one.name.startswith("x") and one.arguments]


def tokens_of(arguments: list[Argument]) -> set[bytes]:
    """All tokens of a syntax."""
    found: set[bytes] = set()
    for argument in arguments:
        found |= tokens_of(argument.children) | ({argument.token.encode()} if argument.token else set())
    return found


TOKENS = sorted(set().union(*(tokens_of(command.arguments) for command in EVERY)))


def request(choices: Choices) -> list[bytes]:
    """One request: as its command wants it, with a strange value here and there, or spoilt altogether."""
    argv = Sentence(choices, choices.pick(EVERY if choices.one_in(3) else STREAM_COMMANDS)).argv()
    for _ in range(choices.below(4) if choices.one_in(6) else 0):
        argv = spoilt(choices, argv)
    return argv


class Sentence:
    """One request for a command, as its syntax wants it."""

    def __init__(self, choices: Choices, command: Command) -> None:
        self._choices = choices
        self._command = command

    def argv(self) -> list[bytes]:
        name = [word.encode() for word in self._command.name.split("|")]
        return name + self._sequence(self._command.arguments)

    def _sequence(self, arguments: list[Argument]) -> list[bytes]:
        """Several arguments; those of them that repeat do so equally often, as keys and IDs of XREAD must."""
        repeats = self._choices.below(REPEATS_MAX) + 1 if any(argument.multiple for argument in arguments) else 1
        return [word for argument in arguments for word in self._words(argument, repeats)]

    def _words(self, argument: Argument, repeats: int = 1) -> list[bytes]:
        """The words of one argument, which may be left out or repeated."""
        if argument.optional and self._choices.below(2):
            return []
        token = [argument.token.encode()] if argument.token else []
        count = repeats if argument.multiple else 1
        return token + [word for _ in range(count) for word in self._value(argument)]

    def _value(self, argument: Argument) -> list[bytes]:
        if argument.kind == "oneof":
            return self._words(self._choices.pick(argument.children))
        if argument.kind == "block":
            return self._sequence(argument.children)
        if argument.kind == "pure-token":
            return []
        if self._choices.one_in(HOSTILE_ONE_IN):
            return [hostile(self._choices)]
        return [self._choices.pick(suiting(self._command.name, argument.name, argument.kind))]


def spoilt(choices: Choices, argv: list[bytes]) -> list[bytes]:
    """The request with one mistake; the name may be hit too."""
    at = choices.below(len(argv))
    kind = choices.below(6)
    if kind == 0:
        return argv[:at] + argv[at + 1 :] or argv
    if kind == 1:
        return [*argv[:at], argv[at], *argv[at:]]
    if kind == 2:
        return [*argv[: at + 1], hostile(choices), *argv[at + 1 :]]
    if kind == 3:
        return [*argv[: at + 1], choices.pick(TOKENS), *argv[at + 1 :]]
    if kind == 4:
        return argv[: at + 1]
    return [*argv[:at], argv[at].swapcase(), *argv[at + 1 :]]
