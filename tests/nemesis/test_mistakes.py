"""What operators do by mistake, each once on real processes, and restarts of all regions at once."""

from __future__ import annotations

import pytest

from nemesis.mistakes import MISTAKES, Outcome, make, table_of
from nemesis.restarts import main as restart_together


@pytest.mark.parametrize("mistake", MISTAKES)
def test_each_acknowledged_write_is_everywhere_in_the_end(mistake: str) -> None:
    outcome = make(mistake, "everysec")
    assert outcome.held, outcome


def test_what_is_missing_is_shown() -> None:
    lost = Outcome("restored", 65, 3, 2, 60.0)
    assert not lost.held
    assert table_of([lost]).row_count == 1


def test_regions_that_restart_together_create_groups_and_one_may_be_evicted() -> None:
    restart_together(times=2, fsync="everysec")
