"""What is told of arguments, and that it fits the arity and the keys of each row."""

from __future__ import annotations

import pytest

from crdtstream.commands.documents import argument_rows
from crdtstream.connections.command import Command
from crdtstream.connections.syntax import NO_KEY, Argument, arguments_of
from crdtstream.scenarios.reply import read_reply
from tests.commands.harness import every_command

# They take less or more than what is told: DEBUG HELP, for one, and all that CLIENT KILL takes reads as optional.
LENIENT = {"client|kill", "cluster|setslot", "cluster|slot-stats", "command|getkeys", "debug", "quit", "reset"}


@pytest.mark.parametrize("command", [one for one in every_command() if one.function], ids=lambda one: one.name)
def test_arguments_fit_the_arity(command: Command) -> None:
    own_words = 1 + command.name.count("|")
    if command.name in LENIENT or command.subcommands:
        return
    assert own_words + sum(map(least_words, command.arguments)) == abs(command.arity)
    assert (command.arity < 0) == any(map(varies, command.arguments))


@pytest.mark.parametrize("command", every_command(), ids=lambda one: one.name)
def test_keys_are_those_of_the_syntax(command: Command) -> None:
    indexes = sorted({index for argument in command.arguments for index in key_indexes(argument)})
    assert indexes == [index for index, flags in enumerate(command.keys.flags) if flags != ["not_key"]]


def key_indexes(argument: Argument) -> list[int]:
    inner = [index for child in argument.children for index in key_indexes(child)]
    return inner if argument.key_index == NO_KEY else [argument.key_index]


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


def test_fields_are_told_when_they_say_something() -> None:
    reply = read_reply(argument_rows(arguments_of("[TRIM trim:(key A@7.0.0!8.0.0)]..."), 2))
    key = ["name", "key", "type", "key", "display_text", "key", "key_spec_index", 0]
    token = ["name", "a", "type", "pure-token", "display_text", "a", "token", "A", "since", "7.0.0"]
    assert reply == [
        [
            *("name", "trim", "type", "block", "token", "TRIM", "flags", ["optional", "multiple"]),
            *("arguments", [key, [*token, "deprecated_since", "8.0.0"]]),
        ]
    ]
    assert b"~2\r\n+optional\r\n+multiple\r\n" in argument_rows(arguments_of("[a...]"), 3)
