"""What Redis 8.4 to 8.8 reply to CLAIM, IDMP, IDMPAUTO, XCFGSET, XIDMPRECORD and XNACK, on one stream: a slow model.

It was written from the reference of these commands, not from the server, and shares no code with it. No server that can
be installed here has all of them; what it has, the differential run compares. The model says nothing of what the
reference leaves open: pending entries whose entry is gone, an entry that is released twice.
"""

from __future__ import annotations

I64_MAX = 2**63 - 1
EntryId = tuple[int, int]


def said(entry_id: EntryId) -> bytes:
    return b"%d-%d" % entry_id


class Held:
    """A pending entry; `released` is its place among the released ones, 0 if it was not released."""

    def __init__(self, consumer: bytes, since_ms: int, count: int) -> None:
        self.consumer, self.since_ms, self.count, self.released = consumer, since_ms, count, 0


class GroupModel:
    def __init__(self) -> None:
        self.last: EntryId = (0, 0)
        self.pending: dict[EntryId, Held] = {}
        self.releases = 0


class Model:
    """One stream; methods are commands, and return what they reply: bytes, numbers, lists, None, or text for errors."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.entries: dict[EntryId, list[bytes]] = {}
        self.last: EntryId = (0, 0)
        self.groups = {b"g": GroupModel(), b"h": GroupModel()}
        # (producer, name) -> (entry, time), in the order in which they were recorded.
        self.records: dict[tuple[bytes, object], tuple[EntryId, int]] = {}
        self.duration_s = self.records_max = 100
        self.added = self.duplicates = 0

    # Adding

    def xadd(self, fields: list[bytes]) -> bytes:
        ms, seq = self.last
        self.last = (self.now_ms, 0) if self.now_ms > ms else (ms, seq + 1)
        self.entries[self.last] = fields
        return said(self.last)

    def xadd_idmp(self, producer: bytes, name: object, fields: list[bytes]) -> bytes:
        known = self.known(producer, name)
        if known is not None:
            self.duplicates += 1
            return said(known)
        reply = self.xadd(fields)
        self.added += 1
        self.record(producer, name, self.last)
        return reply

    def xadd_idmpauto(self, producer: bytes, fields: list[bytes]) -> bytes:
        pairs = sorted(zip(fields[::2], fields[1::2], strict=True))
        return self.xadd_idmp(producer, ("content", *pairs), fields)

    def known(self, producer: bytes, name: object) -> EntryId | None:
        found = self.records.get((producer, name))
        return None if found is None or self.now_ms - found[1] >= self.duration_s * 1000 else found[0]

    def record(self, producer: bytes, name: object, entry_id: EntryId) -> None:
        self.records.pop((producer, name), None)
        self.records[producer, name] = (entry_id, self.now_ms)
        own = [record for record in self.records if record[0] == producer]
        for oldest in own[: max(0, len(own) - self.records_max)]:
            del self.records[oldest]

    def xcfgset(self, duration_s: int, records_max: int) -> bytes:
        if (duration_s, records_max) != (self.duration_s, self.records_max):
            self.records.clear()
        self.duration_s, self.records_max = duration_s, records_max
        return b"OK"

    def xidmprecord(self, producer: bytes, name: bytes, entry_id: EntryId) -> bytes | str:
        if entry_id not in self.entries:
            return "ERR No such message in stream"
        known = self.known(producer, name)
        if known is not None and known != entry_id:
            return "ERR IID already exists for this producer with a different stream ID"
        if known is None:
            self.added += 1
            self.record(producer, name, entry_id)
        return b"OK"

    # Groups

    def xreadgroup(self, group: bytes, consumer: bytes, count: int, claim_ms: int | None) -> list[object] | None:
        one = self.groups[group]
        rows: list[object] = []
        if claim_ms is not None:
            for entry_id in self.stale(one, claim_ms)[:count]:
                held = one.pending[entry_id]
                idle_ms: object = "any" if held.released else self.now_ms - held.since_ms
                rows.append([said(entry_id), self.entries[entry_id], idle_ms, held.count])
                one.pending[entry_id] = Held(consumer, self.now_ms, min(held.count + 1, I64_MAX))
        for entry_id in sorted(one_id for one_id in self.entries if one_id > one.last)[: count - len(rows)]:
            rows.append([said(entry_id), self.entries[entry_id], *([] if claim_ms is None else [0, 0])])
            one.pending[entry_id] = Held(consumer, self.now_ms, 1)
            one.last = entry_id
        return [[b"s", rows]] if rows else None

    def stale(self, group: GroupModel, idle_ms: int) -> list[EntryId]:
        """Released entries in the order of their release, then what is idle for so long, the longest first."""
        released = [one for one, held in group.pending.items() if held.released]
        released.sort(key=lambda one: group.pending[one].released)
        idle = [one for one, held in group.pending.items() if not held.released]
        idle = [one for one in idle if self.now_ms - group.pending[one].since_ms >= idle_ms]
        return released + sorted(idle, key=lambda one: (group.pending[one].since_ms, one))

    def xnack(self, group: bytes, mode: str, ids: list[EntryId], count: int | None, force: bool) -> int:
        one, released = self.groups[group], 0
        for entry_id in ids:
            if entry_id not in one.pending and not (force and entry_id in self.entries):
                continue
            held = one.pending.get(entry_id) or Held(b"", 0, 0)
            after = {"SILENT": max(held.count - 1, 0), "FAIL": held.count, "FATAL": I64_MAX}[mode]
            one.releases += 1
            one.pending[entry_id] = fresh = Held(b"", 0, after if count is None else count)
            fresh.released = one.releases
            released += 1
        return released

    def xack(self, group: bytes, ids: list[EntryId]) -> int:
        return sum(self.groups[group].pending.pop(one, None) is not None for one in ids)

    def xclaim(self, group: bytes, consumer: bytes, ids: list[EntryId]) -> list[object]:
        """With a minimum of 0 and JUSTID, which leaves the count as it is."""
        one = self.groups[group]
        found = [entry_id for entry_id in ids if entry_id in one.pending]
        for entry_id in found:
            one.pending[entry_id] = Held(consumer, self.now_ms, one.pending[entry_id].count)
        return [said(entry_id) for entry_id in found]

    def xpending(self, group: bytes) -> list[object]:
        pending = self.groups[group].pending
        rows: list[object] = []
        for one, held in sorted(pending.items()):
            idle_ms = -1 if held.released else self.now_ms - held.since_ms
            rows.append([said(one), held.consumer, idle_ms, held.count])
        return rows

    def counts(self) -> dict[bytes, int]:
        """What XINFO tells of all this: of the stream, and how many entries each group has released."""
        of_group = {name: sum(held.released > 0 for held in one.pending.values()) for name, one in self.groups.items()}
        own = {b"idmp-duration": self.duration_s, b"idmp-maxsize": self.records_max}
        return {**own, b"iids-added": self.added, b"iids-duplicates": self.duplicates, **of_group}
