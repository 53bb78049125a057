"""Which keys and groups changed, for those who wait for them."""

from __future__ import annotations

from crdtstream.core.effects import Key
from crdtstream.core.groups.group import Group
from crdtstream.core.streams.stream import Stream


class Changed:
    """The touched keys and the dirty groups, each in the order in which they changed first."""

    __slots__ = ("dirty", "dirtying", "touched", "touching")

    def __init__(self) -> None:
        self.dirty: dict[tuple[Key, bytes], None] = {}
        self.touched: dict[Key, None] = {}
        # The stream of the local add before, if its key is touched already.
        self.touching: Stream | None = None
        # The group that became dirty last, while it is.
        self.dirtying: Group | None = None

    def drain_touched(self) -> list[Key]:
        """Return and clear the keys whose readers may find something new, in the order in which they were touched."""
        touched = list(self.touched)
        self.touched.clear()
        self.touching = None
        return touched

    def record_dirty(self, key: Key, name: bytes, group: Group) -> None:
        # Consecutive facts are mostly about one group: comparing it spares hashing three names.
        if group is not self.dirtying:
            self.dirty[(key, name)] = None
            self.dirtying = group

    def forget_dirty(self, dirty: tuple[Key, bytes]) -> None:
        self.dirty.pop(dirty, None)
        self.dirtying = None

    def dirty_all(self, key: Key, stream: Stream) -> None:
        for name in stream.groups:
            self.dirty[(key, name)] = None
