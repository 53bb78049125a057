"""The options that all sub-commands share: where they may stand, and profiles."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from crdtstream.admin.app import app
from crdtstream.admin.group import defaults_of, shared_first
from crdtstream.cli.app import USAGE_ERROR
from crdtstream.processes.ports import free_port

PROFILES = '[default]\nnodes = ["a:1"]\n[shop]\nnodes = ["b:1", "c:1"]\ntimeout = 9.5\nuser = "operator"\n'


@pytest.mark.parametrize(
    ("words", "moved"),
    [
        (["xlen", "x", "--json"], ["--json", "xlen", "x"]),
        (["xlen", "--timeout", "3", "x"], ["--timeout", "3", "xlen", "x"]),
        (["acl", "copy", "--node=a:1", "u", "--node", "b:1"], ["--node=a:1", "--node", "b:1", "acl", "copy", "u"]),
        (["xrange", "x", "--count", "5", "--only"], ["--only", "xrange", "x", "--count", "5"]),
        (["--json", "xlen", "--", "--json"], ["--json", "xlen", "--", "--json"]),
        (["xlen", "x", "--timeout"], ["--timeout", "xlen", "x"]),
    ],
)
def test_shared_options_come_first(words: list[str], moved: list[str]) -> None:
    assert shared_first(words, get_command(app).params) == moved


@pytest.fixture
def profiles(tmp_path: Path) -> Path:
    path = tmp_path / "profiles.toml"
    path.write_text(PROFILES)
    return path


def test_a_profile_gives_defaults(profiles: Path) -> None:
    assert defaults_of(profiles, "shop") == {"node": ["b:1", "c:1"], "timeout_s": 9.5, "user": "operator"}
    assert defaults_of(profiles, None) == {"node": ["a:1"]}
    assert defaults_of(profiles.parent / "none.toml", None) == {}


@pytest.mark.parametrize(
    ("text", "name", "told"),
    [
        (PROFILES, "shops", "has no profile 'shops': choose one of those that it has (default, shop)"),
        ("[shop]\nnode = 1\n", "shop", "a profile has no 'node'; it may have nodes, timeout"),
        ("shop", "shop", "are no TOML"),
    ],
)
def test_a_profile_that_cannot_be_used_is_refused(tmp_path: Path, text: str, name: str, told: str) -> None:
    path = tmp_path / "profiles.toml"
    path.write_text(text)
    with pytest.raises(typer.BadParameter) as caught:
        defaults_of(path, name)
    assert told in str(caught.value)


def test_flags_override_variables_and_these_profiles(profiles: Path) -> None:
    closed = [f"127.0.0.1:{free_port()}" for _ in range(3)]
    profiles.write_text(f'[default]\nnodes = ["{closed[0]}"]\n')

    def asked(*words: str, **variables: str) -> str:
        environment = {"COLUMNS": "160", "CRDTSTREAM_PROFILES": str(profiles), **variables}
        return CliRunner().invoke(app, ["xlen", "x", "--json", *words], env=environment).output

    assert closed[0] in asked()
    from_variable = asked(CRDTSTREAM_NODES=f"{closed[1]} {closed[2]}")
    assert closed[0] not in from_variable and closed[1] in from_variable and closed[2] in from_variable
    from_flag = asked("--node", closed[2], CRDTSTREAM_NODES=closed[1])
    assert closed[1] not in from_flag and closed[2] in from_flag


def test_a_profile_that_is_missing_is_wrong_usage(tmp_path: Path) -> None:
    path = tmp_path / "none.toml"
    with pytest.raises(typer.BadParameter, match="cannot be read: No such file"):
        defaults_of(path, "shop")
    result = CliRunner().invoke(app, ["status", "--profile", "shop"], env={"CRDTSTREAM_PROFILES": str(path)})
    assert result.exit_code == USAGE_ERROR
