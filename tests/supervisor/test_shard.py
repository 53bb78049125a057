"""A shard's process is started again when it fails, and left when it was stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import structlog.testing

from crdtstream.processes.waiting import DEADLINE_S
from crdtstream.runtime.service_manager import LEFT, MOVED, STOPPING
from crdtstream.supervisor import shard as shard_module
from crdtstream.supervisor.reports import ShardReport
from crdtstream.supervisor.shard import STARTING, ShardProcess

SLEEP = "import time; time.sleep(600)"


def shard_of(program: str, changed: Callable[[], None] = lambda: None) -> ShardProcess:
    return ShardProcess(3, [sys.executable, "-c", program], lambda: os.environ, changed)


async def reached(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0.005)


async def within(work: Awaitable[None]) -> None:
    await asyncio.wait_for(work, DEADLINE_S)


async def test_a_process_that_fails_is_started_again_later_each_time(tmp_path: Path) -> None:
    count = tmp_path / "count"
    shard = shard_of(f"open({str(count)!r}, 'a').write('x'); raise SystemExit(9)")
    with structlog.testing.capture_logs() as logs:
        running = asyncio.create_task(shard.run())
        await reached(lambda: len([row for row in logs if row["event"] == "shard-failed"]) == 3)
        shard.stop()
        await within(running)
    failed = [row for row in logs if row["event"] == "shard-failed"]
    assert [row["restart_s"] for row in failed] == [0.25, 0.5, 1.0]
    assert {row["reason"] for row in failed} == {"it ended with exit code 9: its log says why"}
    assert {row["shard"] for row in logs} == {3}
    assert (len(count.read_text()), shard.code, shard.process_id) == (3, 9, 0)


async def test_a_signal_is_named() -> None:
    shard = shard_of("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    running = asyncio.create_task(shard.run())
    await reached(lambda: shard.status == "it was ended by SIGKILL")
    shard.stop()
    await within(running)


async def test_one_that_was_stopped_stays_down_until_it_is_started_again(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    shard = shard_of(f"open({str(starts)!r}, 'a').write('x')")
    running = asyncio.create_task(shard.run())
    await reached(lambda: shard.is_down)
    assert shard.status == "it was stopped"
    await asyncio.sleep(0.4)
    assert starts.read_text() == "x"
    shard.reload()
    await reached(lambda: starts.read_text() == "xx")
    await reached(lambda: shard.is_down)
    shard.stop()
    await within(running)


@pytest.mark.parametrize("is_stopping", [False, True])
async def test_one_that_is_told_to_reload_while_it_stops_is_started_again(tmp_path: Path, is_stopping: bool) -> None:
    starts = tmp_path / "starts"
    was_down: list[bool] = []
    shard = shard_of(
        "import signal, sys\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
        f"open({str(starts)!r}, 'a').write('x')\n" + SLEEP,
        lambda: was_down.append(shard.is_down),
    )
    running = asyncio.create_task(shard.run())
    await reached(lambda: starts.exists() and starts.read_text() == "x")
    shard.heard(ShardReport(1, "READY=1"))
    if is_stopping:
        shard.heard(ShardReport(1, STOPPING))
    shard.reload()
    os.kill(shard.process_id, signal.SIGTERM)
    if is_stopping:
        await reached(lambda: starts.read_text() == "xx")
        assert not any(was_down), "a supervisor would end with the last one"
        os.kill(shard.process_id, signal.SIGTERM)
    await reached(lambda: shard.is_down)
    assert starts.read_text() == ("xx" if is_stopping else "x")
    shard.stop()
    await within(running)


async def test_one_that_has_left_is_not_told_to_reload_and_stays_down_however_it_ends() -> None:
    """At last it has no handlers any more, and SIGHUP would end it."""
    shard = shard_of(SLEEP)
    running = asyncio.create_task(shard.run())
    await reached(lambda: shard.process_id != 0)
    process = shard.process_id
    for text in ("READY=1", LEFT, STOPPING):
        shard.heard(ShardReport(process, text))
    shard.reload()
    await asyncio.sleep(0.2)
    assert shard.process_id == process
    os.kill(process, signal.SIGKILL)
    await reached(lambda: shard.status == "it has left the cluster")
    await asyncio.sleep(0.4)
    assert (shard.process_id, shard.is_down) == (0, True)
    shard.stop()
    await within(running)


class EndsUnseen:
    """A process that has ended before that is seen: `wait` returns once the test says so."""

    pid = 1

    def __init__(self, code: int) -> None:
        self.returncode: int | None = None
        self._code = code
        self._is_seen = asyncio.Event()

    def end(self) -> None:
        self.returncode = self._code

    def be_seen(self) -> None:
        self._is_seen.set()

    async def wait(self) -> int:
        await self._is_seen.wait()
        return self._code

    def send_signal(self, _number: int) -> None:
        raise ProcessLookupError


@pytest.mark.parametrize("code", [0, 9])
async def test_one_that_is_told_to_reload_before_its_end_is_seen_is_started_again(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes: list[EndsUnseen] = []

    async def create(*_command: str, **_options: object) -> EndsUnseen:
        processes.append(EndsUnseen(code))
        return processes[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", create)
    monkeypatch.setattr(shard_module, "BACKOFF_S_MIN", DEADLINE_S)
    shard = shard_of(SLEEP)
    running = asyncio.create_task(shard.run())
    await reached(lambda: len(processes) == 1)
    shard.heard(ShardReport(1, "READY=1"))
    processes[0].end()
    shard.reload()
    processes[0].be_seen()
    await reached(lambda: len(processes) == 2)
    shard.stop()
    processes[1].be_seen()
    await within(running)


async def test_a_stop_ends_the_process_and_the_waiting() -> None:
    shard = shard_of(SLEEP)
    running = asyncio.create_task(shard.run())
    await reached(lambda: shard.process_id != 0)
    process = shard.process_id
    shard.stop()
    shard.stop()
    await within(running)
    assert shard.ended_well() and not Path(f"/proc/{process}").exists()
    shard.reload()


async def test_a_process_that_is_still_starting_is_told_to_reload_once_it_can(tmp_path: Path) -> None:
    """Without a handler SIGHUP would end it."""
    ready, told = tmp_path / "ready", tmp_path / "told"
    shard = shard_of(
        "import signal, time; time.sleep(0.3)\n"
        f"signal.signal(signal.SIGHUP, lambda *_: open({str(told)!r}, 'a').write('x'))\n"
        f"open({str(ready)!r}, 'w').close()\n"
        "while True: time.sleep(0.05)"
    )
    running = asyncio.create_task(shard.run())
    await reached(lambda: shard.process_id != 0)
    shard.reload()
    await reached(ready.exists)
    assert not told.exists()
    shard.heard(ShardReport(1, "READY=1"))
    await reached(told.exists)
    shard.heard(ShardReport(1, "STATUS=serving"))
    shard.reload()
    await reached(lambda: told.read_text() == "xx")
    shard.stop()
    await within(running)
    assert (shard.code, shard.ended_well()) == (-15, True)


async def test_its_state_follows_its_reports() -> None:
    told: list[str] = []
    shard = shard_of(SLEEP, lambda: told.append(shard.status))
    for text in (
        "STATUS=the log is being read",
        "READY=1\nSTATUS=serving",
        "RELOADING=1",
        "STATUS=stopping",
    ):
        shard.heard(ShardReport(1, text))
    assert told == ["the log is being read", "", "stopping"]
    assert shard_of(SLEEP).status == STARTING


@pytest.mark.parametrize("maps", [(False, True), (False, True, True)])
@pytest.mark.parametrize("moves", [False, True])
async def test_a_move_that_is_called_off_starts_what_has_ended_for_it_and_nothing_else(
    tmp_path: Path, moves: bool, maps: tuple[bool, ...]
) -> None:
    """Only one that has handed its directory over ends because of the move; another one was stopped."""
    starts = tmp_path / "starts"
    shard = shard_of(
        "import signal, sys, time\n"
        "signal.signal(signal.SIGHUP, lambda *_: sys.exit(0))\n"
        f"open({str(starts)!r}, 'a').write('x')\n"
        "while True: time.sleep(0.05)"
    )
    running = asyncio.create_task(shard.run())
    await reached(lambda: starts.exists() and starts.read_text() == "x")
    shard.heard(ShardReport(1, "READY=1"))
    for is_here in maps:
        shard.follow(is_here)
    if moves:
        shard.heard(ShardReport(1, MOVED))
    shard.reload()
    await reached(lambda: shard.is_down or starts.read_text() == "xx")
    assert shard.is_down == (not moves)
    shard.stop()
    await within(running)
