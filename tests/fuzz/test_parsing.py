"""The target of the parser notices a parser that is wrong."""

from __future__ import annotations

import pytest

from crdtstream.protocols.requests import RequestParser
from fuzz import parsing

WIRE = b"*2\r\n$4\r\nXLEN\r\n$1\r\nx\r\n"


def test_input_is_limits_and_pieces_and_wire() -> None:
    assert parsing.outcome(0, parsing.pieces(WIRE, [1, 2, 40])) == ([[b"XLEN", b"x"]], b"")
    assert parsing.pieces(b"abc", [1, 5, 2]) == [b"a", b"bc", b"", b""]
    for form in parsing.FORMS:
        parsing.check(0, [3, 5, 1, 7], form)
    assert parsing.edited(b"abcdef", [(1, 2, b"xyz"), (15, 1, b"")]) == b"axyzdef"


@pytest.mark.parametrize("limits", range(4))
def test_small_limits_are_reached(limits: int) -> None:
    _, refusal = parsing.outcome(limits, [b"*11\r\n" + b"$1\r\na\r\n" * 11])
    assert bool(refusal) == bool(limits)


class Forgetful:
    """Reads each piece as if nothing had come before."""

    def __init__(self, limits: int) -> None:
        self.paused = False

    def feed(self, data: bytes) -> list[list[bytes]]:
        return RequestParser().feed(data)

    def check(self) -> None: ...


def test_a_parser_that_forgets_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "parser_of", Forgetful)
    with pytest.raises(AssertionError, match="in another way"):
        parsing.check(0, [7], WIRE)
