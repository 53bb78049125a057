"""CONFIG REWRITE: what stays, what changes, what is added, and that the result is read back as it was meant."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.commands.settings import SETTINGS, changed
from crdtstream.settings.config import Config, Limits
from crdtstream.settings.rewriting import rewrite_file, rewritten
from crdtstream.settings.sources import load_config

FILE = """\
# The eastern region.
name = "east"   # for people
region = 1
cluster = 'shop'

port = 6379
peers = [
    "west:16379",  # the western one
    "north:16379",
]
requirepass = "old # secret" # ours

[limits]
# Few.
clients_max = 10 # at most
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "region.toml"
    file.write_text(FILE)
    file.chmod(0o640)
    return file


def test_nothing_changed(path: Path) -> None:
    assert rewrite_file(load_config(path, {})) == ""
    assert path.read_text() == FILE
    assert path.stat().st_mode & 0o777 == 0o640
    assert [file.name for file in path.parent.iterdir()] == ["region.toml"]


def test_values_change_in_their_place(path: Path) -> None:
    config = load_config(path, {"data": "elsewhere", "peers": ("west:1",)})
    limits = replace(config.limits, clients_max=20, memory_bytes_max=1 << 30)
    assert rewrite_file(replace(config, requirepass='a "b" \\', limits=limits)) == ""
    assert path.read_text() == (
        """\
# The eastern region.
name = "east"   # for people
region = 1
cluster = 'shop'

port = 6379
peers = ["west:1"]
requirepass = "a \\"b\\" \\\\" # ours
data = "elsewhere"

[limits]
# Few.
clients_max = 20 # at most
memory_bytes_max = 1073741824
"""
    )


def test_a_table_of_limits_is_added() -> None:
    config = Config("east", 1, "shop", limits=Limits(heartbeat_ms=7))
    text = rewritten('name = "east"\nregion = 1\ncluster = "shop"\n', config)
    assert text == 'name = "east"\nregion = 1\ncluster = "shop"\n\n[limits]\nheartbeat_ms = 7\n'


@pytest.mark.parametrize("limits", ["limits = { heartbeat_ms = 9 } # few\n", "limits.heartbeat_ms = 9 # few\n"])
def test_limits_may_be_written_in_one_line(limits: str) -> None:
    text = 'name = "east"\nregion = 1\ncluster = "shop"\n' + limits + "# The end.\n"
    changed_text = rewritten(text, Config("east", 1, "shop", limits=Limits(heartbeat_ms=7)))
    assert changed_text == text.replace("9", "7")


def test_failures_are_told(path: Path, tmp_path: Path) -> None:
    config = load_config(path, {})
    assert rewrite_file(replace(config, config_file=str(tmp_path / "gone.toml"))) == "No such file or directory"
    assert "not UTF-8" in rewrite_file(replace(config, requirepass="\udcff"))
    path.write_text("name = ")
    assert "Invalid value" in rewrite_file(config)
    assert path.read_text() == "name = "


def test_a_password_of_a_file_of_its_own_stays_there() -> None:
    text = 'name = "east"\nregion = 1\ncluster = "shop"\nrequirepass-file = "/run/secret" # ours\n'
    config = Config("east", 1, "shop", requirepass="secret", requirepass_file="/run/secret")
    assert rewritten(text, config) == text


def test_a_token_of_a_file_of_its_own_stays_there() -> None:
    text = 'name = "east"\nregion = 1\ncluster = "shop"\nhttp-token-file = "/run/token" # ours\n'
    config = Config("east", 1, "shop", http_token="secret", http_token_file="/run/token")
    assert rewritten(text, config) == text


@pytest.mark.parametrize("kept", ["", "replace = true # after the fire\n", "replace = false\n"])
def test_what_was_said_of_one_start_is_not_written(kept: str) -> None:
    """`--replace` would take the place of a later origin of the region at every start."""
    text = 'name = "east"\nregion = 1\ncluster = "shop"\n' + kept
    assert rewritten(text, Config("east", 1, "shop", replace=True)) == text


def test_a_password_that_was_changed_replaces_that_of_the_file() -> None:
    text = 'name = "east"\nregion = 1\ncluster = "shop"\nrequirepass-file = "/run/secret"\n'
    config = Config("east", 1, "shop", requirepass="secret", requirepass_file="/run/secret")
    values = tomllib.loads(rewritten(text, changed(config, [(SETTINGS["requirepass"], "new")])))
    assert (values["requirepass"], values["requirepass-file"]) == ("new", "")


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(requirepass=texts, data=texts, clients=st.integers(0, 2**40), port=st.integers(0, 65535), tls=st.booleans())
def test_whatever_is_set_is_read_back(requirepass: str, data: str, clients: int, port: int, tls: bool) -> None:
    config = Config("east", 1, "shop", peers=("west:16379", "north:16379"), port=port, insecure_replication=tls)
    config = replace(config, requirepass=requirepass, data=data, limits=Limits(clients_max=clients))
    text = rewritten(FILE, config)
    assert rewritten(text, config) == text
    assert "# The eastern region." in text
