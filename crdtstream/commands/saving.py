"""Saving: checkpoints as clients ask for them and hear of them.

SAVE and BGSAVE call `request`; the runtime sees `requested`, takes the checkpoint beside the turns, and tells how it
ended. A client that waits for one parks a waiter that asks `completed`.

    waiting = saving.request()             the number of the checkpoint that includes all up to now
    saving.completed(waiting) -> bool      it is on disk, or it failed
    saving.failure                         why the last one failed; empty when it did not
    saving.saved_ms                        when the last good one was complete (LASTSAVE); 0 when there is none
    saving.running, saving.requested       a checkpoint is under way; one is to be begun
"""

from __future__ import annotations


class Saving:
    """Checkpoints by number, from 1; `_ended` is the last one that ended, well or not."""

    __slots__ = ("_begun", "_ended", "failure", "requested", "running", "saved_ms")

    def __init__(self) -> None:
        self._begun = 0
        self._ended = 0
        self.failure = ""
        self.requested = False
        self.running = False
        self.saved_ms = 0

    def request(self) -> int:
        """One that is under way began before this request, so another follows it."""
        self.requested = True
        return self._begun + 1

    def completed(self, number: int) -> bool:
        return number <= self._ended

    def begin(self) -> None:
        self.requested = False
        self.running = True
        self._begun += 1

    def end(self, saved_ms: int, failure: str = "") -> None:
        """How it ended; `saved_ms` counts when there was no failure."""
        self.running = False
        self._ended = self._begun
        self.failure = failure
        if not failure:
            self.saved_ms = saved_ms

    def saved(self, saved_ms: int) -> None:
        """The checkpoint that this node started from."""
        self.saved_ms = saved_ms

    def check(self) -> None:
        assert self._ended == self._begun - (1 if self.running else 0), "checkpoints are lost"
