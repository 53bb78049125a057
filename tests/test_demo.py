"""The demo as users start it: processes, ports and an exit code, and what it says when something does not hold."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

import pytest
import redis
from rich.console import Console

from crdtstream.demo.run import run_demo
from crdtstream.demo.story import Story, all_stories

ROOT = Path(__file__).resolve().parent.parent
DEMO = ("-m", "crdtstream", "demo")
NO_STORIES = ("-c", "from crdtstream.demo.run import run_demo; raise SystemExit(run_demo(False, stories=()))")
REGION_ROW = re.compile(r"(east|west|north) +. \d +. (\d+) +. \d+ +. (\d+) ")
COMMANDS = (
    "XRANGE payments - +",
    "XINFO GROUPS payments",
    "XINFO GROUPS jobs",
    "XINFO GROUPS ticks",
    "CRDT.DIGEST",
)


def environment(scratch: Path) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(scratch), "PYTHONPATH": str(ROOT)}


@contextmanager
def demo_that_stays(scratch: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process, and what it had printed when it was ready for the user."""
    command = [sys.executable, *arguments]
    with subprocess.Popen(command, env=environment(scratch), text=True, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        text = ""
        try:
            for line in process.stdout:
                text += line
                if line.startswith("Ctrl-C"):
                    break
            yield process, text
        finally:
            process.terminate()


@pytest.mark.parametrize("shards", [1, 2])
def test_once_tells_every_story_and_exits_0(tmp_path: Path, shards: int) -> None:
    command = [sys.executable, *DEMO, "--once", "--shards", str(shards)]
    done = subprocess.run(command, env=environment(tmp_path), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(story.title in done.stdout for story in all_stories())
    assert "All held: 9 stories" in done.stdout
    assert ("(all of shard 1)" in done.stdout) == (shards > 1)
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == []


def test_without_once_every_region_answers_alike_until_sigterm(tmp_path: Path) -> None:
    with demo_that_stays(tmp_path, *DEMO) as (process, text):
        ports = [int(port) for _, port, _ in REGION_ROW.findall(text)]
        pids = [int(pid) for _, _, pid in REGION_ROW.findall(text)]
        assert len(ports) == 3
        assert all(f"redis-cli -p {port} " in text for port in ports)
        for command in COMMANDS:
            answers = [ask(port, command) for port in ports]
            assert answers[0] and answers == [answers[0]] * 3, command
        process.terminate()
        assert process.wait(60) == 0
    assert list(tmp_path.iterdir()) == []
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def ask(port: int, command: str) -> object:
    with redis.Redis(port=port) as client:
        return client.execute_command(*command.split())


def test_a_region_that_ends_is_named(tmp_path: Path) -> None:
    with demo_that_stays(tmp_path, *NO_STORIES) as (process, text):
        pids = {name: int(pid) for name, _, pid in REGION_ROW.findall(text)}
        os.kill(pids["west"], signal.SIGKILL)
        assert process.wait(60) == 1
        assert process.stdout is not None
        assert "region west ended with exit code -9" in process.stdout.read()
    assert list(tmp_path.iterdir()) == []


def test_a_region_that_cannot_start_shows_its_log(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, *DEMO, "--once", "--port-base", str(port - 1)]
        done = subprocess.run(command, env=environment(tmp_path), capture_output=True, text=True)
    assert done.returncode == 1
    assert "region east ended with exit code 1" in done.stdout
    assert "Address already in use" in done.stdout
    assert list(tmp_path.iterdir()) == []


BROKEN = Story(
    """\
# A story that is not so
# Four things in it do not hold.
t1
  1> XADD orders 100 item tea
     100-9
t2
  1> XADD orders 200 item jam
     200-1
  effects 1 0
t3
  1> XGROUP CREATE orders crew 0
     OK
t4
  sync
t5
  2> XREADGROUP GROUP crew ann STREAMS orders >
     [[orders, [[100-1, [item, tea]], [200-1, [item, jam]]]]]
t6
  differ 1 2
"""
)


def test_what_does_not_hold_is_named_and_the_exit_code_is_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    printed = StringIO()
    assert run_demo(True, stories=(BROKEN,), console=Console(file=printed, width=100)) == 1
    complaints = printed.getvalue().partition("Did not hold:")[2]
    assert "A story that is not so, t1, east: XADD orders 100 item tea answered '100-1', expected '100-9'" in complaints
    assert "t2, east: XADD orders 200 item jam answered '200-1, one effect to send'" in complaints
    assert "t6: the digests of east and west should differ" in complaints
    assert "XINFO GROUPS orders is not the same in all regions: east" in complaints
    assert len(complaints.strip().splitlines()) == 4
    assert list(tmp_path.iterdir()) == []


def test_a_step_that_the_demo_cannot_do_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    printed = StringIO()
    story = Story("# A story\nt1\n  sync 1 2\nt2\n  kill 1\n")
    assert run_demo(True, stories=(story,), console=Console(file=printed, width=100)) == 1
    assert "A story, t2: line 5: the demo has no step 'kill'" in printed.getvalue()
