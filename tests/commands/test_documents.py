"""That what is told of arguments fits the table."""

from __future__ import annotations

import pytest

from crdtstream.clients.command import Command
from crdtstream.commands.documents import ARGUMENTS_BY_NAME
from crdtstream.commands.syntax import Argument
from tests.commands.harness import every_command

# They take less or more than what is told: DEBUG HELP, for one, and all that CLIENT KILL takes reads as optional.
LENIENT = {"client|kill", "command|getkeys", "debug", "quit", "reset"}


def test_no_arguments_of_unknown_commands() -> None:
    assert set(ARGUMENTS_BY_NAME) <= {command.name for command in every_command()}


@pytest.mark.parametrize("command", [one for one in every_command() if one.function], ids=lambda one: one.name)
def test_arguments_fit_the_arity(command: Command) -> None:
    own_words = 1 + command.name.count("|")
    arguments = ARGUMENTS_BY_NAME.get(command.name, [])
    if command.name in LENIENT or command.subcommands:
        return
    assert own_words + sum(map(least_words, arguments)) == abs(command.arity)
    assert (command.arity < 0) == any(map(varies, arguments))


def least_words(argument: Argument) -> int:
    """How many words it takes when everything is left out that may be."""
    if argument.optional:
        return 0
    token = 1 if argument.token and argument.kind != "pure-token" else 0
    if argument.kind == "block":
        return token + sum(map(least_words, argument.children))
    if argument.kind == "oneof":
        return token + min(map(least_words, argument.children))
    return token + 1


def varies(argument: Argument) -> bool:
    return argument.optional or argument.multiple or any(map(varies, argument.children))
