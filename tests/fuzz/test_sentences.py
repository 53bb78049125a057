"""Requests from syntaxes: all commands come, and unspoilt ones mostly have an arity that is accepted."""

from __future__ import annotations

from random import Random

from fuzz.choices import Choices
from fuzz.sentences import EVERY, TOKENS, Sentence, request
from fuzz.values import hostile

RANDOM = Random(1)


def choices() -> Choices:
    return Choices(RANDOM.randbytes(400))


def test_every_command_comes() -> None:
    found = {b" ".join(request(choices())[:2]).upper() for _ in range(20_000)}
    first = {words.split(b" ")[0] for words in found}
    for command in EVERY:
        name = command.name.upper().encode().replace(b"|", b" ")
        assert name in (found if b" " in name else first)


def test_a_request_has_what_its_command_needs() -> None:
    for command in EVERY:
        if command.function is not None:
            lengths = [len(Sentence(choices(), command).argv()) for _ in range(20)]
            # COMMAND GETKEYS wants one of the arguments that its syntax, as in Redis, calls optional.
            assert any(map(command.accepts, lengths)), command.name


def test_tokens_and_strange_values() -> None:
    assert {b"STREAMS", b"MAXLEN", b"~", b"NOACK"} <= set(TOKENS)
    assert len({hostile(choices()) for _ in range(1000)}) > 300
