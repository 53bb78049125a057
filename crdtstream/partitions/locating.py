"""Offsets that clients have kept: under which epoch one holds that this region does not have.

A client that goes on in another region gives the last offset that it read, without the epoch. The region may lag; then
the message is still to come. Or another home has taken over since, without knowing of the message; then it has another
offset now, or is lost. So a cursor is given with an epoch, and waits: once it is known under which epoch messages are
read, it is settled as any other position (partitions/epochs.py), at worst to where the present epoch began.
"""

from __future__ import annotations

from crdtstream.partitions.epochs import NO_EPOCH, Epoch
from crdtstream.partitions.state import StreamState


def epoch_of(state: StreamState, partition: int, offset: int, is_whole: bool) -> Epoch | None:
    """The epoch of this offset, at the home; None if nobody has it. `is_whole`: every member region is linked."""
    current = state.epochs.rows[-1]
    if not state.is_numbering() or offset < state.partitions()[partition].next_offset():
        return current.epoch
    if current.parent != NO_EPOCH:
        return current.parent
    # Without a region that may have taken over there is no other epoch.
    return None if is_whole else current.epoch
