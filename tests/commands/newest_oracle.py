"""What Redis 8.8 replies to the commands of one stream and its two groups: a slow model.

It shares no code with the server. It was written from the reference, and corrected by replies of 8.6.3 and 8.8 where
the reference leaves something open; what 8.2 has is compared with a real server of that release, with the same
requests (test_differential_newest.py). What crdtstream does otherwise on purpose (commands/differences.py) it does too:
`ACKED` keeps nothing of an ID that the stream lacks, and `DELREF` of a trim drops all references in what it trimmed.

A request is a list of words as a client sends them, in one order of the options; the reply is bytes, a number, a list,
None, or text for an error.
"""

from __future__ import annotations

from collections.abc import Callable

I64_MAX = 2**63 - 1
EntryId = tuple[int, int]
NOT_FOUND, REMOVED, STILL_NEEDED = -1, 1, 2
INVALID_ID = "ERR Invalid stream ID specified as stream command argument"
BUSY = "BUSYGROUP Consumer Group name already exists"
TOO_SMALL = "ERR The ID specified in XADD is equal or smaller than the target stream top item"


def said(entry_id: EntryId) -> bytes:
    return b"%d-%d" % entry_id


def id_of(word: str) -> EntryId:
    ms, _, seq = word.partition("-")
    return int(ms), int(seq or 0)


def after(words: list[str], name: str, default: str) -> str:
    """The word behind an option."""
    return words[words.index(name) + 1] if name in words else default


def named_ids(words: list[str]) -> list[EntryId]:
    """`IDS n id...`."""
    at = words.index("IDS")
    return [id_of(word) for word in words[at + 2 : at + 2 + int(words[at + 1])]]


def strategy_of(words: list[str]) -> str:
    return next((word for word in words if word in ("KEEPREF", "DELREF", "ACKED")), "KEEPREF")


class Held:
    """A pending entry; `released` is its place among the released ones, 0 if it was not released."""

    def __init__(self, consumer: str, since_ms: int, count: int) -> None:
        self.consumer, self.since_ms, self.count, self.released = consumer, since_ms, count, 0


class GroupModel:
    def __init__(self, last: EntryId) -> None:
        self.last = last
        self.pending: dict[EntryId, Held] = {}
        self.releases = 0

    def needs(self, entry_id: EntryId) -> bool:
        return entry_id in self.pending or entry_id > self.last


