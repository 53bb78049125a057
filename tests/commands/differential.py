"""Random stream commands for a region and a real redis-server, and what of their replies must be alike.

IDs and groups are few, so that commands meet. Requests stay away from what differs on purpose
(crdtstream/commands/differences.py); what depends on the time of the machine is compared as a shape.
"""

from __future__ import annotations

from random import Random

from crdtstream.scenarios.reply import ReplyError, Value, read_reply

KEYS = ("s", "t")
GROUPS = ("g", "h")
CONSUMERS = ("a", "b")
STRATEGIES = ("KEEPREF", "DELREF", "ACKED")
# Blocks instead of nodes, and the fields of later releases.
OWN_FIELDS = frozenset(("radix-tree-keys", "radix-tree-nodes"))

Request = list[str]


class Requests:
    """`last` is the highest ID that was added to each key, so that adds mostly ascend."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(seed)
        self._last = dict.fromkeys(KEYS, 0)

    def draw(self) -> Request:
        rng = self._rng
        key, group, consumer = rng.choice(KEYS), rng.choice(GROUPS), rng.choice(CONSUMERS)
        kind = rng.choices(
            (self._add, self._remove, self._read, self._acknowledge, self._look, self._group), (30, 15, 20, 15, 15, 5)
        )[0]
        return kind(key, group, consumer)

    def _id(self, key: str) -> str:
        """An ID that is there or was, mostly."""
        rng = self._rng
        number = rng.randrange(max(1, self._last[key] - 12), self._last[key] + 2)
        return rng.choice([f"{number}-{rng.randrange(2)}", str(number), "0", f"{number}-0"])

    def _ids(self, key: str) -> list[str]:
        return [self._id(key) for _ in range(self._rng.randrange(1, 4))]

    def _strategy(self) -> Request:
        return [self._rng.choice(STRATEGIES)] if self._rng.random() < 0.7 else []

    def _limit(self) -> Request:
        rng = self._rng
        strategy = ["KEEPREF"] if rng.random() < 0.5 else []
        bound = rng.choice(
            [["MAXLEN", str(rng.randrange(12))], ["MINID", "=", str(max(0, max(self._last.values()) - 6))]]
        )
        return [*bound, *strategy]

    def _add(self, key: str, group: str, consumer: str) -> Request:
        rng = self._rng
        if rng.random() < 0.95:
            self._last[key] += rng.randrange(1, 3)
        entry_id = rng.choice([f"{self._last[key]}-0", f"{self._last[key]}-1", f"{self._last[key]}-*"])
        options = [*self._limit()] if rng.random() < 0.1 else []
        create = ["NOMKSTREAM"] if rng.random() < 0.05 else []
        return ["XADD", key, *create, *options, entry_id, "f", str(rng.randrange(99))]

    def _remove(self, key: str, group: str, consumer: str) -> Request:
        rng, ids = self._rng, self._ids(key)
        named = ["IDS", str(len(ids)), *ids]
        return rng.choice(
            [
                ["XDEL", key, *ids],
                ["XDELEX", key, *self._strategy(), *named],
                ["XACKDEL", key, group, *self._strategy(), *named],
                ["XTRIM", key, *self._limit()],
                ["DEL", key] if rng.random() < 0.05 else ["XLEN", key],
            ]
        )

    def _read(self, key: str, group: str, consumer: str) -> Request:
        rng = self._rng
        count = ["COUNT", str(rng.randrange(1, 5))] if rng.random() < 0.8 else []
        noack = ["NOACK"] if rng.random() < 0.1 else []
        group_read = ["XREADGROUP", "GROUP", group, consumer, *count, *noack, "STREAMS", key]
        return rng.choice([[*group_read, ">"], [*group_read, ">"], [*group_read, "0"], [*group_read, self._id(key)]])

    def _acknowledge(self, key: str, group: str, consumer: str) -> Request:
        ids = self._ids(key)
        options = self._rng.choice([[], ["JUSTID"], ["FORCE"], ["RETRYCOUNT", "3"], ["FORCE", "JUSTID"]])
        return self._rng.choice(
            [
                ["XACK", key, group, *ids],
                ["XACK", key, group, *ids],
                ["XCLAIM", key, group, consumer, "0", *ids, *options],
                ["XAUTOCLAIM", key, group, consumer, "0", self._id(key), "COUNT", "3"],
            ]
        )

    def _look(self, key: str, group: str, consumer: str) -> Request:
        low, high = self._id(key), self._id(key)
        return self._rng.choice(
            [
                ["XRANGE", key, low, high],
                ["XREVRANGE", key, "+", "-", "COUNT", "3"],
                ["XREAD", "COUNT", "4", "STREAMS", *KEYS, low, high],
                ["XPENDING", key, group],
                ["XPENDING", key, group, "-", "+", "10", consumer],
                ["XINFO", "STREAM", key],
                ["XINFO", "STREAM", key, "FULL"],
                ["XINFO", "GROUPS", key],
                ["XINFO", "CONSUMERS", key, group],
                ["EXISTS", *KEYS],
            ]
        )

    def _group(self, key: str, group: str, consumer: str) -> Request:
        start = self._rng.choice(["0", "$", self._id(key)])
        return self._rng.choice(
            [
                ["XGROUP", "CREATE", key, group, start, "MKSTREAM"],
                ["XGROUP", "CREATE", key, group, start],
                ["XGROUP", "SETID", key, group, start],
                ["XGROUP", "CREATECONSUMER", key, group, consumer],
                ["XGROUP", "DELCONSUMER", key, group, consumer],
            ]
        )


def portrait(request: Request, reply: bytes) -> object:
    """What of a reply must be alike."""
    value = read_reply(reply)
    name = " ".join([request[0], *request[1:2], *request[3:4]]) if request[0] == "XINFO" else request[0]
    if request[:2] == ["XINFO", "STREAM"] and isinstance(value, list):
        value = without_own_fields(value)
    timed = request[0] == "XPENDING" and len(request) > 3
    timed = timed or request[:2] == ["XINFO", "CONSUMERS"] or name == "XINFO STREAM FULL"
    return shape(value) if timed else value


def without_own_fields(value: list[Value]) -> list[Value]:
    found: list[Value] = []
    for name, item in zip(value[::2], value[1::2], strict=True):
        if name not in OWN_FIELDS and not str(name).startswith(("idmp-", "pids-", "iids-")):
            found += [name, item]
    return found


def shape(value: Value) -> object:
    if isinstance(value, list):
        return [shape(item) for item in value]
    return "number" if isinstance(value, int) else value


def named_ids(request: Request) -> list[str]:
    """The IDs that an XDELEX or XACKDEL names, complete."""
    ids = request[request.index("IDS") + 2 :]
    return [entry_id if "-" in entry_id else f"{entry_id}-0" for entry_id in ids]


def alike(request: Request, ours: bytes, theirs: bytes, missing: list[bool]) -> bool:
    """With ACKED, Redis may keep (2) an entry that is not there: `missing`, for each ID that is named."""
    own, other = portrait(request, ours), portrait(request, theirs)
    if missing and isinstance(own, list) and isinstance(other, list):
        fates = zip(own, other, missing, strict=True)
        return all(one == two or (gone and one != 2 and two == 2) for one, two, gone in fates)
    if isinstance(own, ReplyError) and isinstance(other, ReplyError):
        return own.text == other.text
    return own == other
