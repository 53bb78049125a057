"""A wait gives what it waited for, or says what did not hold."""

from __future__ import annotations

import pytest

from crdtstream.processes.waiting import ProcessError, until


def test_the_value_is_returned_once_it_is_true() -> None:
    values = iter(["", "", "here"])
    assert until(lambda: next(values), "it is here") == "here"


@pytest.mark.parametrize("what", ["it holds", lambda: "it holds"])
def test_what_did_not_hold_is_said_with_the_deadline(what: str) -> None:
    with pytest.raises(ProcessError, match=r"^not within 0 s: it holds$"):
        until(lambda: False, what, 0)
