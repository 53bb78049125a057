"""Watched keys: which clients watch which key.

A watching client is marked once one of its keys changes, by a client of this region (the watching one included) or by
an effect of another region. `mark` receives the changed keys, so a key that does not exist can be watched too, and a
key that was deleted and created again counts as changed. No version number is involved that could wrap or repeat.

Invariant: both sides agree: a client is among a key's watchers exactly while the key is among its watched keys.

Reference: `multi.c` of Redis.
"""

from __future__ import annotations

from crdtstream.connections.client import Client
from crdtstream.core.effects import Key


class Watches:
    """The watched keys of one region's clients."""

    __slots__ = ("by_key",)

    def __init__(self) -> None:
        self.by_key: dict[Key, dict[int, Client]] = {}

    def add(self, client: Client, key: Key, exists: bool) -> None:
        """Watch a key; `exists`: whether it exists now. Watching a key again changes nothing."""
        if key not in client.watched:
            client.watched[key] = exists
            self.by_key.setdefault(key, {})[client.id] = client

    def forget(self, client: Client) -> None:
        """Stop watching all keys of a client (UNWATCH)."""
        for key in client.watched:
            watchers = self.by_key[key]
            del watchers[client.id]
            if not watchers:
                del self.by_key[key]
        client.watched.clear()
        client.watch_failed = False

    def mark(self, keys: list[Key]) -> None:
        """Mark the clients that watch any of these changed keys."""
        for key in keys:
            for client in self.by_key.get(key, {}).values():
                client.watch_failed = True

    def __len__(self) -> int:
        return len(self.by_key)

    def check(self) -> None:
        for key, watchers in self.by_key.items():
            assert watchers, f"{key!r} has no watchers"
            for client_id, client in watchers.items():
                assert client.id == client_id and key in client.watched, f"client {client_id} does not watch {key!r}"
