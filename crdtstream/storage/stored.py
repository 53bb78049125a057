"""The port through which storage restores a node's state and takes checkpoints of it."""

from __future__ import annotations

from typing import Protocol

from crdtstream.core.effects import Key
from crdtstream.core.entries.packed_block import OpenBlockCache
from crdtstream.core.streams.stream import Stream
from crdtstream.protocols.manifest import Manifest, Milestone
from crdtstream.protocols.state_rows import StreamImage
from crdtstream.settings.config import Limits


def does_spill(stored: Stored) -> bool:
    """Whether packed blocks may be on disk alone; a start then reads none."""
    return stored.limits.hot_bytes_max > 0


class Stored(Protocol):
    """The state of one region. A start calls `restore`, `restore_key` for each key, then `recover` for each log record.
    A checkpoint calls `describe`, then `image` for each of `names`, each between two turns.
    """

    @property
    def limits(self) -> Limits:
        """The settings, as they are now."""

    # A start

    @property
    def open_blocks(self) -> OpenBlockCache:
        """What bounds the open blocks, also of those that a checkpoint has packed."""

    def restore(self, manifest: Manifest) -> None:
        """Restore everything in a checkpoint except its keys."""

    def restore_key(self, key: Key, stream: Stream | None, position: int) -> None:
        """Restore a key as it was in a checkpoint at this log position; None if it no longer existed."""

    def recover(self, position: int, kind: int, payload: bytes) -> None:
        """Apply one log record; called in order."""

    # A checkpoint

    @property
    def last_position(self) -> int:
        """The last position of the log, including records of turns that are not written yet."""

    def can_describe(self) -> bool: ...
    def is_settled(self) -> bool:
        """Return whether everything prepared is also in the log."""

    def awaits_blocks(self) -> bool:
        """Return whether acknowledgements wait for spilled blocks; no key can be captured meanwhile."""

    def describe(self, segment_firsts: list[int]) -> Manifest:
        """Describe a checkpoint that begins now, except its keys and files."""

    def names(self) -> list[tuple[int, list[bytes]]]:
        """The names of all keys, by database."""

    def image(self, key: Key) -> StreamImage:
        """The key as it is now, at the log's last position."""

    def needed_position(self, milestones: list[Milestone], yields: bool = False) -> int:
        """Return the position before which no record is needed; with `yields`, none by a peer that is not long away."""

    def held_position(self) -> int:
        """Return the first position that peers need that are receiving a state transfer now."""
