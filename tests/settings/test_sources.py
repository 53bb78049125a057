"""Settings from flags, variables and a file: which one counts, and that what cannot be used is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from crdtstream.settings.config import ConfigError
from crdtstream.settings.sources import Sources, load_config, values_of_flags, values_of_variables

REGION = {"name": "east", "region": 1, "cluster": "c"}
HEAD = "name = 'east'\nregion = 1\ncluster = 'c'\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "settings.toml"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("region = ", "is not TOML"),
        ("name = 5", "name must be a text, not 5"),
        ("region = '1'", "region must be a whole number, not '1'"),
        ("region = true", "region must be a whole number, not True"),
        ("incarnation = 'x'", "incarnation must be a whole number, not 'x'"),
        ("insecure-replication = 1", "insecure-replication must be true or false, not 1"),
        ("replace = 'yes'", "replace must be true, false, or numbers of shards as a text, as 0-1, not 'yes'"),
        ("port = 70000", "port 70000 must be between 0 and 65535"),
        ("quite-other = 1", 'unknown setting "quite-other"; "crdtstream config sample" shows all'),
        ("peer = ['west:7101']", 'unknown setting "peer": did you mean "peers"?'),
        ("allow-region = [2]", 'unknown setting "allow-region": did you mean "allowed-regions"?'),
        ("[limit]\nclients_max = 3", 'unknown setting "limit": did you mean "limits"?'),
        ("clients_max = 3", 'unknown setting "clients_max": clients_max belongs in the table [limits]'),
        ("bulk-port = 1\nbulk_port = 2", "bulk-port is given twice"),
        ("peers = 'west:7101'", "peers must be a list of texts"),
        ("peers = [7101]", "peers must be a list of texts"),
        ("peers = 7101", "peers must be a list of texts"),
        ("allowed-regions = '2'", "allowed-regions must be a list of whole numbers, [1, 2], not '2'"),
        ("allowed-regions = [300]", "allow-region 300 must be the number of a region"),
        ("limits = 3", "limits must be a table"),
        ("limits = [1]", "limits must be a table"),
        ("[limits]\ncolours = 3", 'unknown limit "colours"'),
        ("[limits]\nclients-max = 3", 'unknown limit "clients-max": did you mean "clients_max"?'),
        ("[limits]\nport = 3", 'unknown limit "port": port belongs above the table [limits]'),
        ("[limits]\nclients_max = -1", "limit clients_max -1 must be at least 1"),
        ("[limits]\nlog_retention_bytes = -1", "limit log_retention_bytes -1 must be at least 0"),
        ("[limits]\nclients_max = 1.5", "limit clients_max must be a whole number, not 1.5"),
        ("[limits]\nslow_command_us = -2", "limit slow_command_us -2 must be at least -1"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(file: Path, text: str, expected: str) -> None:
    file.write_text("cluster = 'c'\n" + text)
    flags = {name: value for name, value in REGION.items() if not text.startswith(f"{name} ")}
    with pytest.raises(ConfigError) as raised:
        load_config(file, flags)
    assert expected in str(raised.value)


def test_an_error_in_a_file_names_the_file(file: Path) -> None:
    file.write_text("peer = []")
    with pytest.raises(ConfigError, match=f'^{file}: unknown setting "peer"'):
        load_config(file, {})
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="is not TOML"):
        load_config(file, {})


def test_no_error_shows_a_secret(file: Path) -> None:
    file.write_text(HEAD + "requirepass = 471147")
    with pytest.raises(ConfigError, match=r"requirepass must be a text$"):
        load_config(file, {})


def test_flags_go_over_variables_over_the_file(file: Path) -> None:
    file.write_text(
        HEAD + "id-mode = 'liberal'\npeers = ['a:1', 'b:2']\nport = 1\nbulk_port = 5\n[limits]\nturn_ms_max = 9"
    )
    config = load_config(file, {"region": 2}, {"CRDTSTREAM_PORT": "2", "CRDTSTREAM_REGION": "3"})
    assert (config.region, config.port, config.bulk_port, config.id_mode) == (2, 2, 5, "liberal")
    assert (config.peers, config.limits.turn_ms_max, config.limits.clients_max) == (("a:1", "b:2"), 9, 10_000)
    assert config.config_file == str(file)


def test_variables_are_texts() -> None:
    given = {
        "CRDTSTREAM_PEERS": "a:1, b:2 c:3",
        "CRDTSTREAM_ALLOWED_REGIONS": "2,3",
        "CRDTSTREAM_BULK_TLS": "Yes",
        "CRDTSTREAM_REPLACE": "no",
        "CRDTSTREAM_BULK_PORT": "0",
        "CRDTSTREAM_SLOW_COMMAND_US": "-1",
        "CRDTSTREAM_WINDOW_BYTES": "1MiB",
        "CRDTSTREAM_REQUIREPASS": "hush",
        "CRDTSTREAM_DATA": "",
        "HOME": "/",
        "_CRDTSTREAM_COMPLETE": "complete_bash",
    }
    assert values_of_variables(given) == {
        "peers": ("a:1", "b:2", "c:3"),
        "allowed_regions": (2, 3),
        "bulk_tls": True,
        "replace": False,
        "bulk_port": 0,
        "slow_command_us": -1,
        "window_bytes": 1 << 20,
        "requirepass": "hush",
    }


@pytest.mark.parametrize(
    ("variable", "text", "expected"),
    [
        ("CRDTSTREAM_PORT", "tcp://10.0.0.1:6379", "the variable CRDTSTREAM_PORT must be a whole number, not 'tcp:"),
        ("CRDTSTREAM_REPLACE", "maybe", "the variable CRDTSTREAM_REPLACE must be true, false, or numbers of shards"),
        ("CRDTSTREAM_BULK_TLS", "maybe", "the variable CRDTSTREAM_BULK_TLS must be true or false, not 'maybe'"),
        ("CRDTSTREAM_ALLOWED_REGIONS", "2 x", "must be a list of whole numbers"),
        ("CRDTSTREAM_WINDOW_BYTES", "1tb", "must be a whole number, or a size such as 64mb, not '1tb'"),
        ("CRDTSTREAM_PEER", "a:1", 'unknown variable "CRDTSTREAM_PEER": did you mean "CRDTSTREAM_PEERS"?'),
        ("CRDTSTREAM_SERVICE_HOST", "1", 'unknown variable "CRDTSTREAM_SERVICE_HOST"; "crdtstream config sample"'),
    ],
)
def test_a_variable_that_cannot_be_used_is_named(variable: str, text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as raised:
        values_of_variables({variable: text})
    assert expected in str(raised.value)


@pytest.mark.parametrize("name", ["COMPILE", "CONFIG", "PASSWORD", "USER"])
def test_variables_of_other_commands_are_let_pass(name: str) -> None:
    assert values_of_variables({f"CRDTSTREAM_{name}": "x"}) == {}


def test_flags_are_texts_and_switches() -> None:
    given = {"port": "7", "bulk_tls": False, "replace": None, "peers": ["a:1", "b:2,c:3"], "allowed_regions": ["4"]}
    expected = {"port": 7, "bulk_tls": False, "peers": ("a:1", "b:2", "c:3"), "allowed_regions": (4,)}
    assert values_of_flags(given) == expected
    with pytest.raises(ConfigError, match=r"^--allow-region must be a list of whole numbers"):
        values_of_flags({"allowed_regions": ["x"]})


def test_what_is_missing_is_named() -> None:
    with pytest.raises(ConfigError, match=r"^missing: --name, --cluster; give each as a flag"):
        load_config(None, {"region": 1})


def test_a_file_is_read_again_under_the_same_flags(file: Path) -> None:
    file.write_text(HEAD + "port = 1\n[limits]\nturn_ms_max = 9")
    sources = Sources(file, {"port": 3}, {"CRDTSTREAM_BIND": "::1"})
    assert sources.load().limits.turn_ms_max == 9
    file.write_text(HEAD + "port = 2\nbind = 'x'\n[limits]\nturn_ms_max = 10")
    again = sources.load()
    assert (again.port, again.bind, again.limits.turn_ms_max) == (3, "::1", 10)


@pytest.mark.parametrize(
    ("text", "shards", "replaces"),
    [
        ("1", "1", True),
        ("0", "1", False),
        ("yes", "1", True),
        ("1", "2", True),
        ("0", "2", False),
        ("1-1", "2", "1-1"),
        ("0-1", "2", "0-1"),
        ("on", "2", True),
    ],
)
def test_in_a_variable_0_and_1_are_a_switch(text: str, shards: str, replaces: object) -> None:
    flags = values_of_flags({"name": "east", "region": "1", "cluster": "c", "shards": shards, "bulk_port": None})
    assert load_config(None, flags, {"CRDTSTREAM_REPLACE": text}).replace == replaces


@pytest.mark.parametrize(
    ("line", "expected"), [("replace = true", True), ('replace = "0-1"', "0-1"), ("replace = false", False)]
)
def test_a_file_names_shards_as_a_text(file: Path, line: str, expected: object) -> None:
    file.write_text(f'name = "east"\nregion = 1\ncluster = "c"\nshards = 2\n{line}\n')
    assert load_config(file, {}).replace == expected
    file.write_text('name = "east"\nregion = 1\ncluster = "c"\nshards = 2\nreplace = 1\n')
    with pytest.raises(ConfigError, match="replace must be true, false, or numbers of shards as a text, as 0-1, not 1"):
        load_config(file, {})
