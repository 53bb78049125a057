"""Requests from syntaxes: all commands come, and unspoilt ones mostly have an arity that is accepted."""

from __future__ import annotations

from typing import Any

from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from fuzz.sentences import EVERY, TOKENS, mistaken, requests
from fuzz.values import EDGES, HOSTILE, ODD


def test_a_request_has_what_its_command_needs() -> None:
    accepted: set[str] = set()

    @given(st.data())
    @settings(max_examples=12, derandomize=True)
    def draw_all(data: st.DataObject) -> None:
        for command in EVERY:
            argv = data.draw(requests([command]))
            assert b" ".join(argv).startswith(command.name.encode().replace(b"|", b" "))
            if command.accepts(len(argv)):
                accepted.add(command.name)

    draw_all()
    # COMMAND GETKEYS wants one of the arguments that its syntax, as in Redis, calls optional.
    assert accepted >= {command.name for command in EVERY if command.function is not None}


def is_drawn(strategy: st.SearchStrategy[Any], wanted: object) -> bool:
    unshrunk = settings(max_examples=5_000, phases=[Phase.generate], derandomize=True, database=None)
    found: object = find(strategy, lambda drawn: bool(drawn == wanted), settings=unshrunk)
    return found == wanted


def test_a_request_is_spoilt_in_many_ways() -> None:
    whole = [b"xlen", b"s"]
    for wanted in ([b"xlen"], [b"s"], [b"xlen", b"xlen", b"s"], [b"XLEN", b"s"]):
        assert is_drawn(st.composite(mistaken)(whole), wanted)


def test_tokens_and_strange_values() -> None:
    assert {b"STREAMS", b"MAXLEN", b"~", b"NOACK"} <= set(TOKENS)
    for wanted in (ODD[-1], EDGES[0], b"\x01"):
        assert is_drawn(HOSTILE, wanted)
