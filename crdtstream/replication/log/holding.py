"""Batches of peers wait while this region has no room for them: on its disk, or below `memory_bytes_max`.

Lack of room passes, so it is no reason to refuse a peer: the link stays open, what this region has goes out over it,
and progress and heartbeats travel in both directions. A batch that waits is not applied, not logged and not
acknowledged, so the window of its sender closes, and the sender keeps it in its log.

**Light** batches pass all the same, in their turn: those that only change the membership, or only remove. On a full
disk they take from the reserve (status/availability.py). Batches of one origin stay in order, so a removal behind an
add that waits, waits too. Removals of this region's own clients never wait, hence two regions that both lack room
cannot block each other: whatever is removed in one of them makes room there at once, and then the other one's batches
are applied there.

A region short of memory asks its peers to send no more than `message_bytes` ahead, and drops what it received beyond
that: if what waits filled the memory, removals could not make room. `Exchange` asks for dropped batches again, with the
vector, once there is room (arrivals.py).

Memory that is short stays so for `MEMORY_HELD_MS` at least: the resident size moves around its limit, and each change
is told to every peer.
"""

from __future__ import annotations

from typing import Final

from crdtstream.core.effects import DATA, MEMBERS, REMOVALS
from crdtstream.protocols import codec
from crdtstream.protocols.codec import BatchHeader, CodecError
from crdtstream.settings.live import Settings
from crdtstream.status.availability import MEMORY, Standing
from crdtstream.status.events import Notice

MEMORY_HELD_MS: Final = 1_000
# Shorter waits are not logged, and their end is once there has been room for so long.
TOLD_AFTER_MS: Final = 1_000
SETTLED_MS: Final = 10_000
# What a record takes in the log besides its payload, about.
RECORD_BYTES: Final = 64

# What a session says while there is room: nothing lacks, and the whole window is open.
NOTHING_LACKS: Final = ("", 0)
LACK_CHARACTERS_MAX: Final = 100


class Lack:
    """What a region has no room in, and since when. Memory at its limit lacks room again and again, so that a lack that
    comes back within `SETTLED_MS` is the same one.
    """

    __slots__ = ("_ended_ms", "_last", "_told", "lacking", "since_ms")

    def __init__(self) -> None:
        # DISK, MEMORY, or empty; of a peer whatever it says.
        self.lacking = ""
        self.since_ms = 0
        self._last = ""
        self._ended_ms = 0
        self._told = ""

    def set(self, lacking: str, now_ms: int) -> None:
        if lacking == self.lacking:
            return
        self.lacking = lacking
        if not lacking:
            self._ended_ms = now_ms
            return
        if lacking != self._last or not 0 <= now_ms - self._ended_ms < SETTLED_MS:
            self.since_ms = now_ms
        self._last = lacking

    def waited_ms(self, now_ms: int) -> int:
        return max(0, now_ms - self.since_ms) if self.lacking else 0

    def due(self, now_ms: int) -> str | None:
        """What is lacking, once it has lasted, or empty, once there has been room for a while; None otherwise."""
        # The clock may have been set back.
        self.since_ms = min(self.since_ms, now_ms)
        self._ended_ms = min(self._ended_ms, now_ms)
        since_ms, lasting_ms = (self.since_ms, TOLD_AFTER_MS) if self.lacking else (self._ended_ms, SETTLED_MS)
        if self.lacking == self._told or now_ms - since_ms < lasting_ms:
            return None
        self._told = self.lacking
        return self.lacking


class Holding:
    """Whether batches of peers wait for room here, and which of them pass."""

    __slots__ = ("_news", "_settings", "_standing", "lack", "told")

    def __init__(self, settings: Settings, standing: Standing, news: list[Notice]) -> None:
        self._settings = settings
        self._standing = standing
        self._news = news
        self.lack = Lack()
        # What peers are told: what lacks, and how many bytes they may send ahead, 0 for their whole window.
        self.told = NOTHING_LACKS

    @property
    def lacking(self) -> str:
        return self.lack.lacking

    def observe(self, now_ms: int) -> None:
        """Call when the disk or the memory may have filled up, or may have room again, and at each tick."""
        lacking, lack = self._standing.lacking, self.lack
        still = lack.lacking == MEMORY and not lacking
        if not (still and 0 <= now_ms - lack.since_ms < MEMORY_HELD_MS):
            lack.set(lacking, now_ms)
        self.told = (lack.lacking, self._settings.limits.message_bytes if lack.lacking == MEMORY else 0)

    def report(self, now_ms: int) -> None:
        """Report a wait that lasts, and its end."""
        due, name = self.lack.due(now_ms), self._settings.config.name
        if due:
            text = f"region {name} lacks {due}: batches of its peers wait"
            self._news.append(Notice("batches-wait", text))
        elif due is not None:
            self._news.append(Notice("batches-taken", f"region {name} has room: it takes batches of its peers"))

    @property
    def kept_bytes_max(self) -> int:
        """How much may wait here for room; what exceeds it is dropped, and asked for again."""
        limits = self._settings.limits
        return limits.message_bytes if self.lacking == MEMORY else limits.window_bytes

    def judge(self, header: BatchHeader, payload: bytes) -> int:
        """Return the highest demand of its effects (core/effects.py)."""
        try:
            effects = codec.decode_effects(header, payload).effects
        except CodecError:
            return MEMBERS  # it cannot be read, and applying it refuses the peer
        return max([effect.demand() for effect in effects])

    def passes(self, judged: int, byte_count: int) -> bool:
        """Return whether a batch that was judged so may be applied now; if so, it takes its room."""
        if not self.lacking:
            return True
        if self.lacking == MEMORY or self._standing.writable:
            return judged != DATA
        if judged == MEMBERS:
            return self._standing.spend_members(byte_count + RECORD_BYTES)
        return judged == REMOVALS and self._standing.spend_removal(byte_count + RECORD_BYTES)
