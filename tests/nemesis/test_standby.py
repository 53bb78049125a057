"""Clients of two regions at one site lose nothing when the first one fails."""

from __future__ import annotations

import pytest

from nemesis.standby import FAULTS, HUNG, TIMEOUT_S, Outcome, one_round, table_of


@pytest.mark.parametrize("fault", FAULTS)
def test_nothing_is_lost_and_clients_are_answered_by_the_other_region(fault: str) -> None:
    outcome = one_round(fault, "everysec", answers=50)
    assert outcome.lost == 0 and outcome.added >= 100, outcome
    assert outcome.writer_s > 0 and outcome.consumer_s > 0
    if fault == HUNG:
        assert outcome.writer_s >= TIMEOUT_S, "its clients wait for their timeout"


def test_each_round_is_a_row() -> None:
    assert table_of([Outcome("killed", 9, 0.1, 0.1, 1, 2, 3, 0, 1.0)]).row_count == 1
