"""What `serve --check` finds before a region is started."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest

from crdtstream.config import Config
from crdtstream.runtime.checking import problems_of
from crdtstream.storage.checkpoint import MANIFEST
from crdtstream.storage.disk import RealDisk
from tests.runtime.speakers import certificate, needs_openssl


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config("east", 1, "c", data=str(tmp_path / "data"))


def with_data(config: Config) -> Path:
    Path(config.data).mkdir()
    return Path(config.data)


def test_what_works_is_left_as_it_was(config: Config) -> None:
    assert problems_of(config) == []
    assert not Path(config.data).exists()
    folder = with_data(config)
    (folder / "kept").write_text("x")
    assert problems_of(config) == []
    assert (folder / "kept").read_text() == "x"


def test_a_directory_that_is_in_use_is_named(config: Config) -> None:
    disk = RealDisk(config.data)
    (problem,) = problems_of(config)
    disk.close()
    assert config.data in problem
    assert problems_of(config) == []


def test_a_manifest_that_is_not_understood_is_named(config: Config) -> None:
    (with_data(config) / MANIFEST).write_bytes(b"garbage")
    (problem,) = problems_of(config)
    assert MANIFEST in problem


def test_every_peer_that_cannot_be_resolved_is_named(config: Config) -> None:
    peers = ("a.invalid:1", "127.0.0.1:2", "b.invalid:3")
    found = problems_of(dataclasses.replace(config, peers=peers, insecure_replication=True))
    assert [problem.split()[2] for problem in found] == ["a.invalid:1", "b.invalid:3"]


def test_what_would_be_exposed_is_told(config: Config) -> None:
    (problem,) = problems_of(dataclasses.replace(config, peers=("10.0.0.9:1",)))
    assert "10.0.0.9 is not loopback" in problem


@needs_openssl
def test_tls_files_that_do_not_belong_together_are_told(config: Config, tmp_path: Path) -> None:
    certificate(tmp_path, "one", None)
    certificate(tmp_path, "two", None)
    good = {"tls_certificate": "one.pem", "tls_key": "one.key", "tls_authority": "two.pem"}
    files = {name: str(tmp_path / file) for name, file in good.items()}
    assert problems_with(config, files) == []
    (problem,) = problems_with(config, {**files, "tls_key": str(tmp_path / "two.key")})
    assert "TLS certificate" in problem and "two.key" in problem
    shutil.copy(tmp_path / "one.key", tmp_path / "authority.pem")
    (problem,) = problems_with(config, {**files, "tls_authority": str(tmp_path / "authority.pem")})
    assert "TLS authority" in problem


@needs_openssl
def test_what_the_ports_that_speak_http_need_is_told(config: Config, tmp_path: Path) -> None:
    certificate(tmp_path, "one", None)
    good = {"tls_cert_file": str(tmp_path / "one.pem"), "tls_key_file": str(tmp_path / "one.key")}
    guarded = dataclasses.replace(config, http_tls=True)
    assert problems_with(guarded, good) == []
    (problem,) = problems_with(guarded, {**good, "tls_key_file": str(tmp_path / "gone")})
    assert "TLS file" in problem and "gone" in problem
    (problem,) = problems_with(guarded, {**good, "http_token": "short"})
    assert "at least 16 characters" in problem


def problems_with(config: Config, files: dict[str, str]) -> list[str]:
    return problems_of(dataclasses.replace(config, **files))  # type: ignore[arg-type]
