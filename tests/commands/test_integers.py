"""Integers and timeouts as Redis reads them."""

from __future__ import annotations

import pytest

from crdtstream.commands.integers import deadline, integer
from crdtstream.connections.context import CommandError


@pytest.mark.parametrize("value", [0, 1, -1, 10, 2**53 + 1, 2**63 - 1, -(2**63)])
def test_integers(value: int) -> None:
    assert integer(b"%d" % value) == value


@pytest.mark.parametrize(
    "text", [b"", b"-", b"+1", b"01", b"-0", b"-01", b" 1", b"1 ", b"1.0", b"x", b"9223372036854775808", b"1" * 5000]
)
def test_what_is_no_integer(text: bytes) -> None:
    with pytest.raises(CommandError, match="ERR value is not an integer or out of range"):
        integer(text)


def test_deadlines() -> None:
    assert deadline(b"0", 1000) == 0
    assert deadline(b"5", 1000) == 1005
    with pytest.raises(CommandError, match="ERR timeout is negative"):
        deadline(b"-1", 1000)
    with pytest.raises(CommandError, match="ERR timeout is not an integer or out of range"):
        deadline(b"x", 1000)
    assert deadline(b"%d" % (2**63 - 1 - 1000), 1000) == 2**63 - 1
    with pytest.raises(CommandError, match="ERR timeout is out of range"):
        deadline(b"%d" % (2**63 - 1000), 1000)
