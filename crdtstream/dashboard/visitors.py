"""Who looks at the dashboard: a Redis user who logged in, or nobody where the default user needs no password.

A visitor's questions and actions are asked with the visitor's rights, so a region's ACL decides what they may. A
session lives in memory, and ends after `IDLE_S` without a request, at the logout, or with the process.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from crdtstream.dashboard.outcomes import ActionOutcome
from crdtstream.observing.access import Access
from crdtstream.observing.reading import RedisPorts

COOKIE = "crdtstream_session"
IDLE_S = 8 * 3600.0
VISITORS_MAX = 1_000
OUTCOMES_MAX = 20
WRONG_S = 1.0
NOBODY = "nobody answers: try again when a region does"
WRONG = "wrong user or password"


@dataclass
class Visitor:
    """One session. `token` is in its forms, so that no other page can send them."""

    user: str
    ports: RedisPorts
    is_anonymous: bool = False
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    seen_s: float = field(default_factory=time.monotonic)
    outcomes: dict[str, ActionOutcome] = field(default_factory=dict)

    def keep(self, outcome: ActionOutcome) -> str:
        """Keep it until it is shown once; returns its name."""
        if len(self.outcomes) >= OUTCOMES_MAX:
            del self.outcomes[next(iter(self.outcomes))]
        name = secrets.token_urlsafe(8)
        self.outcomes[name] = outcome
        return name


async def needs_password(ports: RedisPorts, addresses: Iterable[str]) -> bool:
    """Whether the default user needs one, as the first region says that answers; true if none does."""
    for address in addresses:
        answer = await ports.ask(address, "ACL", "WHOAMI")
        if not answer.unreachable:
            return bool(answer.error) and not answer.error.startswith("LOADING")
    return True


class Visitors:
    """All sessions, by what their cookies say."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._known: dict[str, Visitor] = {}
        # Without a user and a password: the default user's rights, if that needs no password.
        self.default = Visitor("default", RedisPorts(replace(access, user=None, password=None)), True)

    def find(self, cookie: str | None) -> Visitor | None:
        found = self._known.get(cookie or "")
        if found is None or time.monotonic() - found.seen_s > IDLE_S:
            return None
        found.seen_s = time.monotonic()
        return found

    async def enter(self, user: str, password: str, addresses: Iterable[str]) -> tuple[str, str]:
        """Log in; returns the cookie and an empty text, or why not. A wrong password costs a second."""
        ports = RedisPorts(replace(self._access, user=user or "default", password=password))
        for address in addresses:
            answer = await ports.ask(address, "ACL", "WHOAMI")
            if answer.unreachable and "password" not in answer.error.lower():
                continue
            if answer.error and not answer.error.startswith("LOADING") and "permission" not in answer.error:
                break
            return self._begin(Visitor(user or "default", ports)), ""
        else:
            await ports.close()
            return "", NOBODY
        await ports.close()
        await asyncio.sleep(WRONG_S)
        return "", WRONG

    def _begin(self, visitor: Visitor) -> str:
        if len(self._known) >= VISITORS_MAX:
            del self._known[min(self._known, key=lambda cookie: self._known[cookie].seen_s)]
        cookie = secrets.token_urlsafe(32)
        self._known[cookie] = visitor
        return cookie

    async def leave(self, cookie: str | None) -> None:
        visitor = self._known.pop(cookie or "", None)
        if visitor is not None:
            await visitor.ports.close()

    async def close(self) -> None:
        for visitor in [*self._known.values(), self.default]:
            await visitor.ports.close()
