"""Every scenario runs on pure nodes and gives the replies of its text; `--rewrite` puts in those that came.

So do the stories of the demo, which test_demo.py sees played on processes.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from crdtstream.demo.story import FOLDER as STORIES_FOLDER
from crdtstream.scenarios.text import ScenarioError
from simulations.scenario import Scenario

FOLDER = Path(__file__).parent.parent / "simulations" / "scenarios"
TEXTS = sorted(FOLDER.glob("*.txt"))
STORIES = sorted(STORIES_FOLDER.glob("*.txt"))


def case(path: Path) -> object:
    """Memory is cloned with `copy.deepcopy`, which compiled classes do not take."""
    clones = re.search(r"^ +clone ", path.read_text(encoding="utf-8"), re.MULTILINE)
    return pytest.param(path, id=path.stem, marks=[pytest.mark.interpreted] if clones else [])


@pytest.mark.parametrize("path", [case(path) for path in TEXTS + STORIES])
def test_scenario(path: Path, request: pytest.FixtureRequest) -> None:
    scenario = Scenario(path.read_text(encoding="utf-8"))
    clusters = scenario.run()
    if request.config.getoption("--rewrite"):
        path.write_text(scenario.rewritten(), encoding="utf-8")
    else:
        assert scenario.differences() == []
    for cluster in clusters:
        cluster.sync()
        digests = {number: cluster.execute(number, [b"CRDT.DIGEST"]) for number in cluster.machines}
        assert len(set(digests.values())) == 1, digests


def test_the_scenarios_are_there() -> None:
    assert len(TEXTS) >= 53
    assert len(STORIES) == 9


def test_a_wrong_reply_is_named() -> None:
    scenario = Scenario("regions 1\n  1> XADD x 100 f v\n     100-2\n")
    scenario.run()
    assert scenario.differences() == ["line 2: 1> XADD x 100 f v: expected ['100-2'], got ['100-1']"]
    assert scenario.rewritten() == "regions 1\n  1> XADD x 100 f v\n     100-1\n"


def test_an_unknown_step_is_refused() -> None:
    with pytest.raises(ScenarioError, match="line 2: no step is called 'synch'"):
        Scenario("regions 1\n  synch\n").run()