class Model:
    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.entries: dict[EntryId, list[str]] = {}
        self.last: EntryId = (0, 0)
        self.max_deleted: EntryId = (0, 0)
        self.entries_added = 0
        self.groups: dict[str, GroupModel] = {}
        # (producer, name) -> (entry, time), in the order in which they were recorded.
        self.records: dict[tuple[str, object], tuple[EntryId, int]] = {}
        self.duration_s = self.records_max = 100
        self.added = self.duplicates = 0

    def run(self, words: list[str]) -> object:
        commands: dict[str, Callable[[list[str]], object]] = {
            "XADD": self.xadd,
            "XDEL": self.xdel,
            "XDELEX": self.xdelex,
            "XACKDEL": self.xackdel,
            "XTRIM": self.xtrim,
            "XCFGSET": self.xcfgset,
            "XIDMPRECORD": self.xidmprecord,
            "XREADGROUP": self.xreadgroup,
            "XACK": self.xack,
            "XNACK": self.xnack,
            "XCLAIM": self.xclaim,
            "XAUTOCLAIM": self.xautoclaim,
            "XGROUP": self.xgroup,
            "XPENDING": self.xpending,
            "XRANGE": self.xrange,
        }
        group = self.group_in(words)
        if group and (group in self.groups) == (words[:2] == ["XGROUP", "CREATE"]):
            return self.misplaced(words, group)
        return commands[words[0]](words)

    def group_in(self, words: list[str]) -> str:
        """The group that a request names; empty if it names none."""
        if words[0] in ("XGROUP", "XREADGROUP"):
            return words[3 if words[0] == "XGROUP" else 2]
        return words[2] if words[0] in ("XACK", "XACKDEL", "XCLAIM", "XAUTOCLAIM", "XNACK", "XPENDING") else ""

    def misplaced(self, words: list[str], group: str) -> object:
        """The reply where there is no such group, or where there is one already."""
        if words[0] == "XACK":
            return 0
        if words[0] == "XACKDEL":
            return [NOT_FOUND] * len(named_ids(words))
        if words[0] == "XGROUP":
            missing = f"NOGROUP No such consumer group '{group}' for key name 's'"
            return {"CREATE": BUSY, "DESTROY": 0}.get(words[1], missing)
        where = " in XREADGROUP with GROUP option" if words[0] == "XREADGROUP" else ""
        return f"NOGROUP No such key 's' or consumer group '{group}'{where}"

    # Adding

    def xadd(self, words: list[str]) -> object:
        at = next(at for at, word in enumerate(words) if word == "*" or word.endswith("-*"))
        fields = words[at + 1 :]
        known: EntryId | None = None
        key: tuple[str, object] | None = None
        if "IDMP" in words:
            key = (after(words, "IDMP", ""), words[words.index("IDMP") + 2])
        elif "IDMPAUTO" in words:
            pairs = sorted(zip(fields[::2], fields[1::2], strict=True))
            key = (after(words, "IDMPAUTO", ""), ("content", *pairs))
        if key is not None:
            known = self.known(key)
        if known is not None:
            self.duplicates += 1
            return said(known)
        new_id = self.minted(words[at])
        if new_id is None:
            return TOO_SMALL
        self.last = new_id
        self.entries[new_id] = fields
        self.entries_added += 1
        if key is not None:
            self.added += 1
            self.record(key, new_id)
        if "MAXLEN" in words:
            self.trim(words)
        return said(new_id)

    def minted(self, word: str) -> EntryId | None:
        ms, seq = self.last
        if word == "*":
            return (self.now_ms, 0) if self.now_ms > ms else (ms, seq + 1)
        wanted_ms = int(word[:-2])
        return None if wanted_ms < ms else (ms, seq + 1) if wanted_ms == ms else (wanted_ms, 0)

    def known(self, key: tuple[str, object]) -> EntryId | None:
        found = self.records.get(key)
        return None if found is None or self.now_ms - found[1] >= self.duration_s * 1000 else found[0]

    def record(self, key: tuple[str, object], entry_id: EntryId) -> None:
        self.records.pop(key, None)
        self.records[key] = (entry_id, self.now_ms)
        own = [record for record in self.records if record[0] == key[0]]
        for oldest in own[: max(0, len(own) - self.records_max)]:
            del self.records[oldest]

    def xcfgset(self, words: list[str]) -> object:
        duration_s = int(after(words, "IDMP-DURATION", str(self.duration_s)))
        records_max = int(after(words, "IDMP-MAXSIZE", str(self.records_max)))
        if (duration_s, records_max) != (self.duration_s, self.records_max):
            self.records.clear()
        self.duration_s, self.records_max = duration_s, records_max
        return "OK"

    def xidmprecord(self, words: list[str]) -> object:
        if words[4].endswith("-"):
            return INVALID_ID
        for text, what in ((words[2], "producer"), (words[3], "idempotent")):
            if not text:
                return f"ERR {what} ID must be non-empty"
        key, entry_id = (words[2], words[3]), id_of(words[4])
        if entry_id not in self.entries:
            return "ERR No such message in stream"
        known = self.known(key)
        if known is not None and known != entry_id:
            return "ERR IID already exists for this producer with a different stream ID"
        if known is None:
            self.added += 1
            self.record(key, entry_id)
        return "OK"

    # Removing

    def xdel(self, words: list[str]) -> object:
        return sum(self.remove(id_of(word)) for word in words[2:])

    def remove(self, entry_id: EntryId) -> bool:
        if self.entries.pop(entry_id, None) is None:
            return False
        self.max_deleted = max(self.max_deleted, entry_id)
        return True

    def drop_references(self, entry_id: EntryId) -> None:
        for group in self.groups.values():
            group.pending.pop(entry_id, None)

    def is_needed(self, entry_id: EntryId) -> bool:
        return any(group.needs(entry_id) for group in self.groups.values())

    def xdelex(self, words: list[str]) -> object:
        strategy = strategy_of(words)
        fates: list[object] = []
        for entry_id in named_ids(words):
            if strategy == "DELREF":
                self.drop_references(entry_id)
            if entry_id not in self.entries:
                fates.append(NOT_FOUND)
            elif strategy == "ACKED" and self.is_needed(entry_id):
                fates.append(STILL_NEEDED)
            else:
                self.remove(entry_id)
                fates.append(REMOVED)
        return fates

    def xackdel(self, words: list[str]) -> object:
        strategy, group = strategy_of(words), self.groups[words[2]]
        ids = named_ids(words)
        held = {one: group.pending.pop(one) for one in dict.fromkeys(ids) if one in group.pending}
        fates: list[object] = []
        for entry_id in ids:
            if held.pop(entry_id, None) is None:
                fates.append(NOT_FOUND)
                continue
            lives = entry_id in self.entries
            pends = any(entry_id in one.pending for one in self.groups.values())
            if strategy == "ACKED" and (self.is_needed(entry_id) if lives else pends):
                fates.append(STILL_NEEDED)
                continue
            if strategy == "DELREF":
                self.drop_references(entry_id)
            self.remove(entry_id)
            fates.append(REMOVED)
        return fates

    def xtrim(self, words: list[str]) -> object:
        return self.trim(words)

    def trim(self, words: list[str]) -> int:
        strategy, ids = strategy_of(words), sorted(self.entries)
        if "MAXLEN" in words:
            surplus = max(0, len(ids) - int(after(words, "MAXLEN", "")))
            old = ids
        else:
            old = [one for one in ids if one < id_of(after(words, "MINID", ""))]
            surplus = len(old)
        if strategy == "ACKED":
            old = [one for one in old if not self.is_needed(one)]
        gone = old[:surplus]
        for entry_id in gone:
            del self.entries[entry_id]
        if strategy == "DELREF" and gone:
            for group in self.groups.values():
                for entry_id in [one for one in group.pending if gone[0] <= one <= gone[-1]]:
                    del group.pending[entry_id]
        return len(gone)

    # Groups

    def xreadgroup(self, words: list[str]) -> object:
        """`GROUP g c COUNT n [CLAIM ms] [NOACK] STREAMS s id`."""
        group, consumer, count = self.groups[words[2]], words[3], int(words[5])
        rows: list[object] = []
        if words[-1] != ">":
            held = sorted(one for one, row in group.pending.items() if row.consumer == consumer)
            for entry_id in [one for one in held if one > id_of(words[-1])][:count]:
                fields = self.entries.get(entry_id)
                rows.append([said(entry_id), None if fields is None else self.shown(entry_id)])
                if fields is not None:
                    row = group.pending[entry_id]
                    row.since_ms, row.count = self.now_ms, min(row.count + 1, I64_MAX)
            return [[b"s", rows]]
        claims = "CLAIM" in words
        if claims:
            for entry_id in self.stale(group, int(after(words, "CLAIM", "")))[:count]:
                row = group.pending[entry_id]
                idle_ms = self.now_ms if row.released else self.now_ms - row.since_ms
                rows.append([said(entry_id), self.shown(entry_id), idle_ms, row.count])
                group.pending[entry_id] = Held(consumer, self.now_ms, min(row.count + 1, I64_MAX))
        for entry_id in sorted(one for one in self.entries if one > group.last)[: count - len(rows)]:
            rows.append([said(entry_id), self.shown(entry_id), *([0, 0] if claims else [])])
            if "NOACK" not in words:
                group.pending[entry_id] = Held(consumer, self.now_ms, 1)
            group.last = entry_id
        return [[b"s", rows]] if rows else None

    def shown(self, entry_id: EntryId) -> list[object]:
        return [field.encode() for field in self.entries[entry_id]]

    def stale(self, group: GroupModel, idle_ms: int) -> list[EntryId]:
        """Released entries in the order of their release, then what is idle for so long, the longest first; what was
        removed stays where it is.
        """
        live = {one: row for one, row in group.pending.items() if one in self.entries}
        released = sorted((row.released, one) for one, row in live.items() if row.released)
        idle = [(row.since_ms, one) for one, row in live.items() if not row.released]
        long = [one for since_ms, one in sorted(idle) if self.now_ms - since_ms >= idle_ms]
        return [one for _, one in released] + long

    def xack(self, words: list[str]) -> object:
        return sum(self.groups[words[2]].pending.pop(id_of(word), None) is not None for word in words[3:])

    def xnack(self, words: list[str]) -> object:
        group, mode = self.groups[words[2]], words[3]
        released: set[EntryId] = set()
        for entry_id in named_ids(words):
            if entry_id not in group.pending and not ("FORCE" in words and entry_id in self.entries):
                continue
            row = group.pending.get(entry_id) or Held("", 0, 0)
            count = {"SILENT": max(row.count - 1, 0), "FAIL": row.count, "FATAL": I64_MAX}[mode]
            group.releases += 1
            group.pending[entry_id] = Held("", 0, int(after(words, "RETRYCOUNT", str(count))))
            group.pending[entry_id].released = group.releases
            released.add(entry_id)
        return len(released)

    def xclaim(self, words: list[str]) -> object:
        """`s g c idle n ids... [options]`, of which the test leaves `n` out of the request."""
        group, consumer, idle_ms, many = self.groups[words[2]], words[3], int(words[4]), int(words[5])
        options = words[6 + many :]
        group.last = max(group.last, id_of(after(options, "LASTID", "0")))
        claimed: list[object] = []
        for entry_id in map(id_of, words[6 : 6 + many]):
            if entry_id not in self.entries:
                group.pending.pop(entry_id, None)
                continue
            row = group.pending.get(entry_id)
            if row is None and "FORCE" not in options:
                continue
            if row is not None and not row.released and self.now_ms - row.since_ms < idle_ms:
                continue
            claimed.append(self.take(group, entry_id, consumer, Held("", 0, 1) if row is None else row, options))
        return claimed

    def take(self, group: GroupModel, entry_id: EntryId, consumer: str, row: Held, options: list[str]) -> object:
        just_id = "JUSTID" in options
        count = row.count if just_id else min(row.count + 1, I64_MAX)
        since_ms = self.now_ms - int(after(options, "IDLE", "0"))
        group.pending[entry_id] = Held(consumer, since_ms, int(after(options, "RETRYCOUNT", str(count))))
        return said(entry_id) if just_id else [said(entry_id), self.shown(entry_id)]

    def xautoclaim(self, words: list[str]) -> object:
        """`s g c idle start COUNT n [JUSTID]`."""
        group, consumer, idle_ms = self.groups[words[2]], words[3], int(words[4])
        count, attempts = int(words[7]), 10 * int(words[7])
        claimed: list[object] = []
        deleted: list[object] = []
        for entry_id in sorted(one for one in group.pending if one >= id_of(words[5])):
            if not attempts or not count:
                return [said(entry_id), claimed, deleted]
            attempts -= 1
            row = group.pending[entry_id]
            if entry_id not in self.entries:
                del group.pending[entry_id]
                deleted.append(said(entry_id))
                count -= 1
            elif row.released or self.now_ms - row.since_ms >= idle_ms:
                claimed.append(self.take(group, entry_id, consumer, row, words[8:]))
                count -= 1
        return [b"0-0", claimed, deleted]

    def xgroup(self, words: list[str]) -> object:
        if words[1] == "CREATE":
            self.groups[words[3]] = GroupModel(self.last if words[4] == "$" else (0, 0))
            return "OK"
        if words[1] == "DESTROY":
            del self.groups[words[3]]
            return 1
        group = self.groups[words[3]]
        if words[1] == "SETID":
            group.last = self.last if words[4] == "$" else id_of(words[4])
            return "OK"
        assert words[1] == "DELCONSUMER", words
        held = [one for one, row in group.pending.items() if row.consumer == words[4] and not row.released]
        for entry_id in held:
            del group.pending[entry_id]
        return len(held)

    # Looking

    def xpending(self, words: list[str]) -> object:
        rows: list[object] = []
        for entry_id, row in sorted(self.groups[words[2]].pending.items()):
            idle_ms = -1 if row.released else self.now_ms - row.since_ms
            rows.append([said(entry_id), row.consumer.encode(), idle_ms, row.count])
        return rows

    def xrange(self, words: list[str]) -> object:
        return [[said(one), self.shown(one)] for one in sorted(self.entries)]

    def counts(self) -> dict[bytes, object]:
        """What XINFO STREAM FULL tells of the stream and, by name, of each group."""
        own: dict[bytes, object] = {
            b"length": len(self.entries),
            b"last-generated-id": said(self.last),
            b"max-deleted-entry-id": said(self.max_deleted),
            b"entries-added": self.entries_added,
            b"idmp-duration": self.duration_s,
            b"idmp-maxsize": self.records_max,
            b"iids-added": self.added,
            b"iids-duplicates": self.duplicates,
        }
        for name, group in self.groups.items():
            released = sum(row.released > 0 for row in group.pending.values())
            own[name.encode()] = [said(group.last), len(group.pending), released]
        return own
