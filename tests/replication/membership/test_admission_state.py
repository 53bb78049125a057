"""The own origin: what its directory was decides what it does until it is admitted, and again after that."""

from __future__ import annotations

import pytest

from crdtstream.replication.membership.admission_state import OwnState
from crdtstream.replication.values.states import ADMITTED, NEW, RETURNED, USED


@pytest.mark.parametrize(
    ("is_known", "holds_data", "state", "serves", "is_new"),
    [
        (False, False, NEW, False, True),
        (False, True, USED, True, True),
        (True, False, RETURNED, True, False),
        (True, True, RETURNED, True, False),
    ],
)
def test_a_directory_decides_where_an_origin_begins(
    is_known: bool, holds_data: bool, state: str, serves: bool, is_new: bool
) -> None:
    own = OwnState()
    assert not own.is_admitted and not own.is_new
    own.start(is_known, holds_data)
    assert (own.state, own.serves, own.is_new, own.is_admitted) == (state, serves, is_new, False)
    own.replace()
    assert own.state == state, "another origin of the same directory begins where this one was"
    own.admit()
    assert own.state == ADMITTED and own.serves and not own.is_new


@pytest.mark.parametrize("end", ["lapse", "replace"])
def test_a_directory_that_was_admitted_is_new_no_more(end: str) -> None:
    own = OwnState()
    own.start(False, False)
    own.admit()
    getattr(own, end)()
    assert own.state == RETURNED and own.serves


def test_an_admission_lapses_once_and_only_if_there_is_one() -> None:
    own = OwnState()
    own.start(True, False)
    with pytest.raises(AssertionError, match="cannot happen in the state 'returned'"):
        own.lapse()


def test_who_asked_is_heeded_in_this_turn_and_remembered_after_it() -> None:
    own = OwnState()
    assert not own.was_asked
    for _ in range(2):
        own.ask()
        own.ask()
        assert own.demand == "asked" and own.was_asked
        own.end_turn()
        assert own.demand == "remembered" and own.was_asked
