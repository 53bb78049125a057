"""Deferred work that a damaged block holds up: told once as an event, and shown as long as it lasts.

Such work is retried at each tick (core/deferred_work.py), so it resumes by itself when the disk recovers. A client
that needs the block gets an error reply; work without a client has no reply, so the operator is told here.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Final

from crdtstream.connections.context import Context
from crdtstream.core.deferred_work import DeferredWork
from crdtstream.core.entries.spilled import BlockHandle
from crdtstream.core.values.causality import origin_name
from crdtstream.replication.exchange.exchange import Exchange
from crdtstream.replication.exchange.state_joining import COMPARES
from crdtstream.status.events import Notice

REMEDY: Final = (
    "it is tried again at each tick, and checkpoints may wait too. If this lasts, replace the disk, and start the"
    " region with an empty data directory or a backup"
)


class HeldWork:
    """The deferred work of one region, by whom it is done."""

    __slots__ = ("_context", "_exchange", "_told")

    def __init__(self, context: Context, exchange: Exchange) -> None:
        self._context = context
        self._exchange = exchange
        # What was told of, and still waits.
        self._told: dict[tuple[Hashable, str], None] = {}
        for work in self._all():
            work.block_reads = context.block_reads

    def _all(self) -> Iterator[DeferredWork]:
        yield self._context.deferred_work
        yield self._exchange.arrivals.deferred_work
        yield self._exchange.audit.deferred_work

    def tick(self) -> None:
        """Tell of blocks that could not be read since the last tick."""
        self._context.deferred_work.tick()
        held = [pair for work in self._all() for pair in work.held_up.items()]
        if not held and not self._told:
            return
        self._context.saving.unreadable = sorted({f"{handle.file_name()}:{handle.offset}" for _, handle in held})
        told: dict[tuple[Hashable, str], None] = {}
        for name, handle in held:
            told[(name, handle.where())] = None
            if (name, handle.where()) not in self._told:
                self._exchange.news.append(notice(name, handle))
        self._told = told


def notice(name: Hashable, handle: BlockHandle) -> Notice:
    text = f"{handle.where()}, cannot be read or is damaged, and {described(name)} for it: {REMEDY}"
    return Notice("block-unreadable", text)


def described(name: Hashable) -> str:
    """The task of this name, as those who see it in the log know it."""
    if isinstance(name, int):
        return f"batches of the origin {origin_name(name)} wait"
    if isinstance(name, tuple) and name and name[0] == "runs":
        (_, key), group = name[1]
        return f"acknowledgements of the group {shown(group)} of {shown(key)} wait"
    if isinstance(name, tuple) and name and name[0] in ("lost", "retention"):
        return f"removals from {shown(name[1][1])} wait"
    if name == COMPARES:
        return "a state that has arrived waits"
    return "work of this region waits"


def shown(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")
