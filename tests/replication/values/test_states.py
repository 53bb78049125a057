"""Tables of states: closed, connected, and strict about what they do not name."""

from __future__ import annotations

import pytest

from crdtstream.replication.values import states
from crdtstream.replication.values.states import DEMAND, MEMBERSHIP, SESSION, START_OVER, States, after

TABLES = [(SESSION, states.LINKED), (MEMBERSHIP, states.UNBORN), (DEMAND, states.UNASKED), (START_OVER, states.IDLE)]


@pytest.mark.parametrize(("table", "first"), TABLES)
def test_every_state_is_reached_from_the_first_one(table: States, first: str) -> None:
    reached, pending = {first}, [first]
    while pending:
        here = pending.pop()
        following = {then for (state, _), then in table.items() if state == here} - reached
        reached |= following
        pending += sorted(following)
    assert {state for state, _ in table} | set(table.values()) == reached


def test_a_link_that_is_closed_stays_closed_and_nothing_else_ends() -> None:
    ends = {following for following in SESSION.values() if not any(state == following for state, _ in SESSION)}
    assert ends == {states.CLOSED}
    for table in (MEMBERSHIP, DEMAND, START_OVER):
        assert set(table.values()) <= {state for state, _ in table}


def test_an_event_that_cannot_happen_is_a_fault() -> None:
    assert after(SESSION, states.GREETING, states.HELLO_HEARD) == states.OPEN
    with pytest.raises(AssertionError, match="'its Hello is sent' cannot happen in the state 'open'"):
        after(SESSION, states.OPEN, states.HELLO_SENT)
