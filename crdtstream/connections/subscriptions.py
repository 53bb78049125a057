"""Publish and subscribe: which clients of this region listen to which channels, patterns and shard channels.

Messages go to the clients of this region only, as they are neither logged nor sent to other regions. A message waits in
`messages` until the request that published it has replied; then it goes out like a reply, under the same limits.

Invariant: both sides agree: a client is among a name's listeners exactly while the name is among its own topics, and
`client.subscribed` is true exactly while it has any.

Reference: `pubsub.c` of Redis.
"""

from __future__ import annotations

from typing import Final

from crdtstream.connections.client import Client
from crdtstream.protocols import replies
from crdtstream.protocols.glob import Token, matches, tokens_of

CHANNEL: Final = 0
PATTERN: Final = 1
SHARD: Final = 2
KINDS: Final = (CHANNEL, PATTERN, SHARD)

Listeners = dict[int, Client]


class Subscriptions:
    """The subscriptions of one region's clients, and the messages that are due to them."""

    __slots__ = ("_by_name", "_tokens", "messages", "published")

    def __init__(self) -> None:
        self._by_name: list[dict[bytes, Listeners]] = [{} for _ in KINDS]
        self._tokens: dict[bytes, list[Token]] = {}
        self.messages: list[tuple[Client, bytes]] = []
        # What other shards of this region have to hear; the node takes it at the end of the turn.
        self.published: list[tuple[bytes, bytes]] = []

    def add(self, client: Client, kind: int, name: bytes) -> None:
        if name not in client.topics[kind]:
            client.topics[kind][name] = None
            self._by_name[kind].setdefault(name, {})[client.id] = client
            client.subscribed = True
            if kind == PATTERN and name not in self._tokens:
                self._tokens[name] = tokens_of(name)

    def remove(self, client: Client, kind: int, name: bytes) -> None:
        """End a subscription; one that does not exist is ignored."""
        if name not in client.topics[kind]:
            return
        del client.topics[kind][name]
        client.subscribed = any(client.topics)
        listeners = self._by_name[kind][name]
        del listeners[client.id]
        if not listeners:
            del self._by_name[kind][name]
            if kind == PATTERN:
                del self._tokens[name]

    def forget(self, client: Client) -> None:
        """End all subscriptions of a client."""
        for kind in KINDS:
            for name in list(client.topics[kind]):
                self.remove(client, kind, name)

    def names(self, kind: int) -> list[bytes]:
        """The names that anyone listens to."""
        return list(self._by_name[kind])

    def count(self, kind: int, name: bytes) -> int:
        return len(self._by_name[kind].get(name, {}))

    def clients(self) -> int:
        """The number of clients with a subscription."""
        return len({client_id for kind in KINDS for found in self._by_name[kind].values() for client_id in found})

    # Messages

    def publish(self, channel: bytes, text: bytes) -> int:
        """Send a message to the listeners of a channel, and then to those of the patterns that match it; returns how
        many times it was sent.
        """
        sent = self._send(self._by_name[CHANNEL].get(channel), [b"message", channel, text])
        for pattern, tokens in self._tokens.items():
            if matches(tokens, channel):
                sent += self._send(self._by_name[PATTERN].get(pattern), [b"pmessage", pattern, channel, text])
        return sent

    def publish_shard(self, channel: bytes, text: bytes) -> int:
        return self._send(self._by_name[SHARD].get(channel), [b"smessage", channel, text])

    def _send(self, listeners: Listeners | None, parts: list[bytes]) -> int:
        if not listeners:
            return 0
        items = [replies.bulk(part) for part in parts]
        encoded = {protocol: replies.push(items, protocol) for protocol in (replies.RESP2, replies.RESP3)}
        self.messages += [(client, encoded[client.protocol]) for client in listeners.values()]
        return len(listeners)

    def drain(self) -> list[tuple[Client, bytes]]:
        """Take the messages that are due, in the order in which they were published."""
        taken = self.messages
        self.messages = []
        return [(client, message) for client, message in taken if not client.closing]

    def drain_published(self) -> list[tuple[bytes, bytes]]:
        taken = self.published
        self.published = []
        return taken

    def check(self) -> None:
        assert self._tokens.keys() == self._by_name[PATTERN].keys(), "patterns and their tokens differ"
        for kind in KINDS:
            for name, listeners in self._by_name[kind].items():
                assert listeners, f"{name!r} has no listeners"
                for client in listeners.values():
                    assert name in client.topics[kind], f"client {client.id} does not listen to {name!r}"
                    assert client.subscribed, f"client {client.id} listens and is not marked"
