"""Requests from syntaxes: all commands come, and unspoilt ones mostly have an arity that is accepted."""

from __future__ import annotations

from collections.abc import Callable
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


def is_drawn(strategy: st.SearchStrategy[Any], wanted: Callable[[Any], bool]) -> bool:
    """Whether a value that is wanted comes within some thousand draws. What is drawn depends on all modules that are
    imported, because Hypothesis takes constants from them: so only what is likely may be wanted.
    """
    unshrunk = settings(max_examples=5_000, phases=[Phase.generate], derandomize=True, database=None)
    return wanted(find(strategy, wanted, settings=unshrunk))


def test_a_request_is_spoilt_in_many_ways() -> None:
    whole = [b"xlen", b"s"]
    for wanted in ([b"xlen"], [b"s"], [b"xlen", b"xlen", b"s"], [b"XLEN", b"s"]):
        assert is_drawn(st.composite(mistaken)(whole), wanted.__eq__)


def test_tokens_and_strange_values() -> None:
    assert {b"STREAMS", b"MAXLEN", b"~", b"NOACK"} <= set(TOKENS)
    assert is_drawn(HOSTILE, ODD[-1].__eq__)
    assert is_drawn(HOSTILE, EDGES[0].__eq__)
    assert is_drawn(HOSTILE, lambda drawn: b"-" not in drawn and drawn not in {*ODD, *EDGES})
