"""What a checkpoint keeps besides keys and their files."""

from __future__ import annotations

from crdtstream.core.applying import Applied
from crdtstream.protocols import codec
from crdtstream.protocols.manifest import Manifest
from crdtstream.replication.log.history import History


def manifest_at(
    begun: int, applied: Applied, records: list[tuple[int, bytes]], history: History, segment_firsts: list[int]
) -> Manifest:
    """The manifest of a checkpoint that begins behind this log position; `records` are those of the own origin."""
    manifest = Manifest(begun, applied.vector.copy())
    manifest.contexts = {origin: context.copy() for origin, context in applied.contexts.items()}
    manifest.members = applied.members.rows()
    manifest.records = records
    manifest.records += [(codec.GAP, codec.encode_gap(position, gap)) for position, gap in history.gaps()]
    manifest.records.append((codec.BEGINNING, codec.encode_number(history.beginning)))
    history.mark(begun + 1, manifest.vector)
    manifest.milestones = history.milestones_at([*segment_firsts, begun + 1])
    return manifest
