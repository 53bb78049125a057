"""What a connection holds between MULTI and EXEC, and who watches which key.

A watching client is marked once one of its keys changes, whoever changed it: this region's clients, itself included,
or an effect of another region. What changed is told by `note`, key by key, so a key that does not exist can be watched,
and one that was deleted and made again counts as changed. There is no version of a key that could wrap or repeat.

Invariant: the two sides agree: a client is among a key's watchers while the key is among those that it watches.

Reference: `multi.c` of Redis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtstream.core.effects import Key

if TYPE_CHECKING:
    from crdtstream.commands.command import Command
    from crdtstream.commands.context import Client

REQUEST_BYTES = 64


class Transaction:
    """The requests queued since MULTI; `refused` once one of them could not be queued."""

    __slots__ = ("byte_count", "denies_oom", "refused", "requests", "writes")

    def __init__(self) -> None:
        self.requests: list[tuple[Command, list[bytes]]] = []
        self.byte_count = 0
        self.refused = False
        self.writes = False
        self.denies_oom = False

    def queue(self, command: Command, argv: list[bytes]) -> None:
        self.requests.append((command, argv))
        self.byte_count += REQUEST_BYTES + sum(map(len, argv))
        self.writes = self.writes or command.writes
        self.denies_oom = self.denies_oom or command.denies_oom


class Watches:
    """The watched keys of one region's clients."""

    __slots__ = ("_by_key",)

    def __init__(self) -> None:
        self._by_key: dict[Key, dict[int, Client]] = {}

    def add(self, client: Client, key: Key, exists: bool) -> None:
        """`exists`: whether the key is there now; a key watched twice is watched since the first time."""
        if key not in client.watched:
            client.watched[key] = exists
            self._by_key.setdefault(key, {})[client.id] = client

    def forget(self, client: Client) -> None:
        """UNWATCH."""
        for key in client.watched:
            watchers = self._by_key[key]
            del watchers[client.id]
            if not watchers:
                del self._by_key[key]
        client.watched.clear()
        client.watch_failed = False

    def note(self, keys: list[Key]) -> None:
        """These keys changed."""
        for key in keys:
            for client in self._by_key.get(key, {}).values():
                client.watch_failed = True

    def __len__(self) -> int:
        return len(self._by_key)

    def check(self) -> None:
        for key, watchers in self._by_key.items():
            assert watchers, f"nobody watches {key!r}"
            for client_id, client in watchers.items():
                assert client.id == client_id and key in client.watched, f"client {client_id} does not watch {key!r}"
