"""Asking regions: one deadline for all, and no second attempt."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace

import pytest

from crdtstream.admin import regions as asking_regions
from crdtstream.admin.regions import Regions
from crdtstream.observing.access import Access
from crdtstream.observing.reading import Read, RegionReading
from crdtstream.processes.ports import free_port
from tests.observing.made import row


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A port that accepts, as that of a suspended process, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


def address_of(server: socket.socket) -> str:
    return f"127.0.0.1:{server.getsockname()[1]}"


def test_a_silent_region_is_asked_once(silent: socket.socket) -> None:
    regions = Regions([address_of(silent)], Access(), timeout_s=0.05)
    expected = "no answer within 0.05 s: wait longer with --timeout"
    for _ in range(2):
        (answer,) = regions.ask("XLEN", "x")
        assert (answer.error, answer.unreachable, answer.region) == (expected, True, address_of(silent))
    assert regions.keys() == ([], True)
    regions.close()
    first, _ = silent.accept()
    first.close()
    with pytest.raises(BlockingIOError):
        silent.accept()


def test_a_closed_port_is_told_in_the_words_of_the_system() -> None:
    regions = Regions([f"127.0.0.1:{free_port()}"], Access())
    assert regions.ask_first("XLEN", "x").error == "Connection refused"
    assert regions.fields_of_first() == {}
    regions.close()


def test_a_region_that_does_not_answer_has_the_name_by_which_others_know_it(monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"127.0.0.1:{free_port()}"

    async def explored(readings: list[RegionReading], read: Read) -> list[RegionReading]:
        return [replace(await read(each), known_as=row(2, redis_address=address.encode())) for each in readings]

    monkeypatch.setattr(asking_regions, "explore", explored)
    regions = Regions([address], Access(), finds_others=True)
    (answer,) = regions.ask("XLEN", "x")
    assert (answer.region, answer.error, regions.names) == ("r2", "Connection refused", ["r2"])
    regions.close()
