"""Documents: small values that any region may write; the last writer wins."""

from __future__ import annotations

from crdtstream.connections.context import Context
from crdtstream.partitions.keys import documents_key
from crdtstream.partitions.refusing import require_removing, require_writable
from crdtstream.partitions.registers import Registers


class Documents:
    """All documents of the region, by kind and name."""

    __slots__ = ("_context", "_kinds")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._kinds: dict[str, Registers] = {}

    def by_name(self, kind: str) -> dict[str, bytes]:
        found = self._of(kind)
        latest = {name.decode(): found.latest(name) for name in found.names()}
        return {name: value for name, value in latest.items() if value is not None}

    def write(self, kind: str, name: str, document: bytes | None) -> None:
        """None deletes it."""
        found = self._of(kind)
        if document is None or found.latest(name.encode()) is not None:
            # What is deleted is marked so.
            require_removing(self._context.standing)
        else:
            require_writable(self._context.standing)
        if document is None:
            found.drop(name.encode())
        else:
            found.write(name.encode(), document)

    def _of(self, kind: str) -> Registers:
        if kind not in self._kinds:
            self._kinds[kind] = Registers(self._context.replica, documents_key(kind))
        return self._kinds[kind]
