"""What both sides of a link know about the progress of other members, so that each tells only what grew."""

from __future__ import annotations

from typing import Final

from crdtstream.core.causality import VersionVector


class Shared:
    """What both sides of the link know about one member other than the two."""

    __slots__ = ("applied", "durable", "life")

    def __init__(self) -> None:
        self.durable = VersionVector()
        self.applied = VersionVector()
        self.life = 0

    def add(self, durable: VersionVector | None, applied: VersionVector | None, life: int) -> None:
        if durable is not None:
            self.durable.merge(durable)
        if applied is not None:
            self.applied.merge(applied)
        self.life = max(self.life, life)


NOTHING: Final = Shared()
