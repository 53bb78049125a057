"""Where the diallers of a shard reach it in other regions.

A configured peer is the address of shard 0 of its region. Each dialler of another shard asks there where its own shard
is; a region that announces no address, or does not answer, has it at the same host, at that port plus the number of the
shard. What was answered last is used while nobody answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import grpc.aio

from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication import wire_pb2_grpc as wire_grpc
from crdtstream.runtime.links.link import LOST
from crdtstream.runtime.tls.credentials import join_address
from crdtstream.settings.config import Config, is_address, split_address
from crdtstream.settings.sharding import number_of

ANSWER_S = 1.0


async def placement_of(channel: grpc.aio.Channel) -> wire.PlacementReply:
    """Where the shards of the region at this channel are, by their numbers; names none if there is no answer."""
    async with channel:
        try:
            asked = wire_grpc.ReplicationStub(channel).Placement(wire.PlacementRequest(), timeout=ANSWER_S)
            return await asked
        except LOST:
            return wire.PlacementReply()


class Routes:
    """The way from each configured peer to the own shard of its region; a region of one shard asks nobody."""

    def __init__(self, config: Config, channel: Callable[[str], grpc.aio.Channel]) -> None:
        self._count = config.shards
        self._number = number_of(config)
        self._channel = channel
        self._peers = frozenset(config.peers)
        self._answers: dict[str, list[str]] = {}

    def follow(self, peers: Iterable[str]) -> None:
        """These are the configured peers from now on."""
        self._peers = frozenset(peers)
        self._answers = {peer: answer for peer, answer in self._answers.items() if peer in self._peers}

    async def address_of(self, peer: str) -> str:
        """Where to dial for this peer, or for an address that a region announced, which is that of its shard."""
        if not self._number or peer not in self._peers:
            return peer
        answer = list((await placement_of(self._channel(peer))).addresses)
        if answer:
            self._answers[peer] = answer
        return self._known(peer) or self._beside(peer)

    def _known(self, peer: str) -> str:
        """What its region answered; empty if it named no address. Another number of shards is refused by the greeting,
        which says more.
        """
        addresses = self._answers.get(peer, [])
        address = addresses[self._number] if len(addresses) == self._count else ""
        return address if is_address(address) else ""

    def _beside(self, peer: str) -> str:
        host, port = split_address(peer)
        return join_address(host, port + self._number)
