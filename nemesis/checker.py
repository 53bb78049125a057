"""The anomalies of a run, from the record of its clients and the entries that each region holds at the end. Pure.

The record of one key is judged by what the product promises, and no more: an entry that a client saw stays until a
removal that may have seen it; a removal removes what its region had shown before; an ID is used once; a group delivers
every entry in every region unless it was acknowledged in another one, and delivers no entry twice in one region; IDs
ascend within a reply, and those of one origin also from reply to reply. Operations that are UNKNOWN may or may not have
happened.

    lost         an entry that was acknowledged or shown, and that no removal can cover, is missing in a region
    duplicate    one write under two IDs, one ID for two writes, or an entry that a group delivered twice in one region
    resurrected  an entry is shown after its removal, or although its write was rejected or never made
    skipped      a live entry that a group never delivered in a region, and that no other region acknowledged
    reordered    a reply whose IDs do not ascend; entries of one origin out of order, or with a hole

A region whose disk is lost for good begins a new life with an empty directory. Its replies before that count as another
life, whose region has the negative number. What only that life knew was lost with the disk: its own writes that no
other life ever showed (`perished`), and removals that no other region was seen to know (`undone`). Both are counted and
are no anomalies; everything else must be there, because another region had it.

The clients make this decidable: every write carries a unique token, IDs are minted in strict mode, and one client in
each region reads a group, so its reads are ordered.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from nemesis.history import (
    ACKNOWLEDGE,
    ADD,
    DELETE,
    DONE,
    NEVER_S,
    RANGE,
    READ,
    REFUSED,
    REMOVE,
    Entry,
    EntryID,
    Loss,
    Operation,
    region_of,
    residue_of,
    text_of,
)

LOST = "lost"
DUPLICATE = "duplicate"
RESURRECTED = "resurrected"
SKIPPED = "skipped"
REORDERED = "reordered"
KINDS = (LOST, DUPLICATE, RESURRECTED, SKIPPED, REORDERED)


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One entry in one region that the record cannot explain."""

    kind: str
    key: str
    region: int
    entry: str
    why: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.key} {self.entry} in region {self.region}: {self.why}"


def by_life(operation: Operation, loss: Loss | None) -> Operation:
    """Attribute an operation from before the loss of the disk to the region's earlier life."""
    if loss is None or operation.region != loss.region or operation.begun_s > loss.at_s:
        return operation
    return replace(operation, region=-loss.region)


class Record:
    """The operations on one key by start time, and what each region holds of it at the end."""

    def __init__(
        self, key: str, operations: Iterable[Operation], held: dict[int, list[Entry]], loss: Loss | None = None
    ) -> None:
        self.key = key
        mine = (by_life(each, loss) for each in operations if each.key == key)
        self.operations = sorted(mine, key=lambda each: each.begun_s)
        self.held = held
        self.lost_life = 0 if loss is None else -loss.region
        self.adds = self.of(ADD)
        self.effective = [each for each in self.operations if each.outcome != REFUSED]
        self.deletes = [each for each in self.effective if each.kind == DELETE]
        self.named_removed = {at for each in self.effective if each.kind == REMOVE for at in each.ids}
        self.last_delete_s = max((each.ended_s for each in self.deletes), default=-NEVER_S)
        self.begun_of = {each.token: each.begun_s for each in self.adds}
        self.tokens = self._tokens()
        self.reused = self._reused() if self.deletes else set()
        self.perished = set(self._perished()) if loss else set()
        self.undone = set(self._undone()) if loss else set()

    def of(self, kind: str) -> list[Operation]:
        return [each for each in self.operations if each.kind == kind]

    def done(self, kind: str) -> list[Operation]:
        return [each for each in self.operations if each.kind == kind and each.outcome == DONE]

    def _tokens(self) -> dict[EntryID, str]:
        """Return every ID in any reply, with its token."""
        known = {at: each.token for each in self.adds for at in each.ids}
        for _, entries in self.shown():
            for at, token in entries:
                known.setdefault(at, token)
        return known

    def _reused(self) -> set[str]:
        """Return IDs used twice: a DEL restarts a stream, so an ID may recur within its millisecond, and proves
        nothing.
        """
        answered = {(at, each.token) for each in self.adds for at in each.ids}
        pairs = answered | {entry for _, entries in self.shown() for entry in entries}
        return {text_of(at) for at, token in pairs if self.tokens[at] != token}

    def shown(self) -> Iterator[tuple[int, Iterable[Entry]]]:
        """Yield by region what any reply showed and what is held at the end."""
        for each in self.operations:
            if each.entries:
                yield each.region, each.entries
        yield from self.held.items()

    def _perished(self) -> Iterator[EntryID]:
        """Yield IDs written by the lost life, known to no other life, and never removed."""
        elsewhere = {at for region, entries in self.shown() if region != self.lost_life for at, _ in entries}
        elsewhere |= {at for each in self.adds if each.region != self.lost_life for at in each.ids}
        for at in self.tokens.keys() - elsewhere:
            if region_of(at) == -self.lost_life and not self.may_be_removed(at):
                yield at

    def _undone(self) -> Iterator[EntryID]:
        """Yield IDs removed only in the lost life, not known to be removed elsewhere, and held at the end."""
        there = {at for entries in self.held.values() for at, _ in entries}
        removed = [(region == self.lost_life, at) for region, at, _ in sure_removals(self) if at in there]
        elsewhere = {at for by_lost_life, at in removed if not by_lost_life} | self._witnessed()
        yield from {at for by_lost_life, at in removed if by_lost_life} - elsewhere

    def _witnessed(self) -> set[EntryID]:
        """Return entries that another region had shown and then lacked in a range that would include them."""
        shown_s: dict[int, dict[EntryID, float]] = defaultdict(dict)
        gone: set[EntryID] = set()
        for each in self.operations:
            if each.region == self.lost_life:
                continue
            known_s = shown_s[each.region]
            ids = [*each.ids] if each.kind == ADD else [at for at, _ in each.entries]
            if each.kind == RANGE:
                gone.update(at for at in known_s.keys() - ids if at >= each.low and known_s[at] < each.begun_s)
            for at in ids:
                known_s.setdefault(at, each.ended_s)
        return gone

    def may_be_removed(self, at: EntryID) -> bool:
        """Return whether a removal may have covered the entry: one that names it, or a DEL that ended after its write
        began.
        """
        begun_s = self.begun_of.get(self.tokens[at], -NEVER_S)
        return at in self.named_removed or begun_s < self.last_delete_s

    def anomaly(self, kind: str, region: int, at: EntryID | None, why: str) -> Anomaly:
        return Anomaly(kind, self.key, region, "-" if at is None else text_of(at), why)


