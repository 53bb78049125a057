"""The replicated state of a region as one value: what a state transfer delivers."""

from __future__ import annotations

from crdtstream.core.effects import Key
from crdtstream.core.joining import LackingEntries
from crdtstream.core.members import Members
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.causality import VersionVector


class WholeState:
    """Everything a region had applied at exactly this vector. A key missing from `streams` was absent; `contexts` has
    the context of each origin's last batch, `lacking` what was compared before the state is joined (core/comparing.py).
    Joining or adopting the state consumes its streams.
    """

    __slots__ = ("contexts", "lacking", "members", "streams", "vector")

    def __init__(
        self,
        streams: dict[Key, Stream] | None = None,
        vector: VersionVector | None = None,
        contexts: dict[int, VersionVector] | None = None,
        members: Members | None = None,
    ) -> None:
        self.streams: dict[Key, Stream] = {} if streams is None else streams
        self.vector = VersionVector() if vector is None else vector
        self.contexts: dict[int, VersionVector] = {} if contexts is None else contexts
        self.members = Members() if members is None else members
        self.lacking: dict[Key, dict[int, LackingEntries]] = {}
