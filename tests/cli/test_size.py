"""`crdtstream size`: what it prints for people and for programs, and how it refuses a wrong value."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from crdtstream.cli.app import app
from crdtstream.cli.size import WRONG_USAGE, seconds_of, shown
from crdtstream.cli.sizing import SizingError, Workload, size_of

LOAD = ["--entries-per-second", "2000", "--entry-bytes", "200"]


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["size", *words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def test_the_table_ends_with_what_to_set() -> None:
    code, text = run(*LOAD, "--retention", "1h")
    assert code == 0
    needed = size_of(Workload(entries_per_second=2000, entry_bytes=200, retention_seconds=3600))
    assert "3 regions, 7,200,000 entries" in text
    assert shown(needed.disk_bytes) in text
    assert "Set memory_bytes_max to" in text.splitlines()[-1]


def test_json_has_the_workload_and_units_in_names() -> None:
    code, text = run(*LOAD, "--retention", "90m", "--regions", "2", "--json")
    assert code == 0
    told = json.loads(text)
    assert told["workload"]["retention_seconds"] == 5400
    assert told["region"]["entries_retained"] == 10_800_000
    units = ("_bytes", "_bytes_max", "_per_second", "_per_second_max", "_cores_max", "_cores_receiving", "_retained")
    assert all(name.endswith(units) for name in told["region"])


def test_a_load_beyond_a_core_is_told_what_to_do() -> None:
    _, text = run("--entries-per-second", "900000", "--entry-bytes", "16", "--retention", "1m")
    assert "A region is one process on one core" in text
    assert "longer pipelines" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--retention", "7"], "--retention is '7': give a number and a unit of s, m, h, d or w, such as 36h"),
        (["--outage", "soon"], "--outage is 'soon': give a number and a unit"),
        (["--regions", "0"], "--regions is 0: give a value from 1 to 255"),
    ],
)
def test_what_is_wrong_is_named(words: list[str], message: str) -> None:
    code, text = run(*LOAD, *words)
    assert code == WRONG_USAGE
    assert message in " ".join(text.split())


def test_durations_and_sizes() -> None:
    assert [seconds_of("outage", text) for text in ("30s", "1.5h", "2d", "1w")] == [30, 5_400, 172_800, 604_800]
    assert [shown(count) for count in (0, 999, 1_000, 2_345_678, 10**18)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "2.3 MB",
        "1000.0 PB",
    ]
    with pytest.raises(SizingError):
        seconds_of("outage", "-1h")
