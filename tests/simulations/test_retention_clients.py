"""Clients that set limits remove nothing themselves."""

from __future__ import annotations

from random import Random

import pytest

from simulations.retention_clients import LIMITS, with_limits

RNG = Random(1)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("XACKDEL x g KEEPREF IDS 2 1-1 2-1", "XACK x g 1-1 2-1"),
        ("XACKDEL x g IDS 1 1-1", "XACK x g 1-1"),
        ("XLEN x", "XLEN x"),
    ],
)
def test_what_is_sent_instead(line: str, expected: str) -> None:
    assert with_limits(RNG, line.encode().split()) == [expected.encode().split()]


@pytest.mark.parametrize("line", ["XDEL x 1-1", "XDELEX x DELREF IDS 1 1-1", "XTRIM x MAXLEN 3"])
def test_removals_become_limits(line: str) -> None:
    assert with_limits(RNG, line.encode().split())[0][:3] == [b"CRDT.STREAM", b"SET", b"x"]


def test_adds_trim_nothing_and_some_set_limits() -> None:
    sent = [with_limits(RNG, b"XADD x MAXLEN 5 * f v".split()) for _ in range(2_000)]
    assert {tuple(commands[0]) for commands in sent} == {tuple(b"XADD x * f v".split())}
    assert {tuple(commands[1][3:]) for commands in sent if len(commands) > 1} == set(LIMITS)
