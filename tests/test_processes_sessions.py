"""Clients that move between regions as processes, with redis-py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from crdtstream.processes.region import RegionProcess, Regions, regions_in
from tests.region_processes import linked

PATIENCE_MS = 20_000


@pytest.fixture
def regions(tmp_path: Path) -> Iterator[Regions]:
    with regions_in(tmp_path) as made:
        yield made


def client_of(region: RegionProcess, protocol: int = 2) -> redis.Redis:
    return redis.Redis(port=region.port, protocol=protocol, socket_timeout=30)


def ask(client: Any, *words: object) -> Any:
    return client.execute_command(*words)


def test_a_client_reads_in_another_region_what_it_wrote(regions: Regions) -> None:
    east, west = regions.make(1, 2)
    linked(east, west)
    here, there = client_of(east), client_of(west, protocol=3)
    for number in range(20):
        here.xadd("orders", {"n": number})
        token = ask(here, "CRDT.TOKEN")
        assert ask(there, "CRDT.AWAIT", token, PATIENCE_MS) == b"OK"
        assert there.xlen("orders") == number + 1
    west.stop()
    here.xadd("orders", {"n": 20})
    token = ask(here, "CRDT.TOKEN")
    west.start(incarnation=0)
    west.await_serving()
    assert ask(client_of(west), "CRDT.AWAIT", token, 100) is None
    with pytest.raises(redis.ResponseError, match="invalid token"):
        ask(here, "CRDT.AWAIT", token[:-1], 0)


def test_a_reader_that_moves_gets_every_entry_once(regions: Regions) -> None:
    east, west = regions.make(1, 2)
    linked(east, west)
    clients = client_of(east), client_of(west)
    written = {region.xadd("events", {"n": number}) for number in range(10) for region in clients}
    read: list[bytes] = []
    cursor: object = "0"
    while len(read) < len(written):
        reader = clients[len(read) % 2]
        reply = ask(reader, "CRDT.XREAD", "COUNT", 3, "BLOCK", PATIENCE_MS, "STREAMS", "events", cursor)
        _, entries, cursor = reply[0]
        read += [entry_id for entry_id, _ in entries]
    assert sorted(read) == sorted(written)
    assert ask(clients[0], "CRDT.XREAD", "STREAMS", "events", cursor) in (None, [])
