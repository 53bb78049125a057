"""Jobs that a signal ends: one sentence, the exit code of the signal, and nothing that goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from rich.console import Console

from crdtstream.processes.waiting import until
from crdtstream.spark import app as jobs
from crdtstream.spark.bars import job_bar
from crdtstream.spark.jobs.backfill import Backfill
from crdtstream.spark.stopping import SIGNALS, JobSignals
from tests.spark.fake_regions import Regions
from tests.spark.job_processes import ROOT, needs_java, said
from tests.spark.jobs.streams import sink

DEADLINE_S = 120

pytestmark = pytest.mark.timeout(2 * DEADLINE_S)
ROWS = 6


class Session:
    """Spark, which a job asks until it is stopped."""

    def __init__(self) -> None:
        self.conf = SimpleNamespace(set=lambda *_: None)
        self.streams = SimpleNamespace(active=[])
        self.sparkContext = SimpleNamespace(setLogLevel=lambda _: None)
        self.stopped = threading.Event()

    def stop(self) -> None:
        self.stopped.set()

    def ask(self) -> None:
        assert self.stopped.wait(DEADLINE_S)
        raise ConnectionError("the session is gone")


def signalled_job(sent: signal.Signals, session: Session, found: JobSignals) -> None:
    found.session = session
    signal.raise_signal(sent)
    session.ask()


@pytest.mark.parametrize("sent", SIGNALS)
def test_a_signal_ends_a_job_with_a_sentence(sent: signal.Signals, capsys: pytest.CaptureFixture[str]) -> None:
    found, session = JobSignals(), Session()
    before = [signal.getsignal(each) for each in SIGNALS]
    with pytest.raises(SystemExit) as ended:
        found.says("it begins again")(signalled_job)(sent, session, found)
    assert ended.value.code == 128 + sent and session.stopped.is_set()
    assert capsys.readouterr() == ("", "crdtstream spark: signalled_job was stopped: it begins again\n")
    assert [signal.getsignal(each) for each in SIGNALS] == before


def test_a_bar_leaves_the_terminal_before_the_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    found, session = JobSignals(), Session()

    def job() -> None:
        with job_bar(Console(stderr=True, force_terminal=True, width=100), "comparing"):
            signalled_job(signal.SIGINT, session, found)

    with pytest.raises(SystemExit):
        found.says("it begins again")(job)()
    shown = capsys.readouterr().err
    assert "comparing" in shown and shown.endswith("crdtstream spark: job was stopped: it begins again\n")
    assert shown.rindex("\x1b[?25h") > shown.rindex("comparing"), "the cursor is back"


@pytest.mark.parametrize("sent", SIGNALS)
def test_what_ends_well_is_asked_first(sent: signal.Signals) -> None:
    found, ended_well = JobSignals(), list[bool]()

    def job() -> None:
        signal.raise_signal(sent)
        ended_well.append(found.asked.wait(DEADLINE_S))

    found.says("", gently=True)(job)()
    assert ended_well == [True]


class Query:
    """A query that never ends by itself."""

    def __init__(self) -> None:
        self.stops = 0

    def awaitTermination(self, timeout_s: float) -> bool:
        signal.raise_signal(signal.SIGINT)
        assert jobs.stopping.asked.wait(DEADLINE_S)
        return False

    def stop(self) -> None:
        """It takes long, so that the user sends another signal."""
        self.stops += 1
        signal.raise_signal(signal.SIGTERM)
        jobs.stopping.session.ask()


def test_the_first_signal_stops_the_query_of_archive_and_another_one_the_job(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    query: Any = Query()

    def session_of(_name: str, _master: str) -> Session:
        session = jobs.stopping.session = Session()
        return session

    monkeypatch.setattr(jobs, "session_of", session_of)
    monkeypatch.setattr("crdtstream.spark.jobs.archive.Archive.start", lambda *_: query)
    with pytest.raises(SystemExit) as ended:
        jobs.main(["archive", str(tmp_path), "--endpoints", "a:1", "--streams-pattern", "*"])
    assert ended.value.code == 143 and query.stops == 1
    assert "archive was stopped: a repeated run goes on after what it has recorded" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["audit"], "audit was stopped: it has not compared everything, and a repeated run begins at the start"),
        (["audit", "--archive", "/none"], "audit was stopped: "),
        (["backfill", "x", "--checkpoint", "y"], "backfill was stopped: what it has published stays, and a repeated "),
        (["backfill", "x", "--as-of", "1"], "with --as-of name the same version"),
        (["replay", "x"], "replay was stopped: what it has written stays, and a repeated run writes it again: choose"),
        (["report", "x"], "report was stopped: it had not written its result, and a repeated run begins again"),
    ],
)
def test_each_job_says_what_a_repeated_run_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    monkeypatch.setattr(jobs, "session_of", lambda *_: signalled_job(signal.SIGTERM, Session(), jobs.stopping))
    endpoints = [] if words[0] == "report" else ["--endpoints", "a:1"]
    with pytest.raises(SystemExit) as ended:
        jobs.main([*words, *endpoints])
    assert ended.value.code == 143 and says in capsys.readouterr().err


RESTS = """
import os, time
from types import SimpleNamespace
from unittest.mock import Mock
from crdtstream.spark.stopping import JobSignals

