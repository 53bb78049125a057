"""Shards are founded where they run: another machine of the region that answers is asked before."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import grpc.aio
import pytest

from crdtstream.processes.ports import free_ports
from crdtstream.replication import wire_pb2_grpc as wire_grpc
from crdtstream.settings.config import Config, ConfigError
from crdtstream.storage.disk import RealDisk
from crdtstream.supervisor.asking import require_unfounded
from crdtstream.supervisor.founding import found_or_follow
from tests.runtime.links.test_routes import Peer

PORTS = 4


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """The settings of machine b, which has shards 2 and 3; a is at 127.0.0.1."""
    return Config(
        name="east",
        region=1,
        cluster="c",
        shards=PORTS,
        shard="2-3",
        announce=("0-1=127.0.0.1:7000",),
        announce_host="b.example.net",
        replication_port=free_ports(PORTS),
        data=str(tmp_path / "data"),
    )


@pytest.fixture
async def other(config: Config) -> AsyncIterator[Peer]:
    """Shard 1, at machine a; shard 0 is down."""
    peer, server = Peer([]), grpc.aio.server()
    wire_grpc.add_ReplicationServicer_to_server(peer, server)
    server.add_insecure_port(f"127.0.0.1:{config.replication_port + 1}")
    await server.start()
    yield peer
    await server.stop(None)


@pytest.mark.parametrize("third", ["", "127.0.0.1:19", "c.example.net:19"])
async def test_shards_that_run_elsewhere_are_not_founded(config: Config, other: Peer, third: str) -> None:
    other.addresses = ["", "", "b.example.net:18", third]
    told = third or f"127.0.0.1:{config.replication_port + 1}"
    with pytest.raises(ConfigError, match=f"shard 3 runs at {told} already, as 127.0.0.1:.* says, and .* has no"):
        await require_unfounded(config)
    for taken in (True, "3", "2-3"):
        await require_unfounded(replace(config, replace=taken))
    with pytest.raises(ConfigError, match=f"shard 3 runs at {told} already"):
        await require_unfounded(replace(config, replace="2"))
    await require_unfounded(replace(config, shard="2", announce=("0-1=127.0.0.1:7000", "3=127.0.0.3:7000")))
    with closing(RealDisk(config.data)) as disk:
        found_or_follow(config, disk)
    await require_unfounded(config)


@pytest.mark.parametrize("answer", [["", "", "b.example.net:18", "b.example.net:19"], ["", "", ""], []])
async def test_one_that_agrees_or_cannot_tell_is_no_reason_to_wait(
    config: Config, other: Peer, answer: list[str]
) -> None:
    other.addresses = answer
    await require_unfounded(config)
    assert other.asked == 1


async def test_what_a_map_that_has_changed_places_here_is_not_founded(config: Config, other: Peer) -> None:
    other.addresses, other.epoch = ["", "", "b.example.net:18", "b.example.net:19"], 2
    with pytest.raises(ConfigError, match=r"the map of 127.0.0.1:.* has shards 2-3 at .* mount the volume"):
        await require_unfounded(config)
    with pytest.raises(ConfigError, match=r"has shards 2 at this machine"):
        await require_unfounded(replace(config, replace="3"))
    await require_unfounded(replace(config, replace=True))


async def test_founding_goes_on_while_nobody_answers(config: Config) -> None:
    await require_unfounded(config)
