"""The commands of the jobs: what they take and what they print."""

from __future__ import annotations

from contextlib import redirect_stderr
from datetime import UTC, datetime, timedelta, timezone
from io import StringIO
from pathlib import Path

import pytest
import typer

pytest.importorskip("pyspark")

from pyspark.errors import PySparkException
from rich.console import Console
from typer.testing import CliRunner

from crdtstream.cli import app as main
from crdtstream.spark import app as jobs
from crdtstream.spark.jobs.audit import Audited, Divergence
from crdtstream.spark.jobs.report import ReportRow
from crdtstream.spark.options import OptionError


def text(shown: object) -> str:
    console = Console(width=160, record=True, file=StringIO())
    console.print(shown)
    return console.export_text()


def test_options_are_handed_on() -> None:
    options = jobs.options_of("a:1,b:2", pattern="x*", option=["passwordFile=/p=q", "database=1"])
    assert options == {"endpoints": "a:1,b:2", "streamsPattern": "x*", "passwordFile": "/p=q", "database": "1"}
    with pytest.raises(typer.BadParameter, match="'database' has no value: write --option NAME=VALUE"):
        jobs.options_of("a:1", option=["database"])


def test_times_are_utc_unless_they_say_otherwise() -> None:
    assert jobs.moment("begins", "") is None
    assert jobs.moment("begins", "2026-11-22T14:00") == datetime(2026, 11, 22, 14, tzinfo=UTC)
    there = timezone(timedelta(hours=2))
    assert jobs.moment("ends", "2026-11-22T14:00+02:00") == datetime(2026, 11, 22, 14, tzinfo=there)
    with pytest.raises(typer.BadParameter, match="ends is 'noon': write a time such as"):
        jobs.moment("ends", "noon")


def test_divergences_are_shown_by_region() -> None:
    one = Divergence("orders", "1.ab", 7, "", {"east": "5-1 C0FFEE"})
    shown = text(jobs.table_of_divergences(Audited(["east", "west"], {}, divergences=[one] * 50)))
    assert "5-1 C0FFEE" in shown and "absent" in shown and "and 10 more" in shown


def test_a_report_shows_the_largest_rows_and_writes_all(tmp_path: Path) -> None:
    hour = datetime(2026, 11, 22, 14, tzinfo=UTC)
    rows = [ReportRow(f"s{number}", "1.ab", hour, number, 10, 1, 2, 0) for number in range(1, 51)]
    shown = text(jobs.table_of_report(rows))
    assert "1,275 entries, 500 bytes" in shown and "the largest 40 of 50 rows" in shown
    assert "11-22 14:00" in shown
    jobs.write_csv(rows, tmp_path / "all.csv")
    assert len((tmp_path / "all.csv").read_text().splitlines()) == 51


def test_the_command_line_knows_the_jobs() -> None:
    shown = CliRunner().invoke(main, ["spark", "--help"])
    assert shown.exit_code == 0
    for name in ("archive", "audit", "backfill", "replay", "report", "package"):
        assert name in shown.output


def failing(monkeypatch: pytest.MonkeyPatch, error: Exception) -> tuple[int, str]:
    """The exit code and what is printed where a job raises that."""

    def raises(*_arguments: object) -> None:
        raise error

    monkeypatch.setattr(jobs, "start_session", lambda _name, _master: None)
    monkeypatch.setattr("crdtstream.spark.jobs.report.report", raises)
    printed = StringIO()
    with redirect_stderr(printed), pytest.raises(SystemExit) as ended:
        jobs.main(["report", "x"])
    assert isinstance(ended.value.code, int)
    return ended.value.code, printed.getvalue()


def test_what_a_user_can_act_on_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    assert failing(monkeypatch, OptionError("streems is not an option")) == (
        3,
        "crdtstream spark: streems is not an option\n",
    )
    wrapped = "[STREAM_FAILED] Ended\nTraceback:\n  x.Stranded: no region answers: a:1: down\n\nState: X"
    assert failing(monkeypatch, PySparkException(wrapped))[1] == "crdtstream spark: no region answers: a:1: down\n"
    assert failing(monkeypatch, PySparkException("no such path"))[1] == "crdtstream spark: no such path\n"
