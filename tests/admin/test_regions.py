"""Asking regions: one deadline for all, and no second attempt."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace

import pytest

from crdtstream.admin import regions as asking_regions
from crdtstream.admin.regions import Regions
from crdtstream.observing.access import Access
from crdtstream.observing.reading import Read, RegionReading, Whereabouts
from crdtstream.processes.ports import free_port
from tests.observing.made import reading


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
    (asked,) = regions.counterparts
    for _ in range(2):
        (answer,) = asked.ask("XLEN", "x")
        assert (answer.error, answer.unreachable, answer.region) == (expected, True, address_of(silent))
    assert asked.keys() == ([], True)
    regions.close()
    first, _ = silent.accept()
    first.close()
    with pytest.raises(BlockingIOError):
        silent.accept()


def test_a_closed_port_is_told_in_the_words_of_the_system() -> None:
    regions = Regions([f"127.0.0.1:{free_port()}"], Access())
    (asked,) = regions.counterparts
    assert asked.ask_first("XLEN", "x").error == "Connection refused"
    assert asked.fields_of_first() == {}
    regions.close()


def test_a_region_that_does_not_answer_has_the_name_by_which_others_know_it(monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"127.0.0.1:{free_port()}"

    async def explored(readings: list[RegionReading], read: Read, _finds_others: bool) -> list[RegionReading]:
        return [replace(await read(each), known_as=Whereabouts(address, 2, "r2", 0, 1)) for each in readings]

    monkeypatch.setattr(asking_regions, "explore", explored)
    regions = Regions([address], Access(), finds_others=True)
    (answer,) = regions.counterparts[0].ask("XLEN", "x")
    assert (answer.region, answer.error, regions.names) == ("r2", "Connection refused", ["r2"])
    regions.close()


def test_a_command_on_a_key_is_for_the_shard_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def told(region: int, shard: int) -> RegionReading:
        found = reading(region, shard=str(shard), shards="2")
        return replace(found, address=f"127.0.0.1:{7000 + 10 * region + shard}")

    async def explored(_readings: list[RegionReading], read: Read, _finds_others: bool) -> list[RegionReading]:
        found = [told(2, 1), told(1, 0), told(1, 1), told(2, 0)]
        for each in found:
            await read(each)
        return found

    monkeypatch.setattr(asking_regions, "explore", explored)
    regions = Regions([f"127.0.0.1:{free_port()}"], Access(), finds_others=True)
    assert [(each.shard, each.names) for each in regions.counterparts] == [(0, ["r2", "r1"]), (1, ["r2", "r1"])]
    # Their hash slots are 15495 and 3300.
    assert [regions.of(key).shard for key in ("a", b"a", "b", "{b}a")] == [1, 1, 0, 0]
    assert (regions.named.place, [each.shard for each in regions.of_first]) == ((2, 1), [0, 1])
    regions.close()
