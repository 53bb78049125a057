"""`--help` of every command, and of every module that is run: it works, is complete, and needs nothing else.

Help texts pass through typer, and rich reads them as markup. So they have no brackets, and what is printed is compared
with what was written. `scripts/test --oldest` and `--newest` run this with other releases of both.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from crdtstream.cli.app import app
from crdtstream.spark.app import app as spark

ROOT = Path(__file__).resolve().parent.parent
HIDDEN = ("pyspark", "numpy", "pandas", "pyarrow", "matplotlib")
WITHOUT_SPARK = f"""
import sys
sys.modules.update(dict.fromkeys({HIDDEN!r}))
from crdtstream.__main__ import main
sys.argv[0] = "crdtstream"
main()
"""
MODULES = [
    "simulations",
    "fuzz",
    "nemesis",
    "nemesis.cold",
    "nemesis.cold_operations",
    "nemesis.cold_waits",
    "nemesis.mistakes",
    "nemesis.queues",
    "nemesis.instances",
    "nemesis.restarts",
    "nemesis.shards",
    "nemesis.standby",
]
MODULES += [
    "nemesis.spark_kills",
    "nemesis.table_kills",
    "benchmarks",
    "benchmarks.restart_time",
    "benchmarks.many_starts",
]
MODULES += ["benchmarks.stall", "benchmarks.traces", "benchmarks.curves"]


def commands_of(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command below this one, and itself, with the words that name it."""
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from commands_of(child, (*path, name))


# The jobs are commands of their own behind `spark`, which hands its words on.
ALL = dict(commands_of(typer.main.get_command(app)))
ALL |= dict(commands_of(typer.main.get_command(spark), ("spark",)))


def texts_of(command: Any) -> list[str]:
    """What was written for its help: its own text, and those of its options and arguments."""
    own = (command.help or "", command.epilog or "")
    return [text for text in (*own, *(getattr(each, "help", None) or "" for each in command.params)) if text]


def words_in(text: str) -> list[str]:
    """The words, without the boxes and breaks of lines that an output has."""
    return re.findall(r"[\w:/.'-]+", re.sub("[│╭╮╰╯─]", " ", text))


@pytest.mark.parametrize("path", list(ALL), ids=" ".join)
def test_the_help_of_a_command_is_complete(path: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": "10000"})
    assert result.exit_code == 0 and result.exception is None, result.output
    shown = " ".join(words_in(result.output))
    for text in texts_of(ALL[path]):
        assert " ".join(words_in(text)) in shown, text


@pytest.mark.parametrize("path", list(ALL), ids=" ".join)
def test_no_help_text_can_be_read_as_markup(path: tuple[str, ...]) -> None:
    assert [text for text in texts_of(ALL[path]) if "[" in text] == []


def test_every_option_has_a_text() -> None:
    lacking = [
        (path, each.name)
        for path, command in ALL.items()
        for each in command.params
        if each.name not in ("help", "install_completion", "show_completion") and not getattr(each, "help", None)
    ]
    assert lacking == []


@pytest.mark.parametrize(
    "words", [[], ["archive"], ["audit"], ["backfill"], ["replay"], ["report"], ["package"]], ids=" ".join
)
def test_the_help_of_jobs_is_there_without_spark(words: list[str]) -> None:
    command = [sys.executable, "-c", WITHOUT_SPARK, "spark", *words, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    assert "crdtstream spark" in done.stdout


def test_a_job_without_spark_says_what_to_install(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_SPARK, "spark", "report", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 2
    assert done.stderr.startswith("crdtstream spark: ") and "pip install 'crdtstream[spark]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("module", MODULES)
def test_the_help_of_a_module_that_is_run(module: str) -> None:
    if importlib.util.find_spec(module.partition(".")[0]) is None:
        pytest.skip(f"{module} is not beside these tests")
    command = [sys.executable, "-m", module, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    assert "sage: " in done.stdout and "--help" in done.stdout
