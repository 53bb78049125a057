"""What consumers of groups saw, judged: what was missed, what came twice, and how much of that may.

An entry that comes again from the region that had delivered it is *retried*: its consumer died or could not
acknowledge it, and another one took it over after its time. An entry that comes from a second region is *repeated*. In
a round every region knows at first all that was acknowledged before it. So an entry may be repeated in it only

    because of a fault      if it was written before the links broke, or shortly after, and was not handled before
    because of its end      if it was in work when the fault ended, or when its region was killed meanwhile

Each of them for a short while around those moments, as long as news are under way. A group that every region delivers
repeats an entry once in each region at most. Times are of one monotonic clock, in seconds.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

# News of a write or an acknowledgement are under way for so long at most.
NEWS_S = 1.0
NEVER_S = math.inf


@dataclass(frozen=True, slots=True)
class AddedEntry:
    """An entry whose add was answered. Its `token` is different in each, and the same in all entries that a repeated
    add made.
    """

    entry_id: bytes
    token: bytes
    at_s: float


@dataclass(slots=True)
class HandledEntry:
    """A call of a handler; `again` says that the region had delivered the entry before."""

    group: str
    entry_id: bytes
    token: bytes
    region: int
    consumer: str
    again: bool
    begun_s: float
    done_s: float = NEVER_S


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """A move that was answered with OK and was not forced."""

    begun_s: float
    done_s: float


@dataclass
class Verdict:
    """What became of the entries of one group in one round."""

    added: int = 0
    # Adds that were repeated elsewhere, and handled under two IDs.
    twice: int = 0
    missed: list[bytes] = field(default_factory=list)
    handled: int = 0
    retried: int = 0
    repeated: int = 0
    # How many entries might have been repeated.
    bound: int = 0
    moves_with_a_repeat: int = 0
    # Repeats that nothing explains.
    wrong: list[str] = field(default_factory=list)


class Times:
    """When the fault of a round began, and when anything changed after that; no times without a fault."""

    def __init__(self, *changed_s: float) -> None:
        self.changed_s = changed_s

    def allows(self, added_s: float, first: HandledEntry) -> bool:
        """Return whether an entry may be repeated that was added then, and whose first handler ran then."""
        if not self.changed_s:
            return False
        harmed_s = self.changed_s[0]
        had_by_all = added_s <= harmed_s + NEWS_S and first.done_s >= harmed_s - NEWS_S
        return had_by_all or any(
            first.begun_s <= at_s + NEWS_S and first.done_s >= at_s - NEWS_S for at_s in self.changed_s
        )


def judge_owned(
    added: Sequence[AddedEntry], handled: Iterable[HandledEntry], times: Times, moves: Sequence[PlannedMove]
) -> Verdict:
    """Judge a group that one region at a time delivers; `added` and `handled` are those of the round."""
    verdict, by_entry = begin(added, handled)
    known = {entry.entry_id: entry.at_s for entry in added}
    moves_at_fault = set()
    for entry_id, calls in by_entry.items():
        first = calls[0]
        allowed = times.allows(known.get(entry_id, -NEVER_S), first)
        verdict.bound += allowed
        if len({call.region for call in calls}) == 1 and all(call.again for call in calls[1:]):
            continue
        verdict.repeated += 1
        moves_at_fault |= {move for move in moves if first.begun_s <= move.done_s and calls[-1].begun_s >= move.begun_s}
        if not allowed:
            verdict.wrong.append(f"{entry_id.decode()} was repeated: {shown(calls, times)}")
    verdict.moves_with_a_repeat = len(moves_at_fault)
    return verdict


def judge_shared(added: Sequence[AddedEntry], handled: Iterable[HandledEntry], regions: int) -> Verdict:
    """Judge a group that every region delivers."""
    verdict, by_entry = begin(added, handled)
    verdict.bound = (regions - 1) * len(by_entry)
    for entry_id, calls in by_entry.items():
        fresh = [call.region for call in calls if not call.again]
        verdict.repeated += len({call.region for call in calls}) - 1
        if len(fresh) != len(set(fresh)):
            verdict.wrong.append(f"{entry_id.decode()} came as new from one region twice: {shown(calls, None)}")
    return verdict


def begin(
    added: Sequence[AddedEntry], handled: Iterable[HandledEntry]
) -> tuple[Verdict, dict[bytes, list[HandledEntry]]]:
    """Return what both kinds of groups are judged by, and the calls for each entry, in order."""
    by_entry: defaultdict[bytes, list[HandledEntry]] = defaultdict(list)
    ids: defaultdict[bytes, set[bytes]] = defaultdict(set)
    for call in sorted(handled, key=lambda call: call.begun_s):
        by_entry[call.entry_id].append(call)
        if call.done_s < NEVER_S:
            ids[call.token].add(call.entry_id)
    verdict = Verdict(len(added), sum(len(found) > 1 for found in ids.values()))
    verdict.missed = [entry.entry_id for entry in added if entry.token not in ids]
    verdict.handled = sum(map(len, by_entry.values()))
    verdict.retried = sum(call.again for calls in by_entry.values() for call in calls)
    return verdict, by_entry


def stale(settled: frozenset[bytes], handled: Iterable[HandledEntry]) -> list[str]:
    """Return the calls for entries that all regions knew to be acknowledged when the round began."""
    return [
        f"{call.entry_id.decode()} came again from region {call.region}" for call in handled if call.entry_id in settled
    ]


def shown(calls: Sequence[HandledEntry], times: Times | None) -> str:
    zero_s = calls[0].begun_s
    rows = [f"region {call.region} {call.begun_s - zero_s:.2f}-{call.done_s - zero_s:.2f} s" for call in calls]
    if times is not None and times.changed_s:
        rows.append("faults at " + " ".join(f"{at_s - zero_s:.2f}" for at_s in times.changed_s))
    return ", ".join(rows)
