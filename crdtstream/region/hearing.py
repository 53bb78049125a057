"""Which regions this one hears, and whether it knows what they did while it did not: the ground of who delivers.

A region that was cut off, suspended or stopped may have lost its place to another one, and its batches tell that only
later. So what a group's records give a region is delivered only

    a    once it has heard every region of the cluster since its start, and since each pause of its own; a region that
         stays silent for the whole takeover time is not waited for any longer
    b    after contact with a region that was silent for long, be it a link or an effect of it that others passed on:
         once it has applied what that region had when its next sign of life came, unless the region is silent for the
         whole takeover time again. What an origin had that has ended may be lost with its disk: then what the next
         origin of that region has is waited for

A sign of life that was on its way, or that others remember, may be older than the start or the pause. So the first life
that is known of an origin is none, and neither is what comes in the first heartbeat.

A region that takes over for a silent one waits for its turn among those that are heard.

Silence is measured by the time that this region serves: a clock that is set forward makes nobody silent, and counts as
a pause.
"""

from __future__ import annotations

from typing import Final

from crdtstream.connections.clock import Clock
from crdtstream.core.values.causality import NO_ORIGIN, VersionVector, region_of
from crdtstream.replication.exchange.exchange import Exchange

# In heartbeats: a shorter gap between two signs of life is no silence, and no takeover time is shorter than the second.
QUIET: Final = 2
TAKEOVER: Final = 4
UNHEARD: Final = -1
FOR_EVER_MS: Final = 1 << 62


class HeardRegion:
    """`at_ms` is when the last sign of life came, `UNHEARD` before the first one since this region's start or pause;
    `applied` is how many effects of it were applied by then, and `stirred_ms` when more were, while it was silent, or
    when a life of it came that is no sign of life.
    After a silence of `gap_ms` (0 once that is done) the vector `awaited`, which the origin `told_by` announced, must
    be applied here; it is None until an origin of the region that has not ended announces one.
    """

    __slots__ = ("applied", "at_ms", "awaited", "gap_ms", "lives", "stirred_ms", "told_by")

    def __init__(self) -> None:
        self.at_ms = self.stirred_ms = UNHEARD
        self.applied = 0
        self.gap_ms = 0
        self.awaited: VersionVector | None = None
        self.told_by = NO_ORIGIN
        self.lives: dict[int, int] = {}