def check(record: Record, drained: bool) -> list[Anomaly]:
    """Return all anomalies; `drained` says that every region's group was read to its end."""
    found = [*lost(record), *duplicate(record), *resurrected(record), *reordered(record)]
    if drained:
        found += skipped(record)
    return [each for each in dict.fromkeys(found) if each.entry not in record.reused]


def lost(record: Record) -> Iterator[Anomaly]:
    for region, entries in record.held.items():
        there = {at for at, _ in entries}
        for at in sorted(record.tokens.keys() - there):
            if not record.may_be_removed(at) and at not in record.perished:
                yield record.anomaly(LOST, region, at, "nothing removed it")


def duplicate(record: Record) -> Iterator[Anomaly]:
    yield from _two_names(record)
    given: dict[int, set[EntryID]] = defaultdict(set)
    for each in record.done(READ):
        if each.fresh:
            for at, _ in each.entries:
                if at in given[each.region]:
                    yield record.anomaly(DUPLICATE, each.region, at, "the group delivered it twice as new")
                given[each.region].add(at)


def _two_names(record: Record) -> Iterator[Anomaly]:
    ids: dict[str, EntryID] = {}
    tokens: dict[EntryID, str] = {}
    answered = [(each.region, [(at, each.token) for at in each.ids]) for each in record.adds]
    for region, entries in [*answered, *record.shown()]:
        for at, token in entries:
            if ids.setdefault(token, at) != at:
                yield record.anomaly(DUPLICATE, region, at, f"{token} is also {text_of(ids[token])}")
            if tokens.setdefault(at, token) != token:
                yield record.anomaly(DUPLICATE, region, at, f"it is {token} and {tokens[at]}")


def resurrected(record: Record) -> Iterator[Anomaly]:
    yield from _never_written(record)
    yield from _after_removal(record)
    yield from _after_acknowledgement(record)


def _never_written(record: Record) -> Iterator[Anomaly]:
    refused = {each.token for each in record.adds if each.outcome == REFUSED}
    for region, entries in record.shown():
        for at, token in entries:
            if token in refused:
                yield record.anomaly(RESURRECTED, region, at, f"the write of {token} was rejected")
            elif token not in record.begun_of:
                yield record.anomaly(RESURRECTED, region, at, f"nobody wrote {token!r}")


def _after_removal(record: Record) -> Iterator[Anomaly]:
    """Yield removed entries that reappear. A removal certainly covers what its region had shown before: in that region
    at once, elsewhere in the end.
    """
    gone: dict[int, dict[EntryID, float]] = defaultdict(dict)
    for region, at, ended_s in sure_removals(record):
        gone[region].setdefault(at, ended_s)
    everywhere = {at for ids in gone.values() for at in ids} - record.undone
    for region, entries in record.held.items():
        for at, _ in entries:
            if at in everywhere:
                yield record.anomaly(RESURRECTED, region, at, "it is held at the end although it was removed")
    for each in record.operations:
        for at, _ in each.entries:
            if gone[each.region].get(at, NEVER_S) < each.begun_s:
                yield record.anomaly(RESURRECTED, each.region, at, f"{each.kind} showed it after its removal")


