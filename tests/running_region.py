"""A region in the test's own event loop: its node, log, Redis port and links, and raw connections to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from crdtstream.processes.ports import free_port
from crdtstream.protocols import replies
from crdtstream.runtime.loop import Loop
from crdtstream.runtime.redis.resp_server import RespServer
from crdtstream.settings.config import Config, Limits

DEADLINE_S = 60.0
SEGMENT_BYTES = 1 << 20


class Wire:
    """One raw connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def ask(self, *argv: bytes | str) -> bytes:
        """One request, and one line of its reply."""
        await self.send(request(*argv))
        return await self.line()

    async def line(self) -> bytes:
        return await asyncio.wait_for(self.reader.readline(), DEADLINE_S)

    async def rest(self) -> bytes:
        """Everything until the connection is closed by the other side."""
        try:
            return await asyncio.wait_for(self.reader.read(), DEADLINE_S)
        except ConnectionError:
            return b"reset"

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


def request(*argv: bytes | str) -> bytes:
    return replies.bulk_array([word if isinstance(word, bytes) else word.encode() for word in argv])


class Running:
    """The region, and the connections that a test opened; `may_fail` when its end is part of the test."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.wires: list[Wire] = []
        self.may_fail = False
        self.task: asyncio.Task[None] = asyncio.create_task(loop.run())

    async def connect(self) -> Wire:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.loop.config.port, limit=1 << 26)
        self.wires.append(Wire(reader, writer))
        return self.wires[-1]


def config_of(directory: Path, limits: Limits | None = None, **settings: object) -> Config:
    """Without limits of its own no checkpoint is taken before a stop: tests read the whole log."""
    small = replace(limits or Limits(stop_checkpoint_ms_max=0), segment_bytes_max=SEGMENT_BYTES)
    base = Config(name="east", region=1, cluster="c", data=str(directory / "data"), replication_port=0, incarnation=0)
    return replace(base, port=free_port(), limits=small, **settings)  # type: ignore[arg-type]


@asynccontextmanager
async def running(config: Config, tracing: Any = None) -> AsyncIterator[Running]:
    loop = Loop(config, RespServer if tracing is None else tracing.port, tracing=tracing)
    region = Running(loop)
    task = region.task
    try:
        await until(lambda: not loop.failed or task.done(), "the region serves")
        await wait_listening(config.port)
        yield region
    finally:
        for wire in region.wires:
            await wire.close()
        loop.stop()
        await asyncio.wait([task])
    if not region.may_fail:
        task.result()


async def wait_listening(port: int) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionRefusedError:
                await asyncio.sleep(0.005)
                continue
            writer.close()
            await writer.wait_closed()
            return


async def until(condition: Callable[[], bool], what: str) -> None:
    try:
        async with asyncio.timeout(DEADLINE_S):
            while not condition():
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"not within {DEADLINE_S} s: {what}") from None