class Hearing:
    """What this region has heard of the others, by region; times are those of `Clock.elapsed_ms`."""

    __slots__ = ("_clock", "_exchange", "_lost_ms", "_regions", "_since_ms")

    def __init__(self, exchange: Exchange, clock: Clock) -> None:
        self._exchange = exchange
        self._clock = clock
        self._regions: dict[int, HeardRegion] = {}
        self._since_ms = clock.elapsed_ms
        self._lost_ms = clock.lost_ms

    def takeover_ms(self, wanted_ms: int) -> int:
        return max(wanted_ms, TAKEOVER * self._heartbeat_ms)

    @property
    def _heartbeat_ms(self) -> int:
        return self._exchange.view.settings.limits.heartbeat_ms

    def tick(self) -> None:
        self._look_for_pause()
        self._lost_ms = self._clock.lost_ms
        applied = self._exchange.view.replica.applied
        own = region_of(applied.origin)
        for origin, _, vector, life in self._exchange.progress.rows():
            if region_of(origin) != own:
                self._record_sign(self._regions.setdefault(region_of(origin), HeardRegion()), origin, life, vector)
        for region, heard in self._regions.items():
            if heard.at_ms != UNHEARD and self._clock.elapsed_ms - heard.at_ms <= QUIET * self._heartbeat_ms:
                heard.applied = self._applied_of(region)
            if heard.awaited is not None:
                self._look_for_awaited(heard, heard.awaited)

    def _look_for_awaited(self, heard: HeardRegion, awaited: VersionVector) -> None:
        applied = self._exchange.view.replica.applied
        if applied.vector.descends(awaited):
            heard.awaited, heard.gap_ms = None, 0
        elif applied.members.has_ended(heard.told_by):
            heard.awaited = None

    def _look_for_pause(self) -> None:
        """After a pause nothing is known of any region."""
        if self._clock.lost_ms - self._lost_ms < QUIET * self._heartbeat_ms:
            return
        self._lost_ms = self._clock.lost_ms
        self._since_ms = self._clock.elapsed_ms
        for heard in self._regions.values():
            heard.at_ms = UNHEARD

    def _record_sign(self, heard: HeardRegion, origin: int, life: int, vector: VersionVector) -> None:
        known, now_ms = heard.lives.get(origin), self._clock.elapsed_ms
        if known is not None and life <= known:
            return
        heard.lives[origin] = life
        if known is None or now_ms - self._since_ms < self._heartbeat_ms:
            heard.stirred_ms = now_ms
            return
        gap_ms = FOR_EVER_MS if heard.at_ms == UNHEARD else now_ms - heard.at_ms
        is_silent = gap_ms > QUIET * self._heartbeat_ms
        if is_silent or (heard.gap_ms and heard.awaited is None):
            heard.awaited, heard.told_by = vector.copy(), origin
        if is_silent:
            heard.gap_ms = max(heard.gap_ms, gap_ms)
        heard.at_ms = now_ms
        heard.stirred_ms = UNHEARD

    def _applied_of(self, region: int) -> int:
        """How many effects of that region were applied here."""
        vector = self._exchange.view.replica.applied.vector
        return sum([counter for origin, counter in vector.items() if region_of(origin) == region])

    def silent_ms(self, region: int) -> int:
        """For how long nothing was heard of that region, as far as this one listened."""
        self._look_for_pause()
        return self._clock.elapsed_ms - self._last_ms(self._regions.get(region))

    def _last_ms(self, heard: HeardRegion | None) -> int:
        """When something was heard of a region, or this one began to listen; what was no sign of life counts here."""
        if heard is None:
            return self._since_ms
        return max(self._since_ms, heard.stirred_ms) if heard.at_ms == UNHEARD else heard.at_ms

    def turn_ms(self, takeover_ms: int) -> int:
        """How much longer than that this region waits before it takes over: by two heartbeats for each region with a
        lower number that is heard. So of several regions with readers one takes over, and the others hear of it.
        """
        own = region_of(self._exchange.view.replica.applied.origin)
        before = [one for one in self._counted() if one < own and self.silent_ms(one) < takeover_ms]
        return QUIET * self._heartbeat_ms * len(before)

    def _counted(self) -> list[int]:
        """The other regions of the cluster."""
        own = region_of(self._exchange.view.replica.applied.origin)
        return sorted({region_of(origin) for origin in self._exchange.counted()} - {own})

    def awaited_regions(self, takeover_ms: int) -> list[int]:
        """The regions that must be heard, or whose effects must arrive, before anything is delivered here."""
        self._look_for_pause()
        return [region for region in self._counted() if self._is_awaited(region, takeover_ms)]

    def _is_awaited(self, region: int, takeover_ms: int) -> bool:
        heard = self._regions.get(region)
        if heard is None or heard.at_ms == UNHEARD:
            return self._clock.elapsed_ms - self._last_ms(heard) < takeover_ms
        silent_ms = self._clock.elapsed_ms - heard.at_ms
        may_stir = silent_ms > takeover_ms // 2
        if may_stir and (region in self._exchange.greeted() or self._has_stirred(heard, region, takeover_ms)):
            return True
        return silent_ms < takeover_ms and heard.gap_ms > takeover_ms // 2

    def _has_stirred(self, heard: HeardRegion, region: int, takeover_ms: int) -> bool:
        """True for a while after effects of a silent region came: its sign of life may follow."""
        now_ms, applied = self._clock.elapsed_ms, self._applied_of(region)
        if applied > heard.applied:
            heard.applied, heard.stirred_ms = applied, now_ms
        return heard.stirred_ms != UNHEARD and now_ms - heard.stirred_ms < takeover_ms
