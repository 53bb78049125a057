"""The flags of `serve`: one for each setting that is no secret, with help that says default and unit."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from crdtstream.cli.app import app
from crdtstream.cli.flags import completion_of, help_of, settings_of, spelled_out
from crdtstream.settings.table import KNOWN, SWITCH

COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(scope="module")
def text() -> str:
    shown = CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "300", "CRDTSTREAM_REQUIREPASS": "hush"})
    assert shown.exit_code == 0
    return COLOURS.sub("", shown.output)


def test_the_help_has_every_flag(text: str) -> None:
    for known in KNOWN.values():
        if known.flag:
            assert re.search(rf"{known.flag}\s", text), known.flag
        if known.kind == SWITCH:
            assert f"--no-{known.name} " in text


def test_the_help_says_defaults_and_units(text: str) -> None:
    for flag, rest in (
        ("--port", "PORT .*Default: 6379."),
        ("--fsync", r"always\|everysec\|no .*Default: everysec."),
        ("--heartbeat-ms", "MILLISECONDS .*Default: 1,000 milliseconds."),
        ("--inbox-bytes-max", "BYTES .*Default: 256 MiB."),
        ("--clients-max", "CLIENTS .*Default: 10,000 clients."),
        ("--peer", "HOST:PORT .*May be repeated."),
        ("--name", "WORD .*Required."),
    ):
        assert re.search(rf"{flag} +{rest}", text), flag


def test_the_help_says_where_values_come_from_and_shows_no_secret(text: str) -> None:
    assert "a flag overrides a variable, and a variable the file" in text
    assert "--requirepass " not in text and "hush" not in text


def test_help_has_no_marks_of_markdown() -> None:
    assert not [known.field for known in KNOWN.values() if "`" in help_of(known)]


def test_values_are_completed() -> None:
    complete = completion_of(("always", "everysec", "no"))
    assert (complete(""), complete("e"), complete("x")) == (["always", "everysec", "no"], ["everysec"], [])


ALL = {known.field for known in KNOWN.values() if known.flag}


@pytest.mark.parametrize(
    ("line", "declared"),
    [
        ("serve --name eu --port=7 --check", {"name", "port"}),
        ("serve --no-bulk-tls --config file --peer a:1 --peer b:2", {"bulk_tls", "peers"}),
        ("serve --name --port", {"name", "port"}),
        ("serve", set()),
        ("serve --help", ALL),
        ("serve --name eu --prot 7", ALL),
        ("serve --port -1", ALL),
        ("serve -- --port", ALL),
        ("--version serve --name eu", ALL),
        ("config sample", ALL),
        ("", ALL),
    ],
)
def test_only_flags_that_are_named_are_declared_if_the_line_has_nothing_else(line: str, declared: set[str]) -> None:
    assert {known.field for known in settings_of(line.split(), "serve", {"--config", "--check"})} == declared


@pytest.mark.parametrize(
    ("line", "spelled"),
    [
        ("--replace", "--replace=yes"),
        ("--replace --check", "--replace=yes --check"),
        ("--no-replace 1", "--replace=no 1"),
        ("--replace 0-1 --check", "--replace 0-1 --check"),
        ("--replace 0,2", "--replace 0,2"),
        ("--replace east", "--replace=yes east"),
        ("--replace=0-1 --name replace", "--replace=0-1 --name replace"),
    ],
)
def test_the_value_of_a_switch_for_shards_may_be_left_out(line: str, spelled: str) -> None:
    assert spelled_out(line.split()) == spelled.split()
