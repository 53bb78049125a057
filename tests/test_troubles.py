"""The commands that docs/runbook.md gives for five troubles name them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from crdtstream.processes.waiting import until
from tests.admin.invoking import invoke
from tests.troubles import TROUBLES

HEALTHY, FAILING, ONE_SILENT = 0, 1, 3
# What is asked one after the other, the exit code of the last, and what it shows.
SHOWN: dict[str, tuple[list[list[str]], int, str]] = {
    "link down": ([["status"]], FAILING, "the link east - west is down"),
    "region hung": ([["status"]], FAILING, "west does not answer"),
    "regions disagree": ([["status"], ["digest", "--each"]], ONE_SILENT, "orders"),
    "group lags": ([["status"], ["groups", "--count", "5"]], HEALTHY, "orders:17"),
    "disk nearly full": ([["status"]], HEALTHY, "the disk of region2 is nearly full"),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_trouble_is_found_with_the_commands_of_the_runbook(trouble: str, tmp_path: Path) -> None:
    if trouble == "disk nearly full" and os.geteuid():
        pytest.skip("only root can make a small disk")
    *before, last = SHOWN[trouble][0]
    with TROUBLES[trouble](tmp_path) as region:
        for words in before:
            invoke(region, *words)

        def found() -> bool:
            code, text = invoke(region, *last)
            return code == SHOWN[trouble][1] and SHOWN[trouble][2] in text

        until(found, lambda: f"{trouble} is shown: {invoke(region, *last)}", 20.0)
