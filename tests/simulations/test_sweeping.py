"""A sweep's sum, and that it does not matter where seeds run."""

from __future__ import annotations

import pytest

from simulations import sweeping
from simulations.checkers import run_checked
from simulations.sweeping import Outcome, Swept, on_processes, run_seed
from simulations.world import World


def test_outcomes_are_summed_by_kind_of_fault() -> None:
    swept = Swept()
    swept.count(Outcome(1, "", {"kill": 2, "cut": 1}, {"messages": 10}))
    swept.count(Outcome(2, "convergence: no", {"kill": 3}, {"messages": 5, "bytes": 7}))
    assert swept.violations == 1
    assert swept.totals == {"messages": 15, "bytes": 7}
    kill, cut = swept.faults["kill"], swept.faults["cut"]
    assert (kill.runs, kill.times, kill.violations) == (2, 5, 1)
    assert (cut.runs, cut.times, cut.violations) == (1, 1, 0)


def test_a_process_gives_what_a_call_gives() -> None:
    (there,) = on_processes(1, 3, 1)
    here = run_seed(3)
    assert there == here
    assert (here.seed, here.violation, here.trace) == (3, "", ())
    assert here.statistics["commands"] > 0


def test_a_run_that_fails_keeps_its_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(world: World) -> None:
        run_checked(world)
        raise KeyError("broken")

    monkeypatch.setattr(sweeping, "run_checked", crash)
    outcome = run_seed(3)
    assert outcome.violation == "crash: KeyError: 'broken'"
    assert len(outcome.trace) > 10