stopping = JobSignals()

def stop():
    os.write(1, b"stopping\\n")  # What a job prints now is not shown.
    time.sleep(%s)

@stopping.says("it begins again")
def job():
    stopping.session = Mock(streams=SimpleNamespace(active=[]), stop=stop)
    print("begun", flush=True)
    time.sleep(600)

job()
"""


@pytest.mark.parametrize(("stops_s", "second"), [(600, signal.SIGINT), (600, signal.SIGTERM), (0, None)])
def test_a_job_that_rests_is_not_waited_for_and_a_second_signal_ends_it_at_once(
    stops_s: int, second: signal.Signals | None
) -> None:
    """A replay may sleep for hours; and Python could not end its thread without harm."""
    job = subprocess.Popen(
        [sys.executable, "-c", RESTS % stops_s], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert job.stdout is not None and job.stdout.readline() == "begun\n"
    job.send_signal(signal.SIGINT)
    assert job.stdout.readline() == "stopping\n"
    if second is not None:
        job.send_signal(second)
    _, text = job.communicate(timeout=DEADLINE_S)
    assert (job.returncode, text) == (
        -(second or signal.SIGINT),
        "crdtstream spark: job was stopped: it begins again\n",
    )


def is_gone(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


@needs_java
@pytest.mark.parametrize("sent", SIGNALS)
def test_a_backfill_that_is_stopped_is_run_again(
    spark: Any, regions: Regions, tmp_path: Path, sent: signal.Signals
) -> None:
    """The signal goes to the JVM, too, as Ctrl-C and a manager of services send it."""
    (tmp_path / "files").mkdir()
    for number in range(ROWS):
        row = json.dumps({"stream": "s", "f": str(number)})
        (tmp_path / "files" / f"{number}.json").write_text(f"{row}\n")
    loads = ["spark", "backfill", str(tmp_path / "files"), "--endpoints", regions.endpoints, "--format", "json"]
    words = [sys.executable, "-m", "crdtstream", *loads, "--checkpoint", str(tmp_path / "state"), "--batch-bytes", "1"]
    words += ["--rows-per-s", "2"]
    with (tmp_path / "said").open("w") as stderr, (tmp_path / "done").open("w") as done:
        job = subprocess.Popen(words, cwd=ROOT, stdout=done, stderr=stderr, start_new_session=True)
        try:
            until(
                lambda: job.poll() or "rows in 2 batches" in (tmp_path / "done").read_text(), "two batches", DEADLINE_S
            )
            os.killpg(job.pid, sent)
            assert job.wait(DEADLINE_S) == 128 + sent
            until(lambda: is_gone(job.pid), "the end of the JVM", DEADLINE_S)
        finally:
            job.kill()
    (text,) = said((tmp_path / "said").read_text())
    assert "seconds" not in (tmp_path / "done").read_text(), "no summary, as if it had come to its end"
    assert text.startswith("crdtstream spark: backfill was stopped: what it has published stays, and a repeated run ")
    assert 2 <= len(regions.values("s")) < ROWS
    Backfill(spark, str(tmp_path / "files"), "json", sink(regions), str(tmp_path / "state"), batch_bytes=1).run()
    assert sorted(map(int, regions.values("s"))) == list(range(ROWS))
