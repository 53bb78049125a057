"""Options of the whole suite. In continuous integration (CI is set) hypothesis draws the same examples every time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

from tests.effort import INTERPRETED, examples
from tests.tidy import PURE

# A fork copies what gRPC holds open; its handlers would act on that in a child that is about to become a JVM.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

# No example is too slow: the machine may be busy with other things.
UNHURRIED = settings(
    max_examples=100 if INTERPRETED else examples(240), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("default", UNHURRIED)
settings.register_profile("ci", UNHURRIED, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


TESTS = Path(__file__).resolve().parent
# What a change breaks first, and what is quick to ask: no process, no socket, no Spark.
FAST = PURE | {"storage", "tidy"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="put the replies that came into the scenario texts")
    parser.addoption("--fast", action="store_true", help="the pure parts and storage, by example: a minute")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With --fast, what is not quick is not even imported; no opinion otherwise."""
    return True if config.getoption("--fast") and not is_fast(collection_path) else None


def is_fast(path: Path) -> bool:
    """tests/core/..., tests/region/test_node.py and tests/region/test_node_clock.py are about parts that are."""
    if path == TESTS or TESTS not in path.parents:
        return True
    place = path.relative_to(TESTS).parts[0].removesuffix(".py").removeprefix("test_")
    return any(place == part or place.startswith(f"{part}_") for part in FAST)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With --fast, no property is searched for counterexamples, which takes hundreds of examples each.

    Tests marked `interpreted` need what compiling takes away: constants and methods that can be replaced,
    `__slots__` that can be listed, or the sources themselves.
    """
    if config.getoption("--fast"):
        searched = [item for item in items if is_hypothesis_test(getattr(item, "obj", None))]
        config.hook.pytest_deselected(items=searched)
        items[:] = [item for item in items if item not in searched]
    for item in items:
        if not INTERPRETED and item.get_closest_marker("interpreted"):
            item.add_marker(pytest.mark.skip(reason="needs the interpreted core"))
