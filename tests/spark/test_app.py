"""The commands of the jobs: what they take and what they print."""

from __future__ import annotations

import json
import socket
from contextlib import redirect_stderr
from datetime import UTC, datetime, timedelta, timezone
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import typer

pytest.importorskip("pyspark")

from pyspark.errors import PySparkException
from rich.console import Console
from typer.testing import CliRunner

from crdtstream.cli.app import app as main
from crdtstream.spark import app as jobs
from crdtstream.spark import arguments, output
from crdtstream.spark.jobs.audit import Audited, Divergence
from crdtstream.spark.jobs.report import ReportRow
from crdtstream.spark.options import OptionError


def text(shown: object) -> str:
    console = Console(width=160, record=True, file=StringIO())
    console.print(shown)
    return console.export_text()


def test_options_are_handed_on() -> None:
    options = arguments.options_of("a:1,b:2", pattern="x*", option=["passwordFile=/p=q", "database=1"])
    assert options == {"endpoints": "a:1,b:2", "streamsPattern": "x*", "passwordFile": "/p=q", "database": "1"}
    with pytest.raises(typer.BadParameter, match="'database' has no value: write --option NAME=VALUE"):
        arguments.options_of("a:1", option=["database"])


def test_times_are_utc_unless_they_say_otherwise() -> None:
    assert arguments.moment("begins", "") is None
    assert arguments.moment("begins", "2026-11-22T14:00") == datetime(2026, 11, 22, 14, tzinfo=UTC)
    there = timezone(timedelta(hours=2))
    assert arguments.moment("ends", "2026-11-22T14:00+02:00") == datetime(2026, 11, 22, 14, tzinfo=there)
    with pytest.raises(typer.BadParameter, match="ends is 'noon': write a time such as"):
        arguments.moment("ends", "noon")


def test_divergences_are_shown_by_region() -> None:
    one = Divergence("orders", "1.ab", 7, "", {"east": "5-1 C0FFEE"})
    shown = text(output.table_of_divergences(Audited(["east", "west"], {}, divergences=[one] * 50)))
    assert "5-1 C0FFEE" in shown and "absent" in shown and "and 10 more" in shown


def test_a_report_shows_the_largest_rows_and_writes_all(tmp_path: Path) -> None:
    hour = datetime(2026, 11, 22, 14, tzinfo=UTC)
    rows = [ReportRow(f"s{number}", "1.ab", hour, number, 10, 1, 2, 0) for number in range(1, 51)]
    shown = text(output.table_of_report(rows))
    assert "1,275 entries, 500 bytes" in shown and "the largest 40 of 50 rows" in shown
    assert "11-22 14:00" in shown
    output.write_report(rows, str(tmp_path / "all.csv"), str(tmp_path / "all.json"))
    assert len((tmp_path / "all.csv").read_text().splitlines()) == 51
    assert json.loads((tmp_path / "all.json").read_text())[49] == {
        "stream": "s50",
        "origin": "1.ab",
        "hour": "2026-11-22T14:00:00+00:00",
        "entries": 50,
        "size_bytes": 10,
        "lag_ms": 1,
        "lag_ms_max": 2,
        "conflicts": 0,
    }


def test_a_table_without_a_terminal_is_not_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    long = Divergence("s" * 200, "1.1eedd2cf6377f6", 7, "", {"east": "1700000000000-1 " + "C0FFEE" * 20})
    output.console_of().print(output.table_of_divergences(Audited(["east", "west"], {}, divergences=[long])))
    shown = capsys.readouterr().out
    assert long.stream in shown and long.origin in shown and long.held["east"] in shown
    hour = datetime(2026, 11, 22, 14, tzinfo=UTC)
    row = ReportRow("s" * 200, "1.1eedd2cf6377f6", hour, 10**12, 10**15, 10**9, 10**9, 10**6)
    output.console_of().print(output.table_of_report([row]))
    shown = capsys.readouterr().out
    for whole in (row.stream, row.origin, "11-22 14:00", "1,000,000,000,000,000", "1,000,000,000"):
        assert whole in shown
    monkeypatch.setenv("COLUMNS", "60")
    output.console_of().print(output.table_of_report([row]))
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 60


def test_an_audit_is_written_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = [
        Divergence("orders", "1.ab", 7, "", {"east": "5-1 C0FFEE"}),
        Divergence("orders", "1.ab", 0, "g", {"east": "3", "west": "4"}),
    ]
    done = Audited(["east", "west"], {"1.ab": 9}, 1, 20, 2, found, 0.5)
    output.write_audit(done, "-", str(tmp_path / "audit.json"))
    assert capsys.readouterr().out.splitlines() == [
        "stream,origin,seq,group,held east,held west",
        "orders,1.ab,7,,5-1 C0FFEE,",
        "orders,1.ab,,g,3,4",
    ]
    written = json.loads((tmp_path / "audit.json").read_text())
    assert written["cut"] == {"1.ab": 9} and written["regions"] == ["east", "west"]
    assert written["divergences"][0]["held"] == {"east": "5-1 C0FFEE"}


def test_data_on_standard_output_is_alone_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hour = datetime(2026, 11, 22, 14, tzinfo=UTC)
    monkeypatch.setattr(jobs, "session_of", lambda _name, _master: None)
    monkeypatch.setattr("crdtstream.spark.jobs.report.report", lambda *_: [ReportRow("s", "1.ab", hour, 1, 1, 1, 1, 0)])
    with pytest.raises(SystemExit) as ended:
        jobs.main(["report", "x", "--json", "-"])
    assert ended.value.code == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)[0]["stream"] == "s" and "1 entries" in printed.err


@pytest.mark.parametrize(
    ("command", "function"), [(["report"], "report.report"), (["replay", "--endpoints", "a:1"], "replay.replay")]
)
def test_a_table_is_opened_with_the_options_of_its_store(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: list[str], function: str
) -> None:
    pytest.importorskip("deltalake")
    (tmp_path / "_delta_log").mkdir()
    seen: list[Any] = []

    def job(_spark: object, archive: object, *_arguments: object) -> list[object]:
        seen.append(archive)
        raise OptionError("seen")

    monkeypatch.setattr(jobs, "session_of", lambda _name, _master: None)
    monkeypatch.setattr(f"crdtstream.spark.jobs.{function}", job)
    with pytest.raises(SystemExit):
        jobs.main([command[0], str(tmp_path), *command[1:], "--store-option", "AWS_REGION=x"])
    assert (seen[0].kind, seen[0].storage) == ("delta", {"AWS_REGION": "x"})


def test_the_command_line_knows_the_jobs() -> None:
    shown = CliRunner().invoke(main, ["spark", "--help"])
    assert shown.exit_code == 0
    for name in ("archive", "audit", "backfill", "replay", "report", "package"):
        assert name in shown.output


def failing(monkeypatch: pytest.MonkeyPatch, error: Exception) -> tuple[int, str]:
    """The exit code and what is printed where a job raises that."""

    def raises(*_arguments: object) -> None:
        raise error

    monkeypatch.setattr(jobs, "session_of", lambda _name, _master: None)
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


def test_metrics_on_a_port_in_use_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(SystemExit) as ended:
        jobs.write_metrics("backfill", taken.getsockname()[1])
    assert ended.value.code == jobs.USAGE_ERROR
    assert (
        "for metrics cannot be opened: Address already in use. Give another --metrics-port" in capsys.readouterr().err
    )
