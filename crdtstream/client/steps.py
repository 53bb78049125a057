"""One algorithm for blocking callers and for those of asyncio: a generator that yields what waits, and two drivers.

A step is a function without arguments: a command, a pause, a call of the application's code. Blocking, it returns what
the generator is sent; with asyncio it may return an awaitable of it. What a step raises is raised where it was yielded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from inspect import isawaitable
from typing import Any, TypeVar

T = TypeVar("T")
Step = Callable[[], Any]
Steps = Generator[Step, Any, T]


def drive(steps: Steps[T]) -> T:
    """Run the steps, and return what the generator returns."""
    reply, error = None, None
    try:
        while True:
            step = steps.send(reply) if error is None else steps.throw(error)
            reply, error = None, None
            try:
                reply = step()
            except Exception as raised:
                error = raised
    except StopIteration as end:
        value: T = end.value
        return value
    finally:
        steps.close()


async def drive_async(steps: Steps[T]) -> T:
    """Run the steps on the event loop. A task that is cancelled ends at the step in which it waits.

    `asyncio.wait_for` of Python 3.11, by which redis-py sends, drops a cancellation that comes as its wait ends; so it
    is looked for after each step.
    """
    reply, error = None, None
    task = asyncio.current_task()
    asked = 0 if task is None else task.cancelling()
    try:
        while True:
            step = steps.send(reply) if error is None else steps.throw(error)
            reply, error = None, None
            try:
                reply = step()
                if isawaitable(reply):
                    reply = await reply
            except Exception as raised:
                error = raised
            if task is not None and task.cancelling() > asked:
                raise asyncio.CancelledError
    except StopIteration as end:
        value: T = end.value
        return value
    finally:
        steps.close()
