"""What a service manager hears, on a real socket, from a region that it started."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from crdtstream.runtime import service_manager
from crdtstream.runtime.service_manager import LEFT, STOPPING, ServiceManager
from tests.running_region import DEADLINE_S, config_of, running


@pytest.fixture(params=["file", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    address = str(tmp_path / "notify") if request.param == "file" else f"@{tmp_path}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(address.replace("@", "\0"))
        listening.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        yield listening


async def heard(manager: socket.socket) -> list[str]:
    running_loop = asyncio.get_running_loop()
    text = (await asyncio.wait_for(running_loop.sock_recv(manager, 4096), DEADLINE_S)).decode()
    return text.split("\n")


async def test_the_life_of_a_region(manager: socket.socket, tmp_path: Path) -> None:
    async with running(config_of(tmp_path)) as region:
        assert await heard(manager) == ["READY=1", "STATUS=serving"]
        region.loop.reload()
        word, since = await heard(manager)
        assert word == "RELOADING=1"
        assert since.partition("=")[0] == "MONOTONIC_USEC"
        assert int(since.partition("=")[2]) > 0
        assert await heard(manager) == ["READY=1", "STATUS=serving"]
        region.loop.stop()
        assert await heard(manager) == ["STOPPING=1", "STATUS=stopping"]


async def test_a_region_that_waits_for_its_peers_is_not_ready(manager: socket.socket, tmp_path: Path) -> None:
    waiting = config_of(tmp_path, incarnation=None, peers=("127.0.0.1:1",), insecure_replication=True)
    async with running(waiting) as region:
        [status] = await heard(manager)
        assert status == f"STATUS={region.loop.node.standing.loading}"
        assert status != "STATUS="


def test_a_state_is_told_once(manager: socket.socket) -> None:
    service = ServiceManager(os.environ["NOTIFY_SOCKET"])
    service.notify("", is_stopping=False)
    service.notify("", is_stopping=False)
    assert manager.recv(4096).startswith(b"READY=1\n")
    with pytest.raises(BlockingIOError):
        manager.recv(1)


def test_a_socket_that_is_gone_is_told_of(tmp_path: Path) -> None:
    service = ServiceManager(str(tmp_path / "gone"))
    with capture_logs() as logs:
        service.notify("", is_stopping=False)
        service.notify("", is_stopping=False)
    assert [(log["event"], log["told"]) for log in logs] == [("service-manager-not-told", "READY=1")]


def test_what_finds_no_room_is_told_again(manager: socket.socket) -> None:
    service = ServiceManager(os.environ["NOTIFY_SOCKET"])
    with capture_logs() as logs:
        number = 0
        while not logs:
            number += 1
            service.notify(f"step {number}", is_stopping=False)
    assert [log["event"] for log in logs] == ["service-manager-not-told"]
    heard = [manager.recv(4096).decode() for _ in range(number - 1)]
    assert heard == [f"STATUS=step {at}" for at in range(1, number)]
    service.notify(f"step {number}", is_stopping=False)
    assert manager.recv(4096).decode() == f"STATUS=step {number}"


def test_a_last_word_waits_for_room(manager: socket.socket) -> None:
    service = ServiceManager(os.environ["NOTIFY_SOCKET"])
    with capture_logs() as logs:
        while not logs:
            service.notify_reload()
    heard: list[str] = []

    def make_room() -> None:
        while LEFT not in heard:
            with suppress(BlockingIOError):
                heard.append(manager.recv(4096).decode())

    later = threading.Timer(0.1, make_room)
    later.start()
    with capture_logs() as logs:
        service.notify_left()
    later.join(DEADLINE_S)
    assert heard[-1] == LEFT and logs == []


def test_that_a_region_has_left_is_told_again_until_it_arrives(
    manager: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_manager, "LAST_S", 0.05)
    service = ServiceManager(os.environ["NOTIFY_SOCKET"])
    with capture_logs() as logs:
        while not logs:
            service.notify_reload()
        service.notify_left()
        service.notify("", is_stopping=True)
    heard: list[str] = []
    with suppress(BlockingIOError):
        while True:
            heard.append(manager.recv(4096).decode())
    assert LEFT not in heard
    service.notify("", is_stopping=True)
    assert [manager.recv(4096).decode() for _ in range(2)] == [LEFT, STOPPING]
