"""Both drivers run the same steps."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from crdtstream.client.steps import Steps, drive, drive_async


def fails() -> None:
    raise ValueError("bad")


def steps(log: list[str]) -> Steps[int]:
    first = yield lambda: 2
    try:
        yield fails
    except ValueError as error:
        log.append(str(error))
    second = yield lambda: 3
    return int(first * second)


async def later(value: int) -> int:
    await asyncio.sleep(0)
    return value


async def test_replies_and_errors_come_back_to_the_generator() -> None:
    log: list[str] = []
    assert drive(steps(log)) == await drive_async(steps(log)) == 6
    assert log == ["bad", "bad"]


async def test_an_awaitable_is_awaited() -> None:
    def sum_of_two() -> Steps[int]:
        return int((yield lambda: later(1)) + (yield lambda: 2))

    assert await drive_async(sum_of_two()) == 3


async def test_what_the_generator_raises_is_raised() -> None:
    def raising() -> Steps[None]:
        yield fails

    with pytest.raises(ValueError, match="bad"):
        drive(raising())
    with pytest.raises(ValueError, match="bad"):
        await drive_async(raising())


async def test_a_cancelled_task_ends_its_steps() -> None:
    ended: list[str] = []

    def waiting() -> Steps[Any]:
        try:
            yield lambda: asyncio.sleep(60)
        finally:
            ended.append("closed")

    task = asyncio.create_task(drive_async(waiting()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["closed"]


def test_a_cancellation_that_a_step_drops_ends_the_task_all_the_same() -> None:
    """As `asyncio.wait_for` of Python 3.11 does, by which redis-py sends."""
    begun: list[str] = []

    async def drops() -> None:
        begun.append("first")
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)

    def steps() -> Steps[None]:
        yield drops
        begun.append("second")
        yield drops

    async def cancelled() -> bool:
        task = asyncio.create_task(drive_async(steps()))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert asyncio.run(cancelled())
    assert begun == ["first"]
