"""Saving: requesting checkpoints and learning of their results.

SAVE and BGSAVE call `request`. The runtime sees `requested`, takes the checkpoint beside the turns, and reports the
result. A client that waits for a checkpoint parks a waiter that asks `completed`.

    waiting = saving.request()             the number of a checkpoint that includes everything up to now
    waiting = saving.next()                the number of the checkpoint that ends next; it may lack the latest changes
    saving.completed(waiting) -> bool      that checkpoint is on disk, or it failed
    saving.failure                         why the last checkpoint failed; empty if it succeeded
    saving.saved_ms                        when the last successful one was completed (LASTSAVE); 0 if there is none
    saving.running, saving.requested       a checkpoint is in progress; a checkpoint is to be started
    saving.effects                         how many effects the last successful one has
    saving.back_up(directory) -> Backup    a backup, which follows a checkpoint; its client waits until it is `done`
    saving.damages                         the places in the log, as file and byte, that could not be read since the
                                           start; a checkpoint makes them unneeded
    saving.unreadable                      the blocks, as file and byte, that cannot be read now, and for which work of
                                           the region waits
"""

from __future__ import annotations

from typing import Final

# After so long a checkpoint that failed is tried again, unless a client asks for one.
RETRY_MS: Final = 60_000


class Backup:
    """A requested backup; once it is `done`, why it failed, or else where it is and what it holds."""

    __slots__ = ("byte_count", "directory", "done", "failure", "files", "position", "wanted")

    def __init__(self, wanted: bytes) -> None:
        self.wanted = wanted
        self.directory = ""
        self.done = False
        self.failure = ""
        self.files = 0
        self.byte_count = 0
        self.position = 0


class Saving:
    """Checkpoints by number, from 1; `ended` is the last one that ended, successfully or not."""

    __slots__ = (
        "_begun",
        "_effects",
        "backups",
        "damages",
        "effects",
        "ended",
        "failure",
        "requested",
        "running",
        "saved_ms",
        "unreadable",
    )

    def __init__(self) -> None:
        self._begun = 0
        self.ended = 0
        self._effects = 0
        self.effects = 0
        # Those that wait for a checkpoint that begins after their request.
        self.backups: list[Backup] = []
        self.damages: list[str] = []
        self.failure = ""
        self.requested = False
        self.running = False
        self.saved_ms = 0
        self.unreadable: list[str] = []

    def request(self) -> int:
        """Request a checkpoint. One in progress began before this request, so it is followed by another."""
        self.requested = True
        return self._begun + 1

    def next(self) -> int:
        """The number of the checkpoint that ends next; requests one if none is in progress."""
        return self._begun if self.running else self.request()

    def back_up(self, wanted: bytes) -> Backup:
        """Request a backup into a directory, as the client named it."""
        backup = Backup(wanted)
        self.backups.append(backup)
        self.request()
        return backup

    def drain_backups(self) -> list[Backup]:
        """The backups that the checkpoint which begins now is for."""
        taken = self.backups
        self.backups = []
        return taken

    def completed(self, number: int) -> bool:
        return number <= self.ended

    def cover(self, damages: list[str]) -> None:
        """The log has lost what lay at these places: request a checkpoint that covers those not known before."""
        if len(damages) > len(self.damages):
            self.damages = damages
            self.request()

    def describe(self, effects: int) -> None:
        """The checkpoint in progress has this many effects."""
        self._effects = effects

    def begin(self) -> None:
        self.requested = False
        self.running = True
        self._begun += 1

    def end(self, saved_ms: int, failure: str = "") -> None:
        """End the checkpoint in progress; `saved_ms` is recorded only if it did not fail."""
        self.running = False
        self.ended = self._begun
        self.failure = failure
        if not failure:
            self.saved_ms = saved_ms
            self.effects = self._effects

    def saved(self, saved_ms: int, effects: int) -> None:
        """Record the time and the effects of the checkpoint that this node was started from."""
        self.saved_ms = saved_ms
        self.effects = effects

    def check(self) -> None:
        assert self.ended == self._begun - (1 if self.running else 0), "a checkpoint that began has no end"
