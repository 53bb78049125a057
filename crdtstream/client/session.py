"""The tokens of a session: what a region must have before the session goes on there.

Invariant: `tokens` together name everything that the session has written and seen, except after Behind with a reply.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import redis

from crdtstream.client.errors import Behind
from crdtstream.client.sharding import shards_of
from crdtstream.client.steps import Steps


class SessionTokens:
    """Tokens of the regions that the session has used; all but the last are of what was missing at a move."""

    def __init__(self, tokens: Sequence[bytes] = ()) -> None:
        self.tokens = [*tokens]

    def catch_up(self, client: Any, address: str, wait_ms: int, go_on_behind: bool) -> Steps[str]:
        """Await everything in this region; returns a reply that begins with LOST, or an empty text.

        Raises Behind if something has not arrived after `wait_ms`, unless `go_on_behind`.
        """
        missing, lost = [], ""
        for token in self.tokens:
            for shard in shards_of(client):
                reply = yield from _awaiting(client, token, wait_ms, shard)
                if reply is None:
                    missing.append(token)
                    break
                lost = lost or reply
        if missing and not go_on_behind:
            raise Behind(address, f"has not received in {wait_ms} ms what the session has seen")
        yield from self.renew(client, missing)
        return lost

    def renew(self, client: Any, missing: Sequence[bytes] | None = None) -> Steps[None]:
        """Get a token of what the region has now, which stands for the token before it."""
        kept = self.tokens[:-1] if missing is None else missing
        parts: list[bytes] = []
        for shard in shards_of(client):
            parts += [(yield partial(client.execute_command, "CRDT.TOKEN", **shard))]
        self.tokens = [*kept, b".".join(parts)]


def _awaiting(client: Any, token: bytes, wait_ms: int, shard: dict[str, Any]) -> Steps[str | None]:
    """Return an empty text once the shard has all that the token stands for, LOST ... if some is gone, None if late."""
    try:
        reply = yield partial(client.execute_command, "CRDT.AWAIT", token, wait_ms, **shard)
    except redis.ResponseError as error:
        if not str(error).startswith("LOST"):
            raise
        return str(error)
    return None if reply is None else ""
