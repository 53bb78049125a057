"""Options of the whole suite. In continuous integration (CI is set) hypothesis draws the same examples every time."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

from crdtstream import node

# No example is too slow: the machine may be busy with other things.
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("default", UNHURRIED)
settings.register_profile("ci", UNHURRIED, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


INTERPRETED = node.__file__.endswith(".py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked `interpreted` need what compiling takes away: constants and methods that can be replaced,
    `__slots__` that can be listed, or the sources themselves.
    """
    for item in items:
        if not INTERPRETED and item.get_closest_marker("interpreted"):
            item.add_marker(pytest.mark.skip(reason="needs the interpreted core"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="put the replies that came into the scenario texts")
