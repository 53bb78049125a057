"""What operators do by mistake, each story once on real processes, and restarts of all regions at once."""

from __future__ import annotations

import pytest

from nemesis.restarts import main as restart_together
from nemesis.stories import STORIES, Outcome, run, table_of


@pytest.mark.parametrize("story", STORIES)
def test_each_acknowledged_write_is_everywhere_in_the_end(story: str) -> None:
    outcome = run(story, "everysec")
    assert outcome.held, outcome


def test_what_is_missing_is_shown() -> None:
    lost = Outcome("restored", 65, 3, 2, 60.0)
    assert not lost.held
    assert table_of([lost]).row_count == 1


def test_regions_that_restart_together_create_groups_and_one_may_be_evicted() -> None:
    restart_together(times=2, fsync="everysec")
