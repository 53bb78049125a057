"""The membership history of this region, each event reported once: founded, admitted, evicted, ready.

founded     this origin is one of the founders of a cluster admitted    admitted by another region, or by all members;
the origin may now create groups evicted     this origin was evicted; the region continues as another origin ready
clients are served from now on
"""

from __future__ import annotations

from crdtstream.core.members import Members
from crdtstream.core.values.causality import origin_name

FOUNDED = "founded"
ADMITTED = "admitted"
EVICTED = "evicted"
READY = "ready"

LifecycleEvent = tuple[str, dict[str, object]]


class Chronicle:
    """Detects changes of membership; the runtime takes and clears `events`."""

    __slots__ = ("_is_admitted", "_is_ready", "_origin", "events")

    def __init__(self) -> None:
        self.events: list[LifecycleEvent] = []
        self._origin = 0
        self._is_admitted = False
        self._is_ready = False

    def observe(self, origin: int, members: Members, founds: bool, is_admitted: bool, is_ready: bool) -> None:
        """Compare with the last call; `founds`: this origin is a founder."""
        if origin != self._origin:
            self._change(origin, members)
        if is_admitted and not self._is_admitted:
            self._record(FOUNDED if founds else ADMITTED, origin, **sponsor_fields(origin, members, founds))
        if is_ready and not self._is_ready:
            self._record(READY, origin)
        self._is_admitted, self._is_ready = is_admitted, is_ready

    def _change(self, origin: int, members: Members) -> None:
        if self._origin and members.has_ended(self._origin):
            self._record(EVICTED, self._origin, goes_on_as=origin_name(origin))
        self._origin = origin
        self._is_admitted = False

    def _record(self, event: str, origin: int, **fields: object) -> None:
        self.events.append((event, {"origin": origin_name(origin), **fields}))


def sponsor_fields(origin: int, members: Members, founds: bool) -> dict[str, object]:
    if founds:
        return {}
    sponsor = members.sponsor_of(origin)
    return {"by": "all members" if sponsor is None else origin_name(sponsor[0])}
