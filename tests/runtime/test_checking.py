"""What `serve --check` finds before a region is started."""

from __future__ import annotations

import dataclasses
import shutil
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from crdtstream.processes.ports import free_port
from crdtstream.runtime.checking import problems_of
from crdtstream.runtime.checking_ports import peer_problems, port_problems
from crdtstream.settings.config import Config
from crdtstream.storage.checkpoint import MANIFEST
from crdtstream.storage.disk import RealDisk
from simulations.machine import Machine
from tests.runtime.speakers import certificate, needs_openssl

START_MS = 1_700_000_000_000


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config("east", 1, "c", port=0, replication_port=0, data=str(tmp_path / "data"))


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
    assert [path.name for path in folder.iterdir()] == ["kept"], "the lock of a check by root would stop a service"


def test_the_lock_of_a_region_stays(config: Config) -> None:
    RealDisk(config.data).close()
    before = {path.name: path.stat().st_ino for path in Path(config.data).iterdir()}
    assert problems_of(config) == []
    assert {path.name: path.stat().st_ino for path in Path(config.data).iterdir()} == before


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


@pytest.mark.parametrize("path", ["/proc/nothing/data", "/proc/data", "link/data", "link", "x" * 300])
def test_a_directory_that_cannot_be_created_is_named(config: Config, tmp_path: Path, path: str) -> None:
    """Rights do not tell: the superuser may write everywhere, and cannot."""
    (tmp_path / "link").symlink_to(tmp_path / "gone" / "further")
    data = path if path.startswith("/") else str(tmp_path / path)
    before = sorted(tmp_path.iterdir())
    (problem,) = problems_of(dataclasses.replace(config, data=data))
    assert data in problem and "cannot be created" in problem
    assert sorted(tmp_path.iterdir()) == before, "nothing is left behind"


def test_data_of_another_region_is_named(config: Config) -> None:
    saved_region(config)
    assert problems_of(config) == []
    (problem,) = problems_of(dataclasses.replace(config, region=2))
    assert "belongs to region 1, not to region 2" in problem


@pytest.mark.parametrize("start", ["manifest", "state-", "blocks-", "log-"])
def test_files_of_an_unknown_format_are_named(config: Config, start: str) -> None:
    """Each file begins with eight bytes of magic, and the number of its format."""
    saved_region(config)
    path = next(path for path in sorted(Path(config.data).iterdir()) if path.name.startswith(start))
    data = path.read_bytes()
    path.write_bytes(data[:8] + struct.pack("<I", 99) + data[12:])
    (problem,) = problems_of(config)
    assert path.name in problem and "99" in problem and "run the release that wrote it" in problem


def saved_region(config: Config) -> None:
    """A directory with a checkpoint and a log behind it."""
    machine = Machine(config, START_MS)
    for _ in range(200):
        machine.execute([b"XADD", b"s", b"*", b"f", b"v" * 1_000], START_MS)
    machine.checkpoint()
    machine.sync()
    folder = with_data(config)
    for name in machine.disk.names():
        (folder / name).write_bytes(machine.disk.read(name, 0, machine.disk.size(name)))


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


# Ports


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize("name", ["port", "replication_port", "bulk_port", "oci_port", "http_port", "tls_port"])
def test_a_port_in_use_is_named(config: Config, taken: int, name: str) -> None:
    found = [*port_problems(dataclasses.replace(config, **{name: taken}))]  # type: ignore[arg-type]
    setting = name.replace("_", "-")
    assert found == [f"cannot listen on 127.0.0.1:{taken}: Address already in use; choose another --{setting}"]


@pytest.mark.parametrize("name", ["bind", "replication_bind", "bulk_bind", "oci_bind", "http_bind"])
@pytest.mark.parametrize(
    ("bind", "text"), [("192.0.2.1", "Cannot assign requested address"), ("a.invalid", "choose another"), ("a:1", "")]
)
def test_an_address_that_this_machine_does_not_have_is_named(config: Config, name: str, bind: str, text: str) -> None:
    open_ports = dataclasses.replace(config, bulk_port=0, oci_port=0, http_port=0)
    (problem,) = port_problems(dataclasses.replace(open_ports, **{name: bind}))  # type: ignore[arg-type]
    assert text in problem and problem.endswith(f"choose another --{name.replace('_', '-')}")


def test_two_names_of_one_address_are_one(config: Config) -> None:
    port = free_port()
    same = dataclasses.replace(config, port=port, replication_port=port, replication_bind="localhost")
    (problem,) = port_problems(same)
    assert problem == f"replication-port and port are both 127.0.0.1:{port}: give two ports"


@pytest.mark.parametrize(
    ("bind", "peer", "is_own"),
    [
        ("127.0.0.1", "127.0.0.1:16379", True),
        ("127.0.0.1", "localhost:16379", True),
        ("0.0.0.0", "127.0.0.1:16379", True),
        ("0.0.0.0", "127.0.0.77:16379", True),
        ("127.0.0.1", "127.0.0.2:16379", False),
        ("127.0.0.1", "127.0.0.1:16380", False),
        ("0.0.0.0", "192.0.2.1:16379", False),
    ],
)
def test_the_own_address_among_the_peers_is_named(config: Config, bind: str, peer: str, is_own: bool) -> None:
    found = [*peer_problems(dataclasses.replace(config, replication_port=16379, replication_bind=bind, peers=(peer,)))]
    own = f"the peer {peer} is this region itself: leave out its own address, and name the other regions"
    assert found == [own] * is_own


def problems_with(config: Config, files: dict[str, str]) -> list[str]:
    return problems_of(dataclasses.replace(config, **files))  # type: ignore[arg-type]
