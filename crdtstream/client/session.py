"""The tokens of a session: what a region must have before the session goes on there.

Invariant: `tokens` together name everything that the session has written and seen, except after Behind with a reply.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from crdtstream.client.errors import Behind
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
            reply = yield partial(client.execute_command, "CRDT.AWAIT", token, wait_ms)
            if reply is None:
                missing.append(token)
            elif reply != b"OK":
                lost = reply.decode()
        if missing and not go_on_behind:
            raise Behind(address, f"has not received in {wait_ms} ms what this session has seen")
        yield from self.renew(client, missing)
        return lost

    def renew(self, client: Any, missing: Sequence[bytes] | None = None) -> Steps[None]:
        """Get a token of what the region has now, which stands for the token before it."""
        kept = self.tokens[:-1] if missing is None else missing
        token: bytes = yield partial(client.execute_command, "CRDT.TOKEN")
        self.tokens = [*kept, token]
