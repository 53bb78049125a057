"""The command line: what it accepts, and that what it refuses is named, with an exit code and without a traceback."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from crdtstream import __version__
from crdtstream.cli import app as app_module
from crdtstream.cli.app import FAILURE, USAGE_ERROR, app, shard_settings
from crdtstream.processes.ports import free_port
from crdtstream.runtime.build import build
from crdtstream.runtime.redis.resp_server import why
from crdtstream.settings.config import Config, ConfigError
from crdtstream.settings.handing_on import decoded, encoded
from crdtstream.settings.sources import Sources

ROOT = Path(__file__).resolve().parents[2]
GOOD = ["--name", "east", "--region", "1", "--cluster", "c"]
# What is checked tries to bind its ports, and other servers may run here.
FREE = ["--port", "0", "--replication-port", "0"]


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def test_version() -> None:
    code, text = run("--version")
    assert code == 0
    commit, date = build()
    named = f", commit {commit} of {date}\n"
    assert text in (f"crdtstream {__version__} ({core} core){named}" for core in ("interpreted", "compiled"))


def test_check_passes_what_works(tmp_path: Path) -> None:
    data = tmp_path / "new" / "data"
    checked = run("serve", *GOOD, *FREE, "--peer", "127.0.0.1:7101", "--data", str(data), "--check")
    assert checked == (0, "The settings are valid.\n")
    assert not data.parent.exists(), "nothing is made"


def test_check_names_each_thing_that_keeps_a_region_from_starting(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    flags = ["--requirepass-file", str(tmp_path / "gone"), "--peer", "host.invalid:1", "--data", str(file / "data")]
    code, output = run("serve", *GOOD, *FREE, *flags, "--insecure-replication", "--check")
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
        ([*GOOD, "--peer", "redis://127.0.0.1:1"], "must be HOST:PORT, without a scheme, the replication address"),
        ([*GOOD, "--port", "7", "--replication-port", "7"], "replication-port and port are both 7: give two ports"),
        ([*GOOD, "--config", "/nowhere.toml"], "cannot read /nowhere.toml: No such file"),
    ],
)
def test_check_names_what_does_not(arguments: list[str], text: str) -> None:
    code, output = run("serve", *arguments, "--check")
    assert code == USAGE_ERROR
    assert output.startswith("crdtstream: ") and text in output


def test_check_names_ports_in_use_and_the_own_address(tmp_path: Path, taken_port: int) -> None:
    own = free_port()
    flags = ["--data", str(tmp_path / "data"), "--port", str(taken_port), "--replication-port", str(own)]
    code, output = run("serve", *GOOD, *flags, "--peer", f"127.0.0.1:{own}", "--check")
    assert code == FAILURE
    assert output.splitlines() == [
        f"crdtstream: cannot listen on 127.0.0.1:{taken_port}: Address already in use; choose another --port",
        f"crdtstream: the peer 127.0.0.1:{own} is this region itself: leave out its own address, and name the other"
        " regions",
    ]


def test_check_names_what_keeps_the_gateway_from_starting(tmp_path: Path) -> None:
    flags = ["serve", *GOOD, *FREE, "--data", str(tmp_path / "data"), "--oci-port", "0", "--check"]
    assert run(*flags, "--init-streams", "orders:4") == (0, "The settings are valid.\n")
    code, output = run(*flags, "--init-streams", "orders")
    assert code == FAILURE and "init-streams 'orders' must be NAME:PARTITIONS" in output
    code, output = run(*flags, "--oci-keys", str(tmp_path / "gone"))
    assert code == FAILURE and "the keys file" in output


def test_check_names_what_traces_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "crdtstream.runtime.traces.tracing", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    code, output = run("serve", *GOOD, "--otel-endpoint", "http://127.0.0.1:4318", "--check")
    assert code == FAILURE and "pip install 'crdtstream[otel]'" in output


def test_the_gateway_is_imported_only_where_it_is_asked_for() -> None:
    program = (
        "import sys, crdtstream.cli.app; sys.exit(any(one in sys.modules for one in ('fastapi', 'crdtstream.oci')))"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], False),
        (["--replace"], True),
        (["--no-replace"], False),
        (["--replace=yes", "--log-level", "info"], True),
    ],
)
def test_a_start_may_replace_another_process(
    arguments: list[str], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Config] = []
    monkeypatch.setattr(app_module, "run_region", lambda config, _sources: seen.append(config))
    assert run("serve", *GOOD, *arguments)[0] == 0
    assert [config.replace for config in seen] == [expected]


def test_the_password_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Config] = []
    monkeypatch.setattr(app_module, "run_region", lambda config, _sources: seen.append(config))
    monkeypatch.setenv("CRDTSTREAM_REQUIREPASS", "secret")
    assert run("serve", *GOOD)[0] == 0
    assert [config.requirepass for config in seen] == ["secret"]


def test_the_token_of_the_http_port_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Config] = []
    monkeypatch.setattr(app_module, "run_region", lambda config, _sources: seen.append(config))
    monkeypatch.setenv("CRDTSTREAM_HTTP_TOKEN", "secret")
    assert run("serve", *GOOD)[0] == 0
    assert [config.http_token for config in seen] == ["secret"]
    code, output = run("serve", *GOOD, "--http-token-file", "b")
    assert code == USAGE_ERROR and "give only one of them" in output
    code, output = run("serve", *GOOD, "--http-token", "secret")
    assert code == USAGE_ERROR and "--http-token-file" in output


def test_the_password_may_not_be_an_argument() -> None:
    for words in (["--requirepass", "hush"], ["--requirepass=hush"]):
        code, output = run("serve", *GOOD, *words)
        assert code == USAGE_ERROR and "--requirepass-file" in output and "hush" not in output


@pytest.mark.parametrize(("flag", "near"), [("--peers", "--peer"), ("--heartbeat", "--heartbeat-ms")])
def test_an_unknown_flag_is_told_which_was_meant(flag: str, near: str) -> None:
    code, output = run("serve", *GOOD, flag, "1")
    assert code == USAGE_ERROR and f"No such option: {flag} " in output and near in output.partition("option:")[2]


def test_flags_go_over_variables_and_variables_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Config] = []
    monkeypatch.setattr(app_module, "run_region", lambda config, _sources: seen.append(config))
    file = tmp_path / "settings.toml"
    file.write_text("name='east'\nregion=1\ncluster='c'\nport=1\nbind='::1'\ndata='d'\n[limits]\nheartbeat_ms=7")
    monkeypatch.setenv("CRDTSTREAM_CONFIG", str(file))
    monkeypatch.setenv("CRDTSTREAM_PORT", "2")
    monkeypatch.setenv("CRDTSTREAM_BIND", "127.0.0.2")
    monkeypatch.setenv("CRDTSTREAM_MEMORY_BYTES_MAX", "64mb")
    assert run("serve", "--port", "3", "--memory-bytes-max", "1gb", "--no-protected-mode")[0] == 0
    (config,) = seen
    assert (config.port, config.bind, config.data, config.protected_mode) == (3, "127.0.0.2", "d", False)
    assert (config.limits.memory_bytes_max, config.limits.heartbeat_ms) == (1 << 30, 7)


def test_an_unknown_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRDTSTREAM_PEER", "a:1")
    code, output = run("serve", *GOOD, "--check")
    expected = 'crdtstream: unknown variable "CRDTSTREAM_PEER": did you mean "CRDTSTREAM_PEERS"?\n'
    assert (code, output) == (USAGE_ERROR, expected)


def test_the_sample_is_printed(tmp_path: Path) -> None:
    code, output = run("config", "sample")
    file = tmp_path / "sample.toml"
    file.write_text(output)
    checked = run("serve", "--config", str(file), *FREE, "--data", str(tmp_path / "data"), "--check")
    assert code == 0 and checked == (0, "The settings are valid.\n")


def test_two_passwords_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRDTSTREAM_REQUIREPASS", "a")
    code, output = run("serve", *GOOD, "--requirepass-file", "b")
    assert code == USAGE_ERROR and "give only one of them" in output


def serve_here(tmp_path: Path, *arguments: str) -> tuple[int, str]:
    """In a process of its own, because it sets up logging and an event loop."""
    command = [sys.executable, "-m", "crdtstream", "serve", *GOOD, "--data", str(tmp_path / "data"), *arguments]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert "Traceback" not in ended.stderr, ended.stderr
    # What C libraries write is forwarded by a thread, and may come last.
    told = [line for line in ended.stderr.splitlines() if "event=native-message" not in line]
    return ended.returncode, told[-1]


def test_a_format_of_another_release_is_told_with_that_release(tmp_path: Path) -> None:
    assert serve_here(tmp_path, "--port", "65535", "--bind", "192.0.2.1")[0] == FAILURE
    (segment,) = (tmp_path / "data").glob("log-*")
    data = segment.read_bytes()
    segment.write_bytes(data[:8] + (99).to_bytes(4, "little") + data[12:])
    (tmp_path / "data" / "release").write_text("9.9.9")
    code, reason = serve_here(tmp_path)
    assert code == FAILURE
    assert "is in log format 99" in reason and "release 9.9.9 was the last one to write to" in reason


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


def completed(*words: str) -> list[str]:
    """What a shell is offered for the last word."""
    variables = {"_CRDTSTREAM_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": " ".join(("crdtstream", *words))}
    result = CliRunner().invoke(app, [], prog_name="crdtstream", env=variables)
    return re.findall(r'"([^":]+)"', result.output)


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["ser"], {"serve"}),
        (["serve", "--replication-p"], {"--replication-port"}),
        (["serve", "--memory"], {"--memory-bytes-max"}),
        (["serve", "--fsync", "e"], {"everysec"}),
        (["config", ""], {"sample"}),
        (["admin", "--node", "127.0.0.1:7001", "le"], {"leave"}),
        (["admin", "evict", "--fo"], {"--force"}),
    ],
)
def test_a_shell_completes_commands_flags_and_values(words: list[str], offered: set[str]) -> None:
    assert offered <= set(completed(*words))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_names_the_program(shell: str) -> None:
    result = CliRunner().invoke(app, [], prog_name="crdtstream", env={"_CRDTSTREAM_COMPLETE": f"source_{shell}"})
    assert result.exit_code == 0 and "_CRDTSTREAM_COMPLETE=complete_" in result.output


def test_a_shard_says_whose_settings_do_not_go_together(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text("shards = 2\n[limits]\nclients_max = 0\n")
    supervised = Config("east", 1, "c", shards=2)
    with pytest.raises(ConfigError, match=r"clients_max.*; settings that change at a start are as the supervisor has"):
        shard_settings(Sources(path, {}, {}), 0, decoded(encoded(supervised)))
    with pytest.raises(ConfigError) as alone:
        shard_settings(Sources(path, {"name": "east", "region": 1, "cluster": "c"}, {}), 0)
    assert "supervisor" not in str(alone.value)
