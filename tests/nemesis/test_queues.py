"""A short drill on real processes; `python -m nemesis.queues` is the long one."""

from __future__ import annotations

from contextlib import closing

from nemesis.queues import MOVES, rounds


def test_consumers_miss_nothing_and_a_planned_move_repeats_nothing() -> None:
    """Any seed does: it draws where the faults strike."""
    faults = [MOVES, "region cut off"]
    with closing(rounds(0, 3, seed=3, faults=faults, consumers=12)) as running:
        for row in running:
            assert row.is_sound, row.row()
            assert row.owned.added and row.owned.handled >= row.owned.added
            assert row.moves or row.moves_refused
            assert row.letters, "poison entries were added"
