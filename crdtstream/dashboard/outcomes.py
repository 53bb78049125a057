"""What an action did: in the one shard that has its key, or in each shard of the region. Pure.

A shard may refuse, or not answer, while others have done what was asked. The same command, given again, does what is
left: a shard that is done says so, as it does to `crdtstream admin`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from crdtstream.admin.comparison import text_of
from crdtstream.admin.leaving import ABORTED, LEFT, STAYING, read_status
from crdtstream.observing.asking import RegionAnswer
from crdtstream.observing.reading import RegionReading, labelled
from crdtstream.observing.words import several
from crdtstream.protocols.hash_slots import shard_of

EVICT, LEAVE = b"CRDT.EVICT", b"CRDT.LEAVE"
# How far a leave is; unlike the leave, it begins nothing.
LEAVE_STATUS = (LEAVE, b"STATUS")
EVICTED_BEFORE, LEFT_BEFORE = "evicted before", "left before"


@dataclass(frozen=True)
class ShardOutcome:
    """What one shard says, or the region, if that has one."""

    label: str
    reply: str
    is_error: bool = False


@dataclass(frozen=True)
class ActionOutcome:
    """A command that ran, and what was said to it; `again` is the page that asks whether to repeat it."""

    command: str
    region: str
    shards: tuple[ShardOutcome, ...]
    again: str = ""

    @property
    def is_error(self) -> bool:
        return any(each.is_error for each in self.shards)

    @property
    def is_partial(self) -> bool:
        return self.is_error and not all(each.is_error for each in self.shards)


def concerned(
    readings: Sequence[RegionReading], region: str, words: Sequence[bytes], key: bytes | None
) -> list[RegionReading]:
    """The shards of a region that a command is for: the one that has its key, or the one that knows an origin, else
    all.
    """
    own = [each for each in readings if each.name == region]
    if key is not None:
        return [each for each in own if each.shard == shard_of(key, each.shards)]
    if words[0] == EVICT and b"." in words[1]:
        knowing = [each for each in own if any(row.origin.encode() == words[1] for row in each.origins)]
        return knowing or own[:1]
    return own


def outcome_of(reading: RegionReading, words: Sequence[bytes], answer: RegionAnswer, has_left: bool) -> ShardOutcome:
    """What a shard says to a command; `has_left`: its counterparts say that it belongs to the cluster no more."""
    if answer.error and reading.shards > 1:
        if words[0] == EVICT and answer.error.endswith("is already evicted"):
            return ShardOutcome(reading.label, EVICTED_BEFORE)
        if words[0] == LEAVE and answer.unreachable and has_left:
            return ShardOutcome(reading.label, LEFT_BEFORE)
    if answer.error:
        return ShardOutcome(reading.label, answer.error, True)
    if tuple(words) == LEAVE_STATUS and read_status(answer)[0] == STAYING:
        return ShardOutcome(reading.label, ABORTED, True)
    return ShardOutcome(reading.label, progress(answer) if words[0] == LEAVE else text_of(answer.value))


def has_left(outcome: ShardOutcome) -> bool:
    return outcome.reply in (LEFT.decode(), LEFT_BEFORE)


def progress(answer: RegionAnswer) -> str:
    """How far a shard that leaves is."""
    state, lacking = read_status(answer)
    left = [f"{name} lacks {several(count, 'effect')}" for name, count in lacking.items()]
    return ", ".join([state.decode(), *(left if state not in (LEFT, STAYING) else [])])


def absent_outcomes(
    own: Sequence[RegionReading], words: Sequence[bytes], gone: Collection[tuple[int, int]]
) -> list[ShardOutcome]:
    """The shards that nobody asks any more, because they have left."""
    if words[0] != LEAVE or not own:
        return []
    one, asked = own[0], {each.shard for each in own}
    return [
        ShardOutcome(labelled(one.name, shard), LEFT_BEFORE)
        for shard in range(one.shards)
        if shard not in asked and (one.region, shard) in gone
    ]
