"""The supervisor with programs in place of shards: what it tells a service manager, passes on, and ends with."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import structlog.testing

from crdtstream.processes.waiting import DEADLINE_S
from crdtstream.runtime.service_manager import LEFT, MOVED
from crdtstream.runtime.shard_map_file import ShardMapFile
from crdtstream.runtime.shard_place import DIRECTORY_REFUSED
from crdtstream.settings.config import Config, ConfigError
from crdtstream.settings.handing_on import decoded
from crdtstream.settings.rewriting import Values
from crdtstream.settings.sharding import of_shard
from crdtstream.settings.table import SHARD_PROCESS, SHARD_REPLACES, SHARD_SETTINGS, SUPERVISOR
from crdtstream.storage.disk import RealDisk
from crdtstream.supervisor.founding import found_or_follow
from crdtstream.supervisor.shard import USAGE_ERROR
from crdtstream.supervisor.supervisor import FAILURE, Supervisor, own_command

# A program that does as a shard does: it says that it serves, writes the signals that it gets, and stops. It leaves at
# once: SystemExit is ignored if a signal comes while a finaliser flushes a file.
TELL = (
    "import os, signal, socket, sys, time\n"
    f"number = os.environ[{SHARD_PROCESS!r}]\n"
    "def tell(text):\n"
    "    sending = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
    "    sending.sendto(text.encode(), '\\0' + os.environ['NOTIFY_SOCKET'][1:])\n"
    "def hear(signum, _):\n"
    "    with open(sys.argv[1], 'a') as file: print(number, signal.Signals(signum).name, file=file)\n"
    "    if signum == signal.SIGTERM: os._exit(0)\n"
    "for each in (signal.SIGTERM, signal.SIGHUP): signal.signal(each, hear)\n"
)
# Each start is a word in a file of the shard: whether it takes over.
RECORD = f"replaces = os.environ.get({SHARD_REPLACES!r}, 'no')\nopen(sys.argv[1] + number, 'a').write(replaces + ' ')\n"
SERVE = "tell('READY=1')\nwhile True: time.sleep(0.05)\n"
WAIT = "tell('STATUS=it waits')\nwhile True: time.sleep(0.05)\n"


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(name="east", region=1, cluster="c", shards=2, data=str(tmp_path / "data"))


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[], list[str]]]:
    """What a service manager has been told so far."""
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as manager:
        manager.bind(str(tmp_path / "n"))
        manager.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "n"))
        found: list[str] = []

        def read() -> list[str]:
            while True:
                try:
                    found.append(manager.recv(4096).decode())
                except BlockingIOError:
                    return found

        yield read


def command(tmp_path: Path, program: str) -> list[str]:
    return [sys.executable, "-c", TELL + program, str(tmp_path / "signals")]


def signals(tmp_path: Path) -> list[str]:
    path = tmp_path / "signals"
    return sorted(path.read_text().splitlines()) if path.exists() else []


async def reached(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.fixture
async def log() -> AsyncIterator[list[structlog.typing.EventDict]]:
    with structlog.testing.capture_logs() as logs:
        yield logs


async def end(running: asyncio.Task[int]) -> int:
    return await asyncio.wait_for(running, DEADLINE_S)


async def test_a_service_manager_hears_that_all_serve_and_signals_are_passed_on(
    config: Config, told: Callable[[], list[str]], tmp_path: Path, log: list[structlog.typing.EventDict]
) -> None:
    running = asyncio.create_task(Supervisor(config, lambda: config, command(tmp_path, SERVE)).run())
    await reached(lambda: "READY=1\nSTATUS=serving" in told())
    assert told()[0] == "STATUS=shard 0: it is starting"
    assert [row["shards"] for row in log if row["event"] == "shards-serving"] == [2]
    os.kill(os.getpid(), signal.SIGHUP)
    await reached(lambda: signals(tmp_path) == ["0 SIGHUP", "1 SIGHUP"])
    os.kill(os.getpid(), signal.SIGTERM)
    assert await end(running) == 0
    assert signals(tmp_path) == ["0 SIGHUP", "0 SIGTERM", "1 SIGHUP", "1 SIGTERM"]
    assert any(text.startswith("RELOADING=1") for text in told())
    assert told()[-1] == "STOPPING=1\nSTATUS=stopping"


async def test_the_first_shard_that_does_not_serve_is_named(
    config: Config, told: Callable[[], list[str]], tmp_path: Path
) -> None:
    program = (
        f"if number == '0':\n    tell('READY=1')\nelse:\n    {WAIT.splitlines()[0]}\nwhile True: time.sleep(0.05)\n"
    )
    supervisor = Supervisor(config, lambda: config, command(tmp_path, program))
    running = asyncio.create_task(supervisor.run())
    await reached(lambda: "STATUS=shard 1: it waits" in told())
    assert "READY=1\nSTATUS=serving" not in told()
    supervisor.stop()
    assert await end(running) == 0


async def test_wrong_settings_of_one_end_all(config: Config, tmp_path: Path) -> None:
    program = f"if number == '1': sys.exit({USAGE_ERROR})\n{WAIT}"
    running = asyncio.create_task(Supervisor(config, lambda: config, command(tmp_path, program)).run())
    assert await end(running) == USAGE_ERROR
    assert signals(tmp_path) in ([], ["0 SIGTERM"])


async def test_a_directory_that_is_refused_is_awaited_and_ends_nobody_else(
    config: Config, tmp_path: Path, log: list[structlog.typing.EventDict]
) -> None:
    """A machine that starts before the directory of one of its shards was brought."""
    program = f"if number == '1' and not os.path.exists(sys.argv[1]): sys.exit({DIRECTORY_REFUSED})\n{SERVE}"
    supervisor = Supervisor(config, lambda: config, command(tmp_path, program))
    running = asyncio.create_task(supervisor.run())
    await reached(lambda: [row["shard"] for row in log if row["event"] == "shard-failed"][:2] == [1, 1])
    (tmp_path / "signals").touch()
    await reached(lambda: any(row["event"] == "shards-serving" for row in log))
    supervisor.stop()
    assert await end(running) == 0
    assert [row["shard"] for row in log if row["event"] == "shard-started"].count(0) == 1


async def test_it_ends_when_all_were_stopped(config: Config, tmp_path: Path) -> None:
    running = asyncio.create_task(Supervisor(config, lambda: config, command(tmp_path, "sys.exit(0)")).run())
    assert await end(running) == 0


async def test_a_stop_that_failed_shows(config: Config, tmp_path: Path, log: list[structlog.typing.EventDict]) -> None:
    program = f"signal.signal(signal.SIGTERM, lambda *_: sys.exit(7 * int(number)))\n{SERVE}"
    supervisor = Supervisor(config, lambda: config, command(tmp_path, program))
    running = asyncio.create_task(supervisor.run())
    await reached(lambda: any(row["event"] == "shards-serving" for row in log))
    supervisor.stop()
    assert await end(running) == FAILURE


async def test_settings_that_cannot_be_read_again_change_nothing(
    config: Config, tmp_path: Path, log: list[structlog.typing.EventDict]
) -> None:
    def load() -> Config:
        raise ConfigError("it is wrong")

    supervisor = Supervisor(config, load, command(tmp_path, SERVE))
    running = asyncio.create_task(supervisor.run())
    await reached(lambda: any(row["event"] == "shards-serving" for row in log))
    os.kill(os.getpid(), signal.SIGHUP)
    await reached(lambda: signals(tmp_path) == ["0 SIGHUP", "1 SIGHUP"])
    assert [row["reason"] for row in log if row["event"] == "settings-not-reloaded"] == ["it is wrong"]
    supervisor.stop()
    assert await end(running) == 0


async def test_a_shard_that_would_move_to_its_own_address_stays(
    config: Config, tmp_path: Path, log: list[structlog.typing.EventDict]
) -> None:
    settings = [config]
    supervisor = Supervisor(config, lambda: settings[0], command(tmp_path, SERVE))
    running = asyncio.create_task(supervisor.run())
    await reached(lambda: any(row["event"] == "shards-serving" for row in log))
    settings[0] = replace(config, shard="0", announce=(f"1={config.bind}:{config.port}",))
    supervisor.reload()
    assert any("announce has shard 1 at port" in row.get("reason", "") for row in log)
    assert not any(shard.moves for shard in supervisor._shards)
    assert ShardMapFile(of_shard(config, 1)).is_here
    supervisor.stop()
    assert await end(running) == 0


async def test_only_those_of_this_machine_run_and_know_their_number(config: Config, tmp_path: Path) -> None:
    some = replace(config, shard="1", announce=("0=a.example.net:6379",))
    program = f"open(sys.argv[1], 'a').write(number + ' ' + os.environ[{SUPERVISOR!r}])\nsys.exit(0)"
    running = asyncio.create_task(Supervisor(some, lambda: some, command(tmp_path, program)).run())
    assert await end(running) == 0
    assert signals(tmp_path) == [f"1 {os.getpid()}"]


@pytest.mark.parametrize(("taken", "numbers"), [("1", ["1"]), (True, ["0", "1"])])
async def test_a_shard_takes_over_until_it_serves(
    config: Config, tmp_path: Path, taken: bool | str, numbers: list[str]
) -> None:
    """Each fails at its first start, serves at the second one, and is killed."""
    some = replace(config, replace=taken)
    program = (
        f"starts = sys.argv[1] + number\nopen(starts, 'a').write(os.environ.get({SHARD_REPLACES!r}, 'no') + ' ')\n"
        "if len(open(starts).read().split()) == 1: sys.exit(1)\n"
        "if len(open(starts).read().split()) == 2: tell('READY=1'); os.kill(os.getpid(), signal.SIGKILL)\n"
        f"{SERVE}"
    )
    supervisor = Supervisor(some, lambda: some, command(tmp_path, program))
    running = asyncio.create_task(supervisor.run())
    told = [tmp_path / f"signals{number}" for number in "01"]
    await reached(lambda: all(each.exists() and len(each.read_text().split()) == 3 for each in told))
    assert [each.read_text().split() for each in told] == [
        ["yes", "yes", "no"] if number in numbers else ["no", "no", "no"] for number in "01"
    ]
    supervisor.stop()
    assert await end(running) == 0


async def test_replace_that_has_changed_counts_at_a_reload_for_shards_that_do_not_serve(
    config: Config, tmp_path: Path, log: list[structlog.typing.EventDict]
) -> None:
    """Shard 1 is refused until it takes over; both are killed later, and take over no more."""
    settings = [config]
    program = (
        f"{RECORD}is_refused = number == '1' and not os.path.exists(sys.argv[1] + '-open') and replaces == 'no'\n"
        f"if is_refused: sys.exit({DIRECTORY_REFUSED})\n{SERVE}"
    )
    supervisor = Supervisor(config, lambda: settings[0], command(tmp_path, program))
    running = asyncio.create_task(supervisor.run())
    await reached(lambda: any(row["event"] == "shard-failed" for row in log) and supervisor._shards[0].serves)
    settings[0] = replace(config, replace=True)
    supervisor.reload()
    await reached(lambda: all(shard.serves for shard in supervisor._shards))
    assert starts(tmp_path, 0) == ["no"] and starts(tmp_path, 1)[-1] == "yes"
    (tmp_path / "signals-open").touch()
    before = [len(starts(tmp_path, number)) for number in (0, 1)]
    for shard in supervisor._shards:
        os.kill(shard.process_id, signal.SIGKILL)
    await reached(lambda: all(not shard.serves for shard in supervisor._shards))
    supervisor.reload()
    await reached(lambda: [len(starts(tmp_path, number)) for number in (0, 1)] == [before[0] + 1, before[1] + 1])
    assert starts(tmp_path, 0)[-1] == starts(tmp_path, 1)[-1] == "no"
    supervisor.stop()
    assert await end(running) == 0


def starts(tmp_path: Path, number: int) -> list[str]:
    """Whether a shard took over, for each of its starts."""
    path = tmp_path / f"signals{number}"
    return path.read_text().split() if path.exists() else []


async def test_a_move_that_is_called_off_with_replace_takes_over(config: Config, tmp_path: Path) -> None:
    """At the reload the process still sends clients to the new address."""
    settings = [config]
    program = (
        f"{RECORD}def move(*_):\n    signal.signal(signal.SIGHUP, lambda *_: sys.exit(0))\n    tell({MOVED!r})\n"
        f"if number == '1': signal.signal(signal.SIGHUP, move)\n{SERVE}"
    )
    supervisor = Supervisor(config, lambda: settings[0], command(tmp_path, program))
    running = asyncio.create_task(supervisor.run())
    await reached(lambda: len(supervisor._shards) == 2 and all(shard.serves for shard in supervisor._shards))
    settings[0] = replace(config, shard="0", announce=("1=b:7000",))
    supervisor.reload()
    await reached(lambda: not supervisor._shards[1].serves)
    settings[0] = replace(config, replace="1")
    supervisor.reload()
    await reached(lambda: starts(tmp_path, 1) == ["no", "yes"])
    supervisor.stop()
    assert await end(running) == 0


async def test_a_shard_that_starts_again_has_the_settings_of_its_supervisor(config: Config, tmp_path: Path) -> None:
    """The file may say something else by then; where shards are reached changes with the map."""
    settings = [config]
    program = f"open(sys.argv[1], 'a').write(os.environ[{SHARD_SETTINGS!r}] + '\\n')\ntell('READY=1')\n{SERVE}"
    supervisor = Supervisor(config, lambda: settings[0], command(tmp_path, program))
    running = asyncio.create_task(supervisor.run())
    await reached(lambda: len(signals(tmp_path)) == 2)
    settings[0] = replace(config, shards=3, port=7000, announce=("1=b:7000",))
    supervisor.reload()
    os.kill(next(shard.process_id for shard in supervisor._shards), signal.SIGKILL)
    await reached(lambda: len(handed(tmp_path)) == 3)
    assert [row["shards"] for row in handed(tmp_path)] == [2, 2, 2]
    assert [row["announce"] for row in handed(tmp_path)] == [(), (), ("1=b:7000",)]
    assert {row["port"] for row in handed(tmp_path)} == {config.port}
    supervisor.stop()
    assert await end(running) == 0


def handed(tmp_path: Path) -> list[Values]:
    return [decoded(line) for line in (tmp_path / "signals").read_text().splitlines() if line.startswith("{")]


async def test_a_shard_comes_and_one_moves_at_a_reload(config: Config, tmp_path: Path) -> None:
    """The process of the one that moves ends when it has told its clients."""
    settings = [replace(config, shard="0", announce=("1=b:7000",))]
    program = f"if number == '0': signal.signal(signal.SIGHUP, lambda *_: sys.exit(0))\nhear(1, 0)\n{SERVE}"
    supervisor = Supervisor(settings[0], lambda: settings[0], command(tmp_path, program))
    running = asyncio.create_task(supervisor.run())
    await reached(lambda: signals(tmp_path) == ["0 SIGHUP"])
    settings[0] = replace(config, shard="1", announce=("0=b:7000",))
    supervisor.reload()
    await reached(lambda: signals(tmp_path) == ["0 SIGHUP", "1 SIGHUP"])
    read = ShardMapFile(of_shard(config, 1))
    assert read.is_here and read.current().epoch == 2
    supervisor.stop()
    assert await end(running) == 0


async def test_one_whose_move_came_with_a_start_is_started_to_move(
    config: Config, tmp_path: Path, log: list[structlog.typing.EventDict]
) -> None:
    """Also while others do not serve yet, which wrong settings of one of them would end."""
    with closing(RealDisk(config.data)) as disk:
        found_or_follow(config, disk)
    some = replace(config, shard="0", announce=("1=b:7000",))
    program = (
        f"if number == '1': sys.exit({USAGE_ERROR})\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.01)\n{SERVE}"
    )
    supervisor = Supervisor(some, lambda: some, command(tmp_path, program))
    running = asyncio.create_task(supervisor.run())
    await reached(lambda: [shard.number for shard in supervisor._shards] == [0])
    assert [(row["shard"], row["address"]) for row in log if row["event"] == "shard-moves-late"] == [(1, "b:7001")]
    assert sorted(row["shard"] for row in log if row["event"] == "shard-started") == [0, 1]
    supervisor.reload()
    (tmp_path / "signals").touch()
    await reached(lambda: [row["shards"] for row in log if row["event"] == "shards-serving"] == [1])
    assert len([row for row in log if row["event"] == "shard-moves-late"]) == 2, "not handed over yet"
    supervisor.stop()
    assert await end(running) == 0


async def test_one_that_is_to_stay_after_all_starts_again(config: Config, tmp_path: Path) -> None:
    some = replace(config, shard="0", announce=("1=b:7000",))
    settings = [config]
    program = (
        f"if number == '1': signal.signal(signal.SIGHUP, lambda *_: (tell({MOVED!r}), sys.exit(0)))\n"
        f"hear(1, 0)\n{SERVE}"
    )
    supervisor = Supervisor(config, lambda: settings[0], command(tmp_path, program))
    running = asyncio.create_task(supervisor.run())
    await reached(lambda: signals(tmp_path) == ["0 SIGHUP", "1 SIGHUP"])
    for settings[0] in (some, config):
        supervisor.reload()
    await reached(lambda: signals(tmp_path).count("1 SIGHUP") == 2)
    supervisor.stop()
    assert await end(running) == 0


def test_a_shard_is_started_as_this_process_was() -> None:
    assert own_command() == [sys.executable, *sys.orig_argv[1:]]


async def test_a_shard_that_has_left_is_not_started_again_and_the_last_one_ends_all(
    config: Config, tmp_path: Path, log: list[structlog.typing.EventDict]
) -> None:
    program = (
        f"tell('READY=1')\nif number == '1': tell({LEFT!r}); tell('STOPPING=1\\nSTATUS=stopping'); sys.exit(0)\n"
        f"signal.signal(signal.SIGUSR1, lambda *_: (tell({LEFT!r}), sys.exit(0)))\nwhile True: time.sleep(0.05)\n"
    )
    running = asyncio.create_task(Supervisor(config, lambda: config, command(tmp_path, program)).run())
    await reached(lambda: [row["shard"] for row in log if row["event"] == "shard-left"] == [1])
    os.kill(os.getpid(), signal.SIGHUP)
    await reached(lambda: signals(tmp_path) == ["0 SIGHUP"])
    started = [row for row in log if row["event"] == "shard-started"]
    assert [row["shard"] for row in started] == [0, 1]
    os.kill(started[0]["process"], signal.SIGUSR1)
    assert await end(running) == 0
