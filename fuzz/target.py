"""What is searched: a test of hypothesis, which raises when a property does not hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, settings

UNHURRIED = settings(
    database=None,
    deadline=None,
    derandomize=False,
    print_blob=True,
    report_multiple_bugs=False,
    stateful_step_count=60,
    suppress_health_check=list(HealthCheck),
)


@dataclass(frozen=True)
class Target:
    """`test` makes the test with these settings. One batch of a search has `batch` inputs."""

    name: str
    test: Callable[[settings], Any]
    batch: int

    def run(self, data: bytes) -> None:
        """Run one input of a guided search."""
        self.test(UNHURRIED).hypothesis.fuzz_one_input(data)
