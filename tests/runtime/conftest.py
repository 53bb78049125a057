"""Transports for the tests of this folder."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import structlog

from tests.runtime.speakers import Transports


@pytest.fixture
async def transports() -> AsyncIterator[Transports]:
    started = Transports()
    yield started
    for transport in list(started.running):
        await started.stop(transport)


@pytest.fixture(autouse=True)
def _unconfigured_log() -> None:
    """A test that configures the log leaves it writing to a stream that others do not see."""
    structlog.reset_defaults()
