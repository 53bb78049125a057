"""The supervisor of a region: it writes the map of the shards, runs those of this machine, and passes signals on.

    SIGTERM, SIGINT  all shards stop; a second one makes them stop faster
    SIGHUP           settings and certificates are read again here and by all shards; a shard starts that was stopped or
                     is to run here from now on, and one that is to run elsewhere moves (runtime/moving.py)

At a start and at SIGHUP it also starts those that are to run elsewhere and have not handed their directory over: they
were killed before, or the settings came with a start.

It ends once all of its shards have ended; one that has none goes on until it is told to stop. A shard with wrong
settings ends all of them, unless they have served before: then it is started again like any other that fails, because
the others serve. So is one whose directory is refused (runtime/shard_place.py): it is brought while the others serve.

A shard that is started again has the settings that change at a start only from here (settings/handing_on.py): with
those of a file that was edited meanwhile, it would serve keys of another shard, or where nobody looks for it.

A shard that takes over (`replace`) does so until it serves: what its directory may lack is known then, and what it may
lack at a later start is not. So SIGHUP takes a `replace` that has changed for the shards that do not serve.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial

import structlog

from crdtstream.runtime.service_manager import ServiceManager
from crdtstream.settings.config import Config, ConfigError
from crdtstream.settings.handing_on import encoded
from crdtstream.settings.sharding import here, replaced, validate_shards
from crdtstream.settings.table import SHARD_PROCESS, SHARD_REPLACES, SHARD_SETTINGS, SUPERVISOR
from crdtstream.storage.disk import DiskError, RealDisk
from crdtstream.supervisor.asking import require_unfounded
from crdtstream.supervisor.founding import found_or_follow, not_handed_over, places_of
from crdtstream.supervisor.reports import Reports, ShardReport
from crdtstream.supervisor.shard import USAGE_ERROR, ShardProcess

FAILURE = 1
# What a service manager gave this process, and is not for others.
OF_MANAGER = ("NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC")

# Those of processes that have ended are never claimed.
UNHEARD_MAX = 64

logger = structlog.get_logger()


def own_command() -> list[str]:
    """The command line of this process, for processes that do the same."""
    return [sys.executable, *sys.orig_argv[1:]]


class Supervisor:
    """Runs the shards of one machine; `load` reads the settings again. Raises ConfigError and DiskError."""

    def __init__(self, config: Config, load: Callable[[], Config], command: Sequence[str]) -> None:
        self._config = config
        self._load = load
        self._command = command
        self._disk = RealDisk(config.data)
        self._reports = Reports()
        self._manager = ServiceManager(os.environ.get("NOTIFY_SOCKET", ""))
        # The reports of processes that no shard has named yet.
        self._unheard: list[ShardReport] = []
        self._stopping = False
        self._served = False
        # Those that take over, until they serve.
        self._replaced = set(replaced(config))
        self._shards: list[ShardProcess] = []
        self._tasks: dict[ShardProcess, asyncio.Task[None]] = {}
        self._ended = asyncio.Event()

    async def run(self) -> int:
        """Run until all shards have ended; return the exit code."""
        running = asyncio.get_running_loop()
        with closing(self._disk), closing(self._reports):
            await require_unfounded(self._config)
            self._write_map(self._config)
            running.add_reader(self._reports.fileno(), self._receive)
            for number in (signal.SIGTERM, signal.SIGINT):
                running.add_signal_handler(number, self.stop)
            running.add_signal_handler(signal.SIGHUP, self.reload)
            try:
                self._start_missing()
                self._look()
                await self._run_all()
            finally:
                running.remove_reader(self._reports.fileno())
        if any(shard.code == USAGE_ERROR for shard in self._shards):
            return USAGE_ERROR
        return 0 if all(shard.ended_well() for shard in self._shards) else FAILURE

    def _environment_of(self, number: int) -> dict[str, str]:
        environment = {name: value for name, value in os.environ.items() if name not in OF_MANAGER}
        environment |= {
            SHARD_PROCESS: str(number),
            SUPERVISOR: str(os.getpid()),
            SHARD_SETTINGS: encoded(self._config),
            "NOTIFY_SOCKET": self._reports.address,
        }
        return environment | ({SHARD_REPLACES: "yes"} if number in self._replaced else {})

    def _start_missing(self) -> None:
        """Start the shards that run here from now on, and those that have not been told yet that they move."""
        running = {shard.number for shard in self._shards}
        staying = set(not_handed_over(self._config, self._disk.names())) - running
        for number in staying:
            logger.warning("shard-moves-late", shard=number, address=places_of(self._config)[number].address)
        for number in sorted(staying.union(here(self._config)) - running):
            shard = ShardProcess(number, self._command, partial(self._environment_of, number), self._look)
            shard.follow(number not in staying)
            self._shards.append(shard)
            self._tasks[shard] = task = asyncio.create_task(shard.run())
            task.add_done_callback(lambda _: self._ended.set())
        self._shards.sort(key=lambda shard: shard.number)

    async def _run_all(self) -> None:
        while not (all(task.done() for task in self._tasks.values()) and (self._tasks or self._stopping)):
            self._ended.clear()
            await self._ended.wait()
            if any(task.done() and task.exception() is not None for task in self._tasks.values()):
                self.stop()
            self._forget_moved()
        for task in self._tasks.values():
            task.result()

    def _forget_moved(self) -> None:
        for shard, task in list(self._tasks.items()):
            if shard.moves and not self._stopping and task.done():
                self._shards.remove(shard)
                del self._tasks[shard]
                task.result()
                self._look()

    def _write_map(self, config: Config) -> None:
        shards, is_new = found_or_follow(config, self._disk)
        if is_new:
            logger.info("shard-map-written", epoch=shards.epoch, shards=len(shards.places))

    def _receive(self) -> None:
        self._unheard += self._reports.read()
        self._pass_on()

    def _pass_on(self) -> None:
        """Hand reports to their shards; that of a process whose start has not returned yet waits."""
        by_process = {shard.process_id: shard for shard in self._shards if shard.process_id}
        unheard, self._unheard = self._unheard, []
        for report in unheard:
            shard = by_process.get(report.process)
            if shard is None:
                self._unheard.append(report)
            else:
                shard.heard(report)
        del self._unheard[:-UNHEARD_MAX]

    def _look(self) -> None:
        """A shard has changed: tell the service manager, and end if that is the end of all."""
        if self._unheard:
            asyncio.get_running_loop().call_soon(self._pass_on)
        self._replaced -= {shard.number for shard in self._shards if shard.serves or shard.moves}
        waiting = [shard for shard in self._shards if shard.status and not shard.moves]
        if not waiting and not self._served:
            self._served = True
            logger.info("shards-serving", shards=len([shard for shard in self._shards if not shard.moves]))
        first = waiting[0] if waiting else None
        self._manager.notify("" if first is None else f"shard {first.number}: {first.status}", self._stopping)
        failed = any(shard.code == USAGE_ERROR and not (shard.process_id or shard.moves) for shard in self._shards)
        is_down = bool(self._shards) and all(shard.is_down for shard in self._shards)
        # Once: a second signal has shards stop without a checkpoint.
        if (is_down or (failed and not self._served)) and not self._stopping:
            self.stop()

    def stop(self) -> None:
        """Stop all shards; a second call makes them stop faster."""
        if not self._stopping:
            logger.info("shards-stopping")
        self._stopping = True
        self._manager.notify("", is_stopping=True)
        for shard in self._shards:
            shard.stop()
        self._ended.set()

    def _follow_replace(self, config: Config) -> None:
        """Only a change counts: one that is left in the file for long is not meant for a shard that comes later."""
        if config.replace != self._config.replace:
            self._replaced = set(replaced(config)) - {shard.number for shard in self._shards if shard.serves}

    def reload(self) -> None:
        """Read the settings again, and have the shards do so."""
        # What happened before the signal counts before it: a shard that stops, or has moved, is started again.
        self._receive()
        self._forget_moved()
        self._manager.notify_reload()
        try:
            # Of the settings that the map comes from `announce` and `shard` change without a start.
            loaded = self._load()
            config = dataclasses.replace(
                self._config, announce=loaded.announce, shard=loaded.shard, replace=loaded.replace
            )
            validate_shards(config)
            self._write_map(config)
            self._follow_replace(config)
            self._config = config
        except (ConfigError, DiskError) as error:
            logger.error("settings-not-reloaded", reason=str(error))
        numbers = here(self._config)
        for shard in self._shards:
            shard.follow(shard.number in numbers)
            shard.reload()
        if not self._stopping:
            self._start_missing()
        self._look()
