"""Transports for the tests of this folder."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.runtime.speakers import Transports


@pytest.fixture
async def transports() -> AsyncIterator[Transports]:
    started = Transports()
    yield started
    for transport in list(started.running):
        await started.stop(transport)
