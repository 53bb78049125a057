"""The command line: what it accepts, and that what it refuses is named, with an exit code and without a traceback."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from crdtstream import __version__, cli
from crdtstream.cli import FAILURE, USAGE_ERROR, app, load_config
from crdtstream.config import Config, ConfigError
from crdtstream.runtime.resp_server import why

ROOT = Path(__file__).resolve().parent.parent
GOOD = ["--name", "east", "--region", "1", "--cluster", "c"]


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def test_version() -> None:
    code, text = run("--version")
    assert code == 0
    assert text in (f"crdtstream {__version__} ({core} core)\n" for core in ("interpreted", "compiled"))


def test_check_passes_what_works(tmp_path: Path) -> None:
    data = tmp_path / "new" / "data"
    checked = run("serve", *GOOD, "--peer", "127.0.0.1:7101", "--data", str(data), "--check")
    assert checked == (0, "The settings are valid.\n")
    assert not data.parent.exists(), "nothing is made"


def test_check_names_each_thing_that_keeps_a_region_from_starting(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    flags = ["--requirepass-file", str(tmp_path / "gone"), "--peer", "host.invalid:1", "--data", str(file / "data")]
    code, output = run("serve", *GOOD, *flags, "--insecure-replication", "--check")
    assert code == FAILURE
    lines = output.splitlines()
    assert [line.split(": ")[0] for line in lines] == ["crdtstream"] * 3
    texts = ("password file", "peer host.invalid:1 cannot be resolved", "cannot be created")
    for line, text in zip(lines, texts, strict=True):
        assert text in line


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "missing: --name, --region, --cluster"),
        (["--name", "east", "--region", "1"], "missing: --cluster"),
        ([*GOOD, "--fsync", "sometimes"], "fsync 'sometimes'"),
        ([*GOOD, "--region", "300"], "region 300"),
        ([*GOOD, "--peer", "west"], "peer 'west'"),
        ([*GOOD, "--config", "/nowhere.toml"], "cannot read /nowhere.toml: No such file"),
    ],
)
def test_check_names_what_does_not(arguments: list[str], text: str) -> None:
    code, output = run("serve", *arguments, "--check")
    assert code == USAGE_ERROR
    assert output.startswith("crdtstream: ") and text in output


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("region = ", "is not TOML"),
        ("name = 5", "name must be str, not 5"),
        ("region = '1'", "region must be int, not '1'"),
        ("region = true", "region must be int, not True"),
        ("incarnation = 'x'", "incarnation must be int, not 'x'"),
        ("insecure-replication = 1", "insecure_replication must be bool, not 1"),
        ("replace = 'yes'", "replace must be bool, not 'yes'"),
        ("colour = 'red'", "unknown setting 'colour'"),
        ("peers = 'west:7101'", "peers must be a list of strings"),
        ("peers = [7101]", "peers must be a list of strings"),
        ("peers = 7101", "peers must be a list of strings"),
        ("limits = 3", "limits must be a table"),
        ("limits = [1]", "limits must be a table"),
        ("[limits]\ncolours = 3", "unknown limit 'colours'"),
        ("[limits]\nclients_max = -1", "limit clients_max must be a whole number"),
        ("[limits]\nclients_max = 1.5", "limit clients_max must be a whole number"),
        ("[limits]\nslow_command_us = -2", "limit slow_command_us must be a whole number"),
        ("[limits]\nclients_max = 0", "limit clients_max 0 must be at least 1"),
    ],
)
def test_a_settings_file_that_does_not_work_is_named(tmp_path: Path, text: str, expected: str) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("cluster = 'c'\n" + text)
    flags = [
        word for name, value in (("name", "east"), ("region", "1")) if name not in text for word in (f"--{name}", value)
    ]
    code, output = run("serve", *flags, "--config", str(file), "--check")
    assert code == USAGE_ERROR
    assert expected in output


def test_flags_override_the_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(
        "name='east'\nregion=1\ncluster='c'\nid-mode='liberal'\npeers=['a:1','b:2']\n[limits]\nclients_max=9"
    )
    config = load_config(file, {"region": 2})
    assert (config.name, config.region, config.id_mode, config.peers) == ("east", 2, "liberal", ("a:1", "b:2"))
    assert config.limits.clients_max == 9


def test_check_names_what_keeps_the_gateway_from_starting(tmp_path: Path) -> None:
    flags = ["serve", *GOOD, "--data", str(tmp_path / "data"), "--oci-port", "0", "--check"]
    assert run(*flags, "--init-streams", "orders:4") == (0, "The settings are valid.\n")
    code, output = run(*flags, "--init-streams", "orders")
    assert code == FAILURE and "init-streams 'orders' must be NAME:PARTITIONS" in output
    code, output = run(*flags, "--oci-keys", str(tmp_path / "gone"))
    assert code == FAILURE and "the keys file" in output


def test_check_names_what_traces_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "crdtstream.runtime.tracing", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    code, output = run("serve", *GOOD, "--otel-endpoint", "http://127.0.0.1:4318", "--check")
    assert code == FAILURE and "pip install 'crdtstream[otel]'" in output


def test_the_gateway_is_imported_only_where_it_is_asked_for() -> None:
    program = "import sys, crdtstream.cli; sys.exit(any(name in sys.modules for name in ('fastapi', 'crdtstream.oci')))"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT).returncode == 0


@pytest.mark.parametrize(("arguments", "expected"), [([], False), (["--replace"], True), (["--no-replace"], False)])
def test_a_start_may_replace_another_process(
    arguments: list[str], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Config] = []
    monkeypatch.setattr(cli, "run_region", seen.append)
    assert run("serve", *GOOD, *arguments)[0] == 0
    assert [config.replace for config in seen] == [expected]


def test_the_password_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Config] = []
    monkeypatch.setattr(cli, "run_region", seen.append)
    monkeypatch.setenv("CRDTSTREAM_REQUIREPASS", "secret")
    assert run("serve", *GOOD)[0] == 0
    assert [config.requirepass for config in seen] == ["secret"]


def test_the_token_of_the_http_port_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Config] = []
    monkeypatch.setattr(cli, "run_region", seen.append)
    monkeypatch.setenv("CRDTSTREAM_HTTP_TOKEN", "secret")
    assert run("serve", *GOOD)[0] == 0
    assert [config.http_token for config in seen] == ["secret"]
    code, output = run("serve", *GOOD, "--http-token-file", "b")
    assert code == USAGE_ERROR and "give only one of them" in output
    code, output = run("serve", *GOOD, "--http-token", "secret")
    assert code == USAGE_ERROR and "--http-token-file" in output


def test_the_password_may_not_be_an_argument() -> None:
    code, output = run("serve", *GOOD, "--requirepass", "secret")
    assert code == USAGE_ERROR and "--requirepass-file" in output


def test_regions_that_are_allowed_are_numbers(tmp_path: Path) -> None:
    assert load_config(None, {"name": "e", "region": 1, "cluster": "c"}).allowed_regions == ()
    file = tmp_path / "settings.toml"
    file.write_text("name='east'\nregion=1\ncluster='c'\nallowed-regions=[2, 3]")
    assert load_config(file, {}).allowed_regions == (2, 3)
    for wrong, reason in (("'2'", "list of region numbers"), ("[300]", "allow-region 300")):
        file.write_text(f"name='east'\nregion=1\ncluster='c'\nallowed-regions={wrong}")
        with pytest.raises(ConfigError, match=reason):
            load_config(file, {})


def test_two_passwords_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRDTSTREAM_REQUIREPASS", "a")
    code, output = run("serve", *GOOD, "--requirepass-file", "b")
    assert code == USAGE_ERROR and "give only one of them" in output


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="is not TOML"):
        load_config(file, {})


def serve_here(tmp_path: Path, *arguments: str) -> tuple[int, str]:
    """In a process of its own, because it sets up logging and an event loop."""
    command = [sys.executable, "-m", "crdtstream", "serve", *GOOD, "--data", str(tmp_path / "data"), *arguments]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert "Traceback" not in ended.stderr, ended.stderr
    return ended.returncode, ended.stderr.splitlines()[-1]


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


@pytest.mark.parametrize(("flag", "other"), [("--port", "--replication-port"), ("--replication-port", "--port")])
def test_a_port_in_use_is_named(tmp_path: Path, taken_port: int, flag: str, other: str) -> None:
    code, said = serve_here(tmp_path, flag, str(taken_port), other, "0")
    assert code == FAILURE
    assert 'reason="cannot listen for ' in said and f"127.0.0.1:{taken_port}" in said and flag in said


def test_an_address_that_is_not_here_is_named(tmp_path: Path) -> None:
    code, said = serve_here(tmp_path, "--bind", "192.0.2.7", "--port", "0", "--replication-port", "0")
    assert code == FAILURE
    assert 'reason="cannot listen for clients on 192.0.2.7:0: ' in said
    assert '; choose another --bind"' in said


def test_a_host_that_nobody_knows_is_not_a_port_in_use() -> None:
    error = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    assert why(error, "--port") == "Name or service not known; choose another --bind"


def test_a_data_directory_of_another_region_is_refused(tmp_path: Path, taken_port: int) -> None:
    serve_here(tmp_path, "--port", str(taken_port), "--replication-port", "0")
    code, said = serve_here(tmp_path, "--port", str(taken_port), "--region", "2")
    assert code == USAGE_ERROR
    assert "belongs to region 1, not to region 2" in said


def test_a_data_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    code, said = serve_here(tmp_path, "--port", "0")
    assert code == FAILURE
    assert f"{tmp_path}/data" in said
