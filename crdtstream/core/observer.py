"""Who wants to know of a change before it happens.

Told before an effect from anywhere, or a join, changes the replicated state of a key: it can still be captured as it
is. Never told of local facts, which change nothing that is replicated.
"""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from crdtstream.core.effects import Key


@mypyc_attr(allow_interpreted_subclasses=True)
class Observer:
    """Does nothing: subclasses say what."""

    __slots__ = ()

    def before_change(self, key: Key) -> None:
        """The key's state is about to change; it may be a key that is not here yet."""
