"""A terminal in which the commands of one page run: a shell, and redis-cli at each port that the page names.

The page's ports stand for free ones: numbers are exchanged in commands and, back, in output. Regions converge in their
own time, so a command that only reads is repeated until its output is the one shown, or the deadline has passed.
"""

from __future__ import annotations

import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from crdtstream.processes.ports import free_port
from crdtstream.processes.region import RegionProcess
from tests.docs.blocks import ROOT, Block, Command

COMMAND_S = 240.0
REPEATED_S = 20.0
PAUSE_S = 0.05
MARK = "-- end of output --"
PORT = re.compile(r"(?<![\d.])(6379|16379|7[0-3]0[1-9])(?!\d)")
WIDTH = 100
# What redis-cli adds to a reply that took long.
TOOK = re.compile(r"\(\d+\.\d\ds\)")
REFUSALS = ("Could not connect to Redis", "Error: Server closed", "Error: Connection reset")
# What only reads; a shell command may be piped on.
READS = re.compile(
    r"(?:redis-cli (?:-p \d+ )?|crdtstream admin .*)?"
    r"\b(?:PING|INFO|X(?:REV)?RANGE|XLEN|XREAD|XINFO|XPENDING|EXISTS|TTL|CRDT\.(?:REGIONS|MEMBERS|DIGEST|VECTOR)"
    r"|xlen|xrange|xinfo|regions|members|digest|status|groups|diff)\b.*"
)
# The checkout's parts that commands name; `deploy` is copied, because certificates are written there.
LINKED = ("benchmarks", "crdtstream", "docs", "nemesis", "proto", "pyproject.toml", "simulations", "tests")


class Unreachable(Exception):
    """redis-cli has no connection."""


class Shell:
    """One bash for all commands, so that variables, directories and jobs last."""

    def __init__(self, directory: Path) -> None:
        for name in LINKED:
            (directory / name).symlink_to(ROOT / name)
        shutil.copytree(ROOT / "deploy", directory / "deploy", ignore=shutil.ignore_patterns("tls", "wheelhouse"))
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "COLUMNS": str(WIDTH), "TERM": "dumb"}
        self._process = Process(["bash", "--noprofile", "--norc"], directory, environment)

    def run(self, command: str) -> tuple[int, list[str]]:
        # Its own input is not the shell's, which holds the next command.
        text = f"{{ {command}\n}} </dev/null 2>&1\nprintf '\\n%s %s\\n' '{MARK}' $?\n"
        *lines, last = self._process.ask(text, MARK)
        if lines and not lines[-1]:
            lines.pop()
        return int(last.removeprefix(MARK)), lines

    def close(self) -> None:
        self._process.kill()


class RedisCli:
    """redis-cli at one port, as a terminal shows it."""

    def __init__(self, port: int, directory: Path) -> None:
        self._process = Process(["redis-cli", "-p", str(port), "--no-raw"], directory, dict(os.environ))

    def run(self, command: str) -> list[str]:
        """Raises Unreachable; a client that was refused is of no further use."""
        *lines, last = self._process.ask(f"{command}\nECHO '{MARK}'\n", MARK, *REFUSALS)
        if MARK not in last:
            raise Unreachable(last)
        return [line for line in lines if not TOOK.fullmatch(line)]

    def close(self) -> None:
        self._process.kill()


class Process:
    """A program that reads commands, and what it writes, line by line."""

    def __init__(self, argv: list[str], directory: Path, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            argv,
            cwd=directory,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.rstrip())
        self._lines.put(None)

    def ask(self, text: str, *marks: str) -> list[str]:
        """What it writes up to the line that holds one of these, which is the last one."""
        assert self._process.stdin is not None
        self._process.stdin.write(text)
        self._process.stdin.flush()
        lines: list[str] = []
        end = time.monotonic() + COMMAND_S
        while not lines or not any(mark in lines[-1] for mark in marks):
            try:
                line = self._lines.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"no end of output within {COMMAND_S:.0f} s, after: {lines[-20:]}") from None
            assert line is not None, f"it ended after: {lines[-20:]}"
            lines.append(line)
        return lines

    def kill(self) -> None:
        """And all that it started."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


class Session:
    """What the reader of one page does."""

    def __init__(self, directory: Path, regions: list[RegionProcess]) -> None:
        self._directory = directory
        self._shell = Shell(directory)
        self._clients: dict[int, RedisCli] = {}
        self._real: dict[int, int] = {}
        for number, region in enumerate(regions, 1):
            ports = (region.port, region.replication_port, region.bulk_port)
            self._real |= {7000 + kind + number: port for kind, port in zip((0, 100, 200), ports, strict=True)}

    def run(self, block: Block) -> None:
        if block.language == "python":
            program = "\n".join(block.lines)
            code, lines = self._shell.run(f"python - <<'END OF PROGRAM'\n{self._actual(program)}\nEND OF PROGRAM")
            assert code == 0, f"{block.place}: exit code {code}:\n" + "\n".join(lines)
            return
        for command in block.commands():
            self._run(block.page, command)

    def _run(self, page: str, command: Command) -> None:
        end = time.monotonic() + (REPEATED_S if READS.fullmatch(command.text) else 0.0)
        while True:
            fault = self._attempt(command)
            if not fault:
                return
            if time.monotonic() >= end:
                raise AssertionError(f"{page}:{command.line}: {command.text}\n{fault}")
            time.sleep(PAUSE_S)

    def _attempt(self, command: Command) -> str:
        """What is wrong with its output; empty when it is as shown."""
        text = self._actual(command.text)
        code, lines = (0, self._ask_redis(command.port, text)) if command.port else self._shell.run(text)
        shown = [self._documented(line) for line in lines]
        if code:
            return f"exit code {code}:\n" + "\n".join(shown)
        if command.output and not matches(command.output, shown):
            return "shown:\n" + "\n".join(command.output) + "\ncame:\n" + "\n".join(shown)
        return ""

    def _ask_redis(self, port: int, text: str) -> list[str]:
        if port not in self._clients:
            self._clients[port] = RedisCli(self._real_port(port), self._directory)
        try:
            return self._clients[port].run(text)
        except Unreachable as error:
            self._clients.pop(port).close()
            return [str(error)]

    def _real_port(self, port: int) -> int:
        if port not in self._real:
            self._real[port] = free_port()
        return self._real[port]

    def _actual(self, text: str) -> str:
        return PORT.sub(lambda match: str(self._real_port(int(match[0]))), text)

    def _documented(self, line: str) -> str:
        for shown, real in self._real.items():
            line = re.sub(rf"(?<!\d){real}(?!\d)", str(shown), line)
        return line

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
        self._shell.close()


def matches(expected: list[str], lines: list[str]) -> bool:
    return pattern(expected).fullmatch("\n".join(lines).strip("\n") + "\n") is not None


def pattern(expected: list[str]) -> re.Pattern[str]:
    """Lines may end in spaces, and columns may be wider or narrower; blank lines at both ends do not count."""
    parts = []
    for line in "\n".join(line.rstrip() for line in expected).strip("\n").split("\n"):
        words = [re.escape(part) for part in re.split(r"(?<=\S) {2,}", line)]
        inside = " +".join(words).replace(re.escape("..."), ".*")
        parts.append("(?:.*\n)*?" if line.strip() == "..." else f"{inside} *\n")
    return re.compile("".join(parts))
