"""What an operator should find in the log while a region runs: why its clients wait, and a region number in use twice.

A number is in use twice if two origins of it have given signs of life for so long that neither can be the process
before the other: that one is silent after `peer_timeout_ms`. Signs of life travel over all regions, so every region
notices, those with the number too. The notice is repeated once a minute.
"""

from __future__ import annotations

from typing import Final

from crdtstream.core.values.causality import origin_name, region_of
from crdtstream.replication.exchange.exchange import Exchange
from crdtstream.replication.origins.birth import Birth
from crdtstream.status.events import Notice

TIMEOUTS_OF_LIFE: Final = 2
HEARTBEATS_OF_WAITING: Final = 2
REPEATED_MS: Final = 60_000


class Lookout:
    """Looks once per tick. `_alive_ms` is since when each origin has given signs of life, `_told_ms` when a number was
    told last.
    """

    __slots__ = ("_alive_ms", "_birth", "_exchange", "_standing", "_told", "_told_ms", "_waiting", "_waiting_ms")

    def __init__(self, exchange: Exchange, birth: Birth) -> None:
        self._exchange = exchange
        self._birth = birth
        self._standing = exchange.standing
        self._alive_ms: dict[int, int] = {}
        self._told_ms: dict[int, int] = {}
        self._told = ""
        self._waiting = ""
        self._waiting_ms = 0

    def tick(self, now_ms: int) -> None:
        self._watch_numbers(now_ms)
        self._watch_waiting(now_ms)

    # Why clients wait

    def _watch_waiting(self, now_ms: int) -> None:
        """Tell a reason that lasts; most of those of a start are over at once."""
        reason = self._standing.loading
        if reason != self._waiting:
            self._waiting, self._waiting_ms = reason, now_ms
        lasts_ms = HEARTBEATS_OF_WAITING * self._exchange.view.settings.limits.heartbeat_ms
        if not reason:
            self._told = ""
        elif reason != self._told and not 0 <= now_ms - self._waiting_ms < lasts_ms:
            self._told = reason
            self._exchange.news.append(Notice("waiting", reason))

    # Region numbers

    def _watch_numbers(self, now_ms: int) -> None:
        timeout_ms = self._exchange.view.settings.limits.peer_timeout_ms
        alive = {*self._exchange.progress.heard_after(now_ms - timeout_ms), self._birth.origin}
        # The clock may have been set back.
        self._alive_ms = {origin: min(self._alive_ms.get(origin, now_ms), now_ms) for origin in sorted(alive) if origin}
        lasting: dict[int, list[int]] = {}
        for origin, since_ms in self._alive_ms.items():
            if now_ms - since_ms >= TIMEOUTS_OF_LIFE * timeout_ms:
                lasting.setdefault(region_of(origin), []).append(origin)
        shared = {region: origins for region, origins in lasting.items() if len(origins) > 1}
        self._told_ms = {region: at_ms for region, at_ms in self._told_ms.items() if region in shared}
        for region, origins in shared.items():
            if region not in self._told_ms or not 0 <= now_ms - self._told_ms[region] < REPEATED_MS:
                self._told_ms[region] = now_ms
                self._exchange.notices.append(Notice("region-number-shared", self._text(region, origins)))

    def _text(self, region: int, origins: list[int]) -> str:
        """Newcomers tell in the log what they tell their clients."""
        config = self._exchange.view.settings.config
        if region == config.region and self._exchange.reports.deferrals() and self._standing.loading:
            return self._standing.loading
        names = {session.peer_origin: session.peer_name for session in self._exchange.sessions()}
        names[self._birth.origin] = config.name
        shown = [
            f"{origin_name(origin)} ({names[origin]})" if origin in names else origin_name(origin) for origin in origins
        ]
        return (
            f"region number {region} is in use by {len(origins)} processes, origins {', '.join(shown)}: give all but"
            " one of them another --region, or stop them"
        )
