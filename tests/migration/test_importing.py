"""Streams out of a real redis-server into a region and back: entries, groups, pending entries, and interruptions."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crdtstream.processes.clients import client_of
from crdtstream.processes.ports import free_port
from crdtstream.processes.region import RegionProcess, regions_in
from tests.commands.harness import REDIS, redis_server
from tests.region_processes import linked
from tests.runtime.speakers import certificate, needs_openssl

pytestmark = pytest.mark.skipif(REDIS is None, reason="redis-server is not installed")

COUNT = 1200


@pytest.fixture
def redis_port(tmp_path: Path) -> Iterator[int]:
    directory = tmp_path / "redis"
    directory.mkdir()
    with redis_server(directory) as port:
        yield port


@pytest.fixture
def region(tmp_path: Path) -> Iterator[RegionProcess]:
    with regions_in(tmp_path) as regions:
        [east] = regions.make(1)
        linked(east)
        yield east


def fill(client: Any) -> None:
    """A stream with gaps, two groups, and pending entries of which one entry is gone; and an empty one that expires."""
    for number in range(1, COUNT + 1):
        client.execute_command("XADD", "orders", f"{number}-{number % 3 + 1}", "n", number)
    client.execute_command("XDEL", "orders", "1200-1", "7-2")
    client.execute_command("XGROUP", "CREATE", "orders", "workers", 0, "ENTRIESREAD", 0)
    client.execute_command("XGROUP", "CREATE", "orders", "idle", "$")
    client.execute_command("XREADGROUP", "GROUP", "workers", "ann", "COUNT", 4, "STREAMS", "orders", ">")
    client.execute_command("XREADGROUP", "GROUP", "workers", "bob", "COUNT", 2, "STREAMS", "orders", ">")
    client.execute_command("XACK", "orders", "workers", "2-3")
    client.execute_command("XDEL", "orders", "3-1")
    client.execute_command("XADD", "empty", "9-9", "f", "v")
    client.execute_command("XDEL", "empty", "9-9")
    client.execute_command("PEXPIRE", "empty", 3_600_000)
    client.execute_command("SET", "other", "no stream")


def run(*words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", "crdtstream", *words], capture_output=True, check=False, timeout=300)


def imports(redis_port: int, region: RegionProcess, *options: str) -> str:
    source, target = f"redis://127.0.0.1:{redis_port}", f"redis://127.0.0.1:{region.port}"
    done = run("import", source, "--to", target, "--page-entries", "100", *options)
    assert done.returncode == 0, done.stderr.decode()
    return done.stderr.decode()


def content(client: Any, key: str) -> list[Any]:
    """All that two servers must agree on."""
    info = client.execute_command("XINFO", "STREAM", key)
    fields = dict(zip(info[::2], info[1::2], strict=True))
    kept = [fields[name] for name in (b"length", b"last-generated-id", b"entries-added", b"max-deleted-entry-id")]
    groups = [row[:10] for row in client.execute_command("XINFO", "GROUPS", key)]
    pending = [
        [[*row[:2], row[3]] for row in client.execute_command("XPENDING", key, group[1], "-", "+", 100)]
        for group in groups
    ]
    return [client.execute_command("XRANGE", key, "-", "+"), kept, pending]


def names(client: Any, key: str) -> list[bytes]:
    return sorted(row[1] for row in client.execute_command("XINFO", "GROUPS", key))


def test_a_stream_comes_as_it_is_and_goes_back(redis_port: int, region: RegionProcess, tmp_path: Path) -> None:
    redis = client_of(redis_port)
    fill(redis)
    told = imports(redis_port, region)
    assert "orders" in told and "empty" in told and "other" not in told
    east = client_of(region.port)
    # The pending entry 3-1 has no entry any more, and no server creates one like that.
    redis.execute_command("XACK", "orders", "workers", "3-1")
    assert content(east, "orders") == content(redis, "orders")
    assert names(east, "orders") == [b"idle", b"workers"]
    assert east.execute_command("XINFO", "STREAM", "empty")[:2] == [b"length", 0]
    assert 0 < east.execute_command("PTTL", "empty") <= 3_600_000
    assert east.execute_command("XREADGROUP", "GROUP", "workers", "ann", "COUNT", 1, "STREAMS", "orders", ">") == [
        [b"orders", [[b"8-3", [b"n", b"8"]]]]
    ]

    exported = tmp_path / "streams.resp"
    done = run("export", f"redis://127.0.0.1:{region.port}", "--match", "orders", "--out", str(exported))
    assert done.returncode == 0, done.stderr.decode()
    redis.execute_command("FLUSHALL")
    redis.connection.send_packed_command([exported.read_bytes()])
    statements = exported.read_bytes().count(b"\r\n$4\r\nXADD\r\n")
    replies = [redis.connection.read_response() for _ in range(statements)]
    assert replies[0] == b"1-2" and statements == COUNT - 3
    again = client_of(redis_port)
    assert content(again, "orders")[:2] == content(east, "orders")[:2]
    assert names(again, "orders") == [b"idle", b"workers"]


def test_a_repetition_brings_what_came_meanwhile_and_adds_nothing_twice(redis_port: int, region: RegionProcess) -> None:
    redis = client_of(redis_port)
    fill(redis)
    imports(redis_port, region, "--match", "ord*")
    redis.execute_command("XADD", "orders", "5000-1", "n", 1)
    east = client_of(region.port)
    assert "│ orders │ 1       │ 0      │ 2    │" in imports(redis_port, region, "--match", "ord*")
    assert content(east, "orders")[:2] == content(redis, "orders")[:2]
    assert east.execute_command("EXISTS", "empty") == 0
    redis.execute_command("XREADGROUP", "GROUP", "workers", "bob", "COUNT", 1, "STREAMS", "orders", ">")
    redis.execute_command("XACK", "orders", "workers", "3-1")
    imports(redis_port, region, "--match", "ord*", "--replace-groups")
    assert content(east, "orders") == content(redis, "orders")


def test_an_import_goes_on_where_it_was_interrupted(redis_port: int, region: RegionProcess) -> None:
    redis = client_of(redis_port)
    fill(redis)
    east = client_of(region.port)
    for number in range(1, 400):
        if number != 7:
            east.execute_command("CRDT.IMPORT", "orders", f"{number}-{number % 3 + 1}", "n", number)
    told = imports(redis_port, region, "--match", "orders")
    assert f"│ orders │ {COUNT - 399 - 1}     │" in told
    assert [row[0] for row in east.execute_command("XRANGE", "orders", "4", "+")] == [
        row[0] for row in redis.execute_command("XRANGE", "orders", "4", "+")
    ]


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("127.0.0.1:1", "the URL of the source must be redis://"),
        ("redis://127.0.0.1:1", "cannot use the source at redis://127.0.0.1:1: "),
        ("redis://ann:hush@127.0.0.1:1/3", "cannot use the source at redis://127.0.0.1:1/3: "),
        ("redis://:hu/sh@127.0.0.1:1", "the URL of the source must be redis://"),
    ],
)
def test_a_source_that_cannot_be_used_is_named(url: str, text: str, region: RegionProcess) -> None:
    done = run("import", url, "--to", f"redis://127.0.0.1:{region.port}")
    told = (done.stdout + done.stderr).decode()
    assert done.returncode == 1 and text in told and "Traceback" not in told
    assert "hu" not in told


def test_passwords_come_from_files_and_variables(
    redis_port: int, region: RegionProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client_of(redis_port).execute_command("XADD", "orders", "1-1", "n", 1)
    client_of(redis_port).execute_command("ACL", "SETUSER", "mover", "on", ">hush-source", "+@all", "~*")
    region.ask("CONFIG", "SET", "requirepass", "hush-region")
    source, target = f"redis://127.0.0.1:{redis_port}", f"redis://127.0.0.1:{region.port}"
    words = ["import", source, "--to", target, "--source-user", "mover"]
    done = run(*words)
    assert done.returncode == 1 and b"the source has a user without a password" in done.stderr
    monkeypatch.setenv("CRDTSTREAM_SOURCE_PASSWORD", "hush-source")
    done = run(*words)
    assert done.returncode == 1 and b"cannot use the region at " in done.stderr and b"hush" not in done.stderr
    (tmp_path / "password").write_text("hush-region\n")
    done = run(*words, "--password-file", str(tmp_path / "password"))
    assert done.returncode == 0, done.stderr.decode()
    done = run("export", target, "--password-file", str(tmp_path / "password"))
    assert done.returncode == 0 and b"XADD" in done.stdout and b"hush" not in done.stdout + done.stderr


@needs_openssl
def test_import_and_export_over_tls(redis_port: int, tmp_path: Path) -> None:
    for name, signer in (("authority", None), ("east", "authority"), ("ann", "authority")):
        certificate(tmp_path, name, signer, 1)
    client_of(redis_port).execute_command("XADD", "orders", "1-1", "n", 1)
    files = {"tls_certificate": "east.pem", "tls_key": "east.key", "tls_authority": "authority.pem"}
    port = free_port()
    with regions_in(tmp_path) as regions:
        [east] = regions.make(1)
        east.start(incarnation=0, tls_port=port, **{name: tmp_path / file for name, file in files.items()})
        east.await_serving()
        url = f"rediss://127.0.0.1:{port}"
        shows = ["--cacert", tmp_path / "authority.pem", "--cert", tmp_path / "ann.pem", "--key", tmp_path / "ann.key"]
        options = [str(word) for word in shows]
        done = run("import", f"redis://127.0.0.1:{redis_port}", "--to", url, *options)
        assert done.returncode == 0, done.stderr.decode()
        done = run("export", url, *options)
        assert done.returncode == 0 and b"XADD" in done.stdout
        done = run("export", url)
        assert done.returncode == 1 and b"certificate verify failed" in done.stderr