def sure_removals(record: Record) -> Iterator[tuple[int, EntryID, float]]:
    seen_s: dict[int, dict[EntryID, float]] = defaultdict(dict)
    for each in sorted(record.operations, key=lambda each: each.ended_s):
        for at in [*(each.ids if each.kind == ADD else ()), *(at for at, _ in each.entries)]:
            seen_s[each.region].setdefault(at, each.ended_s)
    for each in record.done(REMOVE):
        for at in each.ids:
            if each.count == len(each.ids) or seen_s[each.region].get(at, NEVER_S) < each.begun_s:
                yield each.region, at, each.ended_s
    for each in record.done(DELETE):
        for at, shown_s in seen_s[each.region].items():
            if shown_s < each.begun_s:
                yield each.region, at, each.ended_s


def _after_acknowledgement(record: Record) -> Iterator[Anomaly]:
    acknowledged: dict[int, dict[EntryID, float]] = defaultdict(dict)
    for each in record.done(ACKNOWLEDGE):
        for at in each.ids:
            acknowledged[each.region].setdefault(at, each.ended_s)
    for each in record.done(READ):
        for at, _ in each.entries:
            if acknowledged[each.region].get(at, NEVER_S) < each.begun_s:
                yield record.anomaly(RESURRECTED, each.region, at, "the group delivered it after its acknowledgement")


def skipped(record: Record) -> Iterator[Anomaly]:
    given: dict[int, set[EntryID]] = defaultdict(set)
    acknowledged: dict[int, set[EntryID]] = defaultdict(set)
    for each in record.effective:
        if each.kind == READ:
            given[each.region].update(at for at, _ in each.entries)
        elif each.kind == ACKNOWLEDGE:
            acknowledged[each.region].update(each.ids)
    for region, entries in record.held.items():
        elsewhere = {at for other, ids in acknowledged.items() if other != region for at in ids}
        for at, _ in entries:
            if at not in given[region] and at not in elsewhere:
                yield record.anomaly(
                    SKIPPED, region, at, "the group never delivered it, and no other region acknowledged it"
                )


def reordered(record: Record) -> Iterator[Anomaly]:
    for region, entries in record.shown():
        ids = [at for at, _ in entries]
        for before, after in pairwise(ids):
            if before >= after:
                yield record.anomaly(REORDERED, region, after, f"one reply has it after {text_of(before)}")
    yield from _adds_out_of_order(record)
    yield from _origins_out_of_order(record)
    yield from _holes(record)


def _adds_out_of_order(record: Record) -> Iterator[Anomaly]:
    """Yield minted IDs out of order: a region's IDs ascend as long as no DEL restarts the stream."""
    if record.deletes:
        return
    latest: dict[int, EntryID] = {}
    finished = sorted(record.done(ADD), key=lambda each: each.ended_s)
    number = 0
    for each in record.done(ADD):
        while number < len(finished) and finished[number].ended_s < each.begun_s:
            before = finished[number]
            latest[before.region] = max(latest.get(before.region, (0, 0)), *before.ids)
            number += 1
        if each.ids[0] <= latest.get(each.region, (0, 0)):
            yield record.anomaly(
                REORDERED, each.region, each.ids[0], f"given after {text_of(latest[each.region])} was answered"
            )


def _origins_out_of_order(record: Record) -> Iterator[Anomaly]:
    latest: dict[tuple[int, int], EntryID] = {}
    for each in record.done(READ):
        for at, _ in each.entries if each.fresh else ():
            before = latest.get((each.region, residue_of(at)), (0, 0))
            if at < before:
                yield record.anomaly(
                    REORDERED, each.region, at, f"the group delivered {text_of(before)} of its origin first"
                )
            latest[each.region, residue_of(at)] = max(at, before)


def _holes(record: Record) -> Iterator[Anomaly]:
    """Yield holes: effects of an origin arrive in order, so a reply with an entry has all lasting ones before it."""
    lasting: dict[int, list[EntryID]] = defaultdict(list)
    for at in sorted(record.tokens):
        if not record.may_be_removed(at):
            lasting[residue_of(at)].append(at)
    for each in record.done(RANGE):
        shown = {at for at, _ in each.entries}
        last = {residue_of(at): at for at, _ in each.entries}
        for origin, at in last.items():
            ids = lasting[origin]
            for expected in ids[bisect_left(ids, each.low) : bisect_left(ids, at)]:
                if expected not in shown:
                    yield record.anomaly(REORDERED, each.region, expected, f"{text_of(at)} of its origin came first")
