"""Asking one region: every failure is an answer."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from crdtstream.observing.access import Access
from crdtstream.observing.asking import RedisPort
from crdtstream.processes.ports import free_port

REPLIES = b"+PONG\r\n-ERR wrong\r\n:3\r\n"


async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer what clients send first, then three questions."""
    while data := await reader.read(1 << 16):
        writer.write(REPLIES if b"PING" in data else b"+OK\r\n" * data.count(b"*"))
    writer.close()


@pytest.fixture
async def address() -> AsyncIterator[str]:
    server = await asyncio.start_server(converse, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_an_error_is_the_answer_to_one_question_of_several(address: str) -> None:
    port = RedisPort(address, Access())
    one, two, three = await port.ask_all([["PING"], ["X"], ["Y"]], 5.0)
    assert (one.value, two.error, two.unreachable, three.value) == (b"PONG", "wrong", False, 3)
    await port.close()


async def test_a_closed_port_is_told_in_the_words_of_the_system() -> None:
    port = RedisPort(f"127.0.0.1:{free_port()}", Access())
    answers = await port.ask_all([["PING"], ["PING"]], 5.0)
    assert [(answer.error, answer.unreachable) for answer in answers] == [("Connection refused", True)] * 2
    await port.close()


async def test_a_silent_region_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = RedisPort(f"127.0.0.1:{server.getsockname()[1]}", Access())
        answer = await port.ask(["PING"], 0.05)
        assert (answer.error, answer.unreachable) == ("no answer within 0.05 s", True)
        await port.close()


async def test_a_key_that_another_shard_has_is_asked_for_there() -> None:
    """Once: a shard that does not have it either is at odds with the first one, which shows."""

    async def serve(text: str) -> asyncio.Server:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while data := await reader.read(1 << 16):
                writer.write(f"{text}\r\n".encode() if b"XLEN" in data else b"+OK\r\n" * data.count(b"*"))
            writer.close()

        return await asyncio.start_server(answer, "127.0.0.1", 0)

    def at(server: asyncio.Server) -> int:
        return int(server.sockets[0].getsockname()[1])

    there = await serve(":7")
    lost = await serve("-MOVED 5 127.0.0.1:1")
    here, astray = await serve(f"-MOVED 5 127.0.0.1:{at(there)}"), await serve(f"-MOVED 5 127.0.0.1:{at(lost)}")
    async with there, lost, here, astray:
        ports = [RedisPort(f"127.0.0.1:{at(server)}", Access()) for server in (here, astray)]
        ports[0].name = "east"
        told = await ports[0].ask(["XLEN", "x"], 5.0)
        assert (told.region, told.value, told.error) == ("east", 7, "")
        assert (await ports[1].ask(["XLEN", "x"], 5.0)).error == "MOVED 5 127.0.0.1:1"
        for port in ports:
            await port.close()
