"""Observers are told of a change before it happens.

The call comes before an effect from any origin, or a joined state, changes the replicated state of a key, so the state
before the change can still be captured. Local facts are not announced, because they change nothing replicated.
"""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from crdtstream.core.effects import Key


@mypyc_attr(allow_interpreted_subclasses=True)
class Observer:
    """The base class; it ignores all changes."""

    __slots__ = ()

    def before_change(self, key: Key) -> None:
        """The state of this key is about to change; the key may not exist yet."""
