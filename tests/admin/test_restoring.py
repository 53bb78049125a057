"""`crdtstream restore --stream`: a mistaken removal is undone while all regions run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from crdtstream.admin.backups import NO_ANSWER, NOT_WHOLE, REFUSED
from crdtstream.cli.app import app
from crdtstream.processes.clients import pairs
from crdtstream.processes.ports import free_port
from crdtstream.processes.region import RegionProcess, await_agreement, regions_in
from tests.region_processes import ids


def run(*words: object) -> Result:
    result = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "160"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RegionProcess, RegionProcess, Path]]:
    """Two regions, and a backup of the second with the streams `orders` (1-1, 2-1, 3-1; a group) and `other`."""
    directory = tmp_path_factory.mktemp("restoring")
    with regions_in(directory) as regions:
        one, two = regions.make(1, 2)
        one.start(two, id_mode="liberal", announce_host="127.0.0.1")
        two.start(one, id_mode="liberal", announce_host="127.0.0.1", backup_directory=directory / "backups")
        for region in (one, two):
            region.await_serving().await_admitted()
        for number in (1, 2, 3):
            two.ask("XADD", "orders", f"{number}-1", "n", number)
        two.ask("XADD", "other", "1-1", "n", 1)
        two.create_group("orders", "packing")
        two.ask("CRDT.GROUP", "SET", "orders", "packing", "ACKNOWLEDGE", "EXACT")
        two.ask("CRDT.STREAM", "SET", "orders", "MAXLEN", 100)
        two.ask("XREADGROUP", "GROUP", "packing", "ann", "COUNT", 1, "STREAMS", "orders", ">")
        regions.await_agreement()
        backup = directory / "backups" / "monday"
        assert run("backup", "--node", f"127.0.0.1:{two.port}", "--to", backup).exit_code == 0
        yield one, two, backup


def restored(backup: Path, into: RegionProcess, *words: str) -> Result:
    return run("restore", backup, "--stream", "orders", "--into", f"127.0.0.1:{into.port}", *words)


def test_a_deleted_stream_comes_back_beside_what_was_written_since(
    pair: tuple[RegionProcess, RegionProcess, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two, backup = pair
    # The copy would join the cluster, or fight for its ports, if it took the settings of this machine's region.
    monkeypatch.setenv("CRDTSTREAM_PEER", one.address)
    monkeypatch.setenv("CRDTSTREAM_HTTP_PORT", "1")
    two.ask("DEL", "orders")
    two.ask("DEL", "other")
    await_agreement((one, two))
    one.ask("XADD", "orders", "4-1", "n", 4)
    links = one.log().count("link-opened")
    result = restored(backup, two, "--json")
    assert result.exit_code == 0, result.output
    counts = {"entries": 3, "groups": 1, "kept": 0, "pending": 1, "gone": 0, "names": 0, "unset": []}
    assert json.loads(result.stdout) == {"stream": "orders", **counts}
    await_agreement((one, two))
    assert ids(one, "orders") == [b"1-1", b"2-1", b"3-1", b"4-1"]
    assert one.ask("EXISTS", "other") == 0 and two.ask("XPENDING", "orders", "packing")[0] == 1
    assert pairs(one.ask("CRDT.GROUP", "GET", "orders", "packing"))[b"acknowledge"] == b"exact"
    assert pairs(one.ask("CRDT.STREAM", "GET", "orders"))[b"maxlen"] == 0, "it would remove what is wanted"
    again = restored(backup, two)
    assert "0 entries, 0 groups came back" in again.stdout and "1 groups that the region has" in again.stdout
    assert links == one.log().count("link-opened") and links, "the copy met nobody"


def test_a_region_that_has_written_since_says_so_and_another_name_helps(
    pair: tuple[RegionProcess, RegionProcess, Path],
) -> None:
    one, _, backup = pair
    one.ask("DEL", "orders")
    one.ask("XADD", "orders", "5-1", "n", 5)
    refused = restored(backup, one)
    assert refused.exit_code == NOT_WHOLE and "the ID 1-1 is not above 5-1" in refused.stderr
    result = restored(backup, one, "--as", "orders-monday")
    assert result.exit_code == 0 and "has stream 'orders-monday': 3 entries, 1 groups" in result.stdout
    assert ids(one, "orders-monday") == [b"1-1", b"2-1", b"3-1"] and ids(one, "orders") == [b"5-1"]


def test_wrong_use(pair: tuple[RegionProcess, RegionProcess, Path], tmp_path: Path) -> None:
    one, _, backup = pair
    into = f"127.0.0.1:{one.port}"
    assert run("restore", backup).exit_code == REFUSED
    assert run("restore", backup, "--stream", "orders").exit_code == REFUSED
    assert run("restore", backup, "--stream", "orders", "--into", into, "--data", tmp_path).exit_code == REFUSED
    assert run("restore", backup, "--stream", "orders", "--into", "nowhere").exit_code == REFUSED
    absent = run("restore", backup, "--stream", "absent", "--into", into)
    assert absent.exit_code == REFUSED and "has no stream 'absent' in database 0" in absent.stderr
    assert restored(backup, one, "--cluster", "another").exit_code == REFUSED
    nobody = run("restore", backup, "--stream", "orders", "--into", f"127.0.0.1:{free_port()}")
    assert nobody.exit_code == NO_ANSWER
