"""Random requests of several clients, for a region and a real redis-server.

IDs and groups are few, so that requests meet. They stay away from what differs on purpose
(crdtstream/commands/differences.py):

    s t     groups, removals, and the IDs that this module gives out
    u       IDs that the server makes from its clock, which the region follows
    n       trims with `~`, and no other removal, after which nodes would begin elsewhere
    p q     RENAME, which drops groups and makes lower IDs count as new, so these have no groups and no `$`

COPY, MOVE, SWAPDB and RESTORE of `s` and `t` are drawn where nobody waits or watches: lower IDs count as new after
them. `@dumped` stands for what the last DUMP replied on the other side: each side restores payloads of the other.
"""

from __future__ import annotations

from random import Random

from tests.commands.portraits import ENTRY_ID, Part

GROUPED = ("s", "t")
CLOCKED, NODES = "u", "n"
MOVED = ("p", "q")
KEYS = (*GROUPED, CLOCKED, NODES, *MOVED)
GROUPS = ("g", "h")
CONSUMERS = ("a", "b")
STRATEGIES = ("KEEPREF", "DELREF", "ACKED")
JUNK = ("x", "-1", "", "*", "STREAMS", "1-1-1", "9" * 22, "COUNT", "IDS", "GROUP", "MAXLEN", "NOACK", "~")
CLIENTS = 4
FAR_MS = 4_000_000_000_000
# What these change counts for WATCH here, and not in Redis.
WATCHED_HERE = frozenset(("XSETID", "XGROUP"))

KNOWN_IDS = 10

Request = list[str]


class Requests:
    """Draws requests, and learns from replies. `last` is the highest number that was used as an ID of each key, and
    `known` are the IDs that were added or read last; `added` are the keys that have had an entry, of which the last
    group may be destroyed; `open` are the clients in a transaction, `watching` those that watch keys; `waiting` if any
    waits, which XGROUP SETID would serve at another time.
    """

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.last = dict.fromkeys(KEYS, 0)
        self.known: dict[str, list[str]] = {key: [] for key in KEYS}
        self.added: set[str] = set()
        self.open: set[int] = set()
        self.watching: set[int] = set()
        self.waiting = False
        self.bereft: set[str] = set()
        self.has_dumped = False

    # Learning

    def note(self, client: int, request: Request, reply: Part) -> None:
        name, failed = request[0], reply[0] == b"-"
        if name == "MULTI":
            self.open.add(client)
        elif name == "EXEC" or request == ["DISCARD"]:
            self.open.discard(client)
            self.watching.discard(client)
        elif name == "UNWATCH":
            self.watching.discard(client)
        elif request[:2] == ["XGROUP", "DESTROY"]:
            self.bereft.add(request[2])
        elif name == "WATCH" and not failed:
            self.watching.add(client)
        elif name == "XADD" and reply[0] == b"$" and isinstance(reply[1], bytes):
            self.added.add(request[1])
            self.know(request[1], [reply[1].decode()])
        elif name == "XREADGROUP" and request[-2:-1] and request[-2] in KEYS:
            self.know(request[-2], [text.decode() for text in texts_in(reply) if ENTRY_ID.fullmatch(text)])
        elif name in ("MOVE", "SWAPDB"):
            self.added.difference_update(GROUPED)
        elif name == "DUMP" and reply[0] == b"$":
            self.has_dumped = True
        elif name in ("DEL", "UNLINK", "FLUSHALL", "EXPIREAT", "PEXPIRE") and not failed:
            self.added.difference_update(request[1:] if name in ("DEL", "UNLINK") else KEYS)
            self.bereft.difference_update(request[1:] if name in ("DEL", "UNLINK") else ())

    def know(self, key: str, ids: list[str]) -> None:
        self.known[key] = [*self.known.get(key, []), *ids][-KNOWN_IDS:]

    # Drawing

    def first(self) -> list[Request]:
        """What a conversation begins with."""
        return [["XGROUP", "CREATE", key, group, "0", "MKSTREAM"] for key in (*GROUPED, CLOCKED) for group in GROUPS]

    def draw(self, client: int, may_wait: bool) -> Request:
        rng = self.rng
        if client in self.open and rng.random() < 0.22:
            return [rng.choice(["EXEC", "EXEC", "EXEC", "DISCARD"])]
        kinds = (self.add, self.remove, self.read, self.acknowledge, self.look, self.group, self.key)
        others = (self.transaction, self.move, self.node, self.clock, self.carry)
        kind = rng.choices((*kinds, *others), (26, 12, 16, 12, 14, 6, 5, 3, 3, 5, 5, 4))[0]
        request = kind(client)
        if may_wait and rng.random() < 0.06:
            request = self.wait(client)
        if rng.random() < 0.04 and request[0] not in ("XSETID", "MULTI", "WATCH") and request[1:2] != ["DESTROY"]:
            request = self.damaged(request)
        if self.watching and request[0] in WATCHED_HERE:
            return ["PING"]
        return request

    def damaged(self, request: Request) -> Request:
        rng, at = self.rng, self.rng.randrange(len(request))
        instead = rng.choice([[], [rng.choice(JUNK)], [request[at], request[at]], [request[at].swapcase()]])
        changed = [*request[:at], *instead, *request[at + 1 :]]
        harmless = changed[:1] == request[:1] and "BLOCK" not in request and NODES not in request
        return changed if harmless else request

    def id(self, key: str) -> str:
        """An ID that is there or was, mostly."""
        rng = self.rng
        if self.known[key] and (key == CLOCKED or rng.random() < 0.6):
            return rng.choice(self.known[key])
        number = rng.randrange(max(1, self.last[key] - 12), self.last[key] + 2)
        return rng.choice([f"{number}-{rng.randrange(2)}", str(number), "0", f"{number}-0"])

    def ids(self, key: str) -> list[str]:
        return [self.id(key) for _ in range(self.rng.randrange(1, 4))]

    def named(self) -> tuple[str, str, str]:
        rng = self.rng
        return rng.choice((*GROUPED, *GROUPED, CLOCKED)), rng.choice(GROUPS), rng.choice(CONSUMERS)

    def strategy(self, client: int, key: str) -> Request:
        """Not ACKED in a transaction: which IDs are missing then, which Redis replies otherwise to, is not known. Nor
        after a group was destroyed, which Redis may go on counting.
        """
        usable = STRATEGIES[:2] if client in self.open or key in self.bereft else STRATEGIES
        return [self.rng.choice(usable)] if self.rng.random() < 0.7 else []

    def limit(self, client: int, key: str) -> Request:
        """Not DELREF, which drops references to what was removed before, too."""
        rng = self.rng
        strategy = [one for one in self.strategy(client, key) if one != "DELREF"]
        lowest = str(max(0, self.last[key] - 6))
        bound = rng.choice([["MAXLEN", str(rng.randrange(12))], ["MINID", "=", lowest], ["MAXLEN", "=", "5"]])
        return [*bound, *strategy]

    def next_number(self, key: str) -> int:
        if self.rng.random() < 0.95:
            self.last[key] += self.rng.randrange(1, 3)
        return self.last[key]

    def add(self, client: int) -> Request:
        rng, key = self.rng, self.rng.choice((*GROUPED, *GROUPED, *MOVED))
        number = self.next_number(key)
        entry_id = rng.choice([f"{number}-0", f"{number}-1", f"{number}-*"])
        options = self.limit(client, key) if rng.random() < 0.1 else []
        create = ["NOMKSTREAM"] if rng.random() < 0.05 else []
        more = ["f2", ""] if rng.random() < 0.1 else []
        return ["XADD", key, *create, *options, entry_id, "f", str(rng.randrange(99)), *more]

    def remove(self, client: int) -> Request:
        rng = self.rng
        key, group, _ = self.named()
        ids = self.ids(key)
        named = ["IDS", str(len(ids)), *ids]
        return rng.choice(
            [
                ["XDEL", key, *ids],
                ["XDELEX", key, *self.strategy(client, key), *named],
                ["XACKDEL", key, group, *self.strategy(client, key), *named],
                ["XTRIM", key, *self.limit(client, key)],
                self.delete(key) if rng.random() < 0.06 else ["XLEN", key],
            ]
        )

    def delete(self, key: str) -> Request:
        """What is added afterwards has a higher ID, because a reader that waits for `$` takes any that is new."""
        self.last[key] += 1
        return [self.rng.choice(["DEL", "UNLINK"]), key]

    def read(self, client: int) -> Request:
        rng = self.rng
        key, group, consumer = self.named()
        count = ["COUNT", str(rng.randrange(1, 5))] if rng.random() < 0.8 else []
        noack = ["NOACK"] if rng.random() < 0.1 else []
        reading = ["XREADGROUP", "GROUP", group, consumer, *count, *noack, "STREAMS", key]
        two = [*reading[:-1], *GROUPED, ">", rng.choice([">", "0"])]
        return rng.choice([[*reading, ">"], [*reading, ">"], [*reading, "0"], [*reading, self.id(key)], two])

    def acknowledge(self, client: int) -> Request:
        key, group, consumer = self.named()
        ids = self.ids(key)
        some = [[], ["JUSTID"], ["FORCE"], ["RETRYCOUNT", "3"], ["FORCE", "JUSTID"], ["LASTID", self.id(key)]]
        idle = self.rng.choice(["0", "0", "99999999"])
        just = self.rng.choice([[], [], ["JUSTID"]])
        return self.rng.choice(
            [
                ["XACK", key, group, *ids],
                ["XACK", key, group, *ids],
                ["XCLAIM", key, group, consumer, idle, *ids, *self.rng.choice(some)],
                ["XAUTOCLAIM", key, group, consumer, idle, self.id(key), "COUNT", "3", *just],
                ["XAUTOCLAIM", key, group, consumer, idle, "0-0"],
            ]
        )

    def look(self, client: int) -> Request:
        rng = self.rng
        key, group, consumer = self.named()
        key = rng.choice([key, *MOVED, NODES, key])
        low, high = self.id(key), self.id(key)
        return rng.choice(
            [
                ["XRANGE", key, low, high],
                ["XRANGE", key, f"({low}", "+", "COUNT", "2"],
                ["XREVRANGE", key, "+", "-", "COUNT", "3"],
                ["XREAD", "COUNT", "4", "STREAMS", *GROUPED, low, high],
                ["XREAD", "STREAMS", key, "+"],
                ["XPENDING", key, group],
                ["XPENDING", key, group, "-", "+", "10", *rng.choice([[], [consumer]])],
                ["XPENDING", key, group, "IDLE", "0", "-", "+", "3"],
                ["XINFO", "STREAM", key],
                ["XINFO", "STREAM", key, "FULL", *rng.choice([[], ["COUNT", "2"]])],
                ["XINFO", "GROUPS", key],
                ["XINFO", "CONSUMERS", key, group],
            ]
        )

    def group(self, client: int) -> Request:
        rng = self.rng
        key, group, consumer = self.named()
        start = rng.choice(["0", "$", self.id(key)])
        read = rng.choice([[], [], ["ENTRIESREAD", str(rng.randrange(-1, 4))]])
        choices = [
            ["XGROUP", "CREATE", key, group, start, "MKSTREAM", *read],
            ["XGROUP", "CREATE", key, group, start, *read],
            ["XGROUP", "CREATE", key, group, start, "MKSTREAM"],
            ["XGROUP", "CREATECONSUMER", key, group, consumer],
            ["XGROUP", "DELCONSUMER", key, group, consumer],
        ]
        if not self.waiting and not self.open:
            choices.append(["XGROUP", "SETID", key, group, start, *read])
        if key in self.added and not self.open and rng.random() < 0.5:
            choices.append(["XGROUP", "DESTROY", key, group])
        return rng.choice(choices)

    def key(self, client: int) -> Request:
        rng, key = self.rng, self.rng.choice(KEYS)
        soon = [["PEXPIRE", key, "-1"], ["EXPIREAT", key, "1"]] if rng.random() < 0.1 and key not in GROUPED else []
        when = rng.choice([[], ["NX"], ["XX"], ["GT"], ["LT"]])
        return rng.choice(
            [
                ["EXISTS", key, *MOVED],
                ["TYPE", key],
                ["OBJECT", rng.choice(["ENCODING", "REFCOUNT"]), key],
                ["TOUCH", *KEYS],
                ["DBSIZE"],
                ["KEYS", rng.choice(["*", "[st]"])],
                ["PEXPIREAT", key, str(FAR_MS + rng.randrange(9)), *when],
                ["PERSIST", key],
                [rng.choice(["TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME"]), key],
                *soon,
            ]
        )

    def transaction(self, client: int) -> Request:
        if client in self.open:
            return ["EXEC"]
        if self.rng.random() < 0.6 or self.open:
            return ["MULTI"]
        return [*self.rng.choice([["WATCH", "s"], ["WATCH", "t", "u"], ["UNWATCH"], ["EXEC"], ["DISCARD"]])]

    def move(self, client: int) -> Request:
        rng = self.rng
        one, other = rng.choice(MOVED), rng.choice(MOVED)
        last = max(self.last[name] for name in MOVED)
        self.last.update(dict.fromkeys(MOVED, last))
        options = rng.choice([[], ["REPLACE"], ["DB", "0", "REPLACE"]])
        moving = [["RENAME", one, other], ["RENAMENX", one, other], ["COPY", one, other, *options]]
        number = self.next_number(one)
        more = rng.choice([[], ["ENTRIESADDED", str(1000 + number), "MAXDELETEDID", f"{number}-0"]])
        return rng.choice([*moving, ["XSETID", one, f"{number}-1", *more], ["DEL", one]])

    def carry(self, client: int) -> Request:
        """What takes groups along. IDs go on above those of both keys, and all of both databases are known."""
        rng = self.rng
        if self.waiting or self.watching or self.open:
            return ["DUMP", rng.choice(GROUPED)]
        one, other = rng.sample(GROUPED, 2)
        last = max(self.last[name] for name in GROUPED)
        self.last.update(dict.fromkeys(GROUPED, last))
        known = [entry_id for name in GROUPED for entry_id in self.known[name]][-KNOWN_IDS:]
        self.known.update(dict.fromkeys(GROUPED, known))
        options = rng.choice([[], ["REPLACE"], ["DB", "1", "REPLACE"]])
        requests = [["COPY", one, other, *options], ["COPY", one, other, "REPLACE"], ["MOVE", one, "1"]]
        requests += [["SWAPDB", "0", "1"], ["SWAPDB", "1", "0"], ["DUMP", one]]
        if self.has_dumped:
            requests += [["RESTORE", one, "0", "@dumped", *rng.choice([["REPLACE"], ["REPLACE"], []])]] * 2
        return rng.choice(requests)

    def node(self, client: int) -> Request:
        rng = self.rng
        number = self.next_number(NODES)
        bound = rng.choice([["MAXLEN", "~", str(rng.randrange(12))], ["MINID", "~", str(max(0, number - 6))]])
        limit = ["LIMIT", str(rng.randrange(9))] if rng.random() < 0.3 else []
        add = ["XADD", NODES, f"{number}-0", "f", "v"]
        return rng.choice([add, add, [*add[:2], *bound, *add[2:]], ["XTRIM", NODES, *bound, *limit], ["XLEN", NODES]])

    def clock(self, client: int) -> Request:
        bound = ["MAXLEN", str(self.rng.randrange(9))] if self.rng.random() < 0.2 else []
        return ["XADD", CLOCKED, *bound, "*", "f", str(self.rng.randrange(99))]

    def wait(self, client: int) -> Request:
        rng = self.rng
        key, group, consumer = self.named()
        reading = ["XREADGROUP", "GROUP", group, consumer, *rng.choice([[], ["COUNT", "1"], ["NOACK"]]), "BLOCK", "0"]
        return rng.choice(
            [
                ["XREAD", "BLOCK", "0", "STREAMS", key, "$"],
                ["XREAD", "COUNT", "1", "BLOCK", "0", "STREAMS", *GROUPED, "$", self.id(key)],
                ["XREAD", "BLOCK", "0", "STREAMS", *MOVED, *[str(self.last[key] + rng.randrange(3)) for key in MOVED]],
                [*reading, "STREAMS", key, ">"],
                [*reading, "STREAMS", *GROUPED, ">", ">"],
            ]
        )

    def unblock(self, client: int) -> Request:
        """The number of a client stands for its ID."""
        how = self.rng.choice([[], ["TIMEOUT"], ["ERROR"]])
        return ["CLIENT", "UNBLOCK", f"@{self.rng.randrange(CLIENTS)}", *how]


def texts_in(part: Part) -> list[bytes]:
    value = part[1]
    if isinstance(value, list):
        return [text for item in value for text in texts_in(item)]
    return [value] if isinstance(value, bytes) else []


def named_ids(request: Request) -> list[str]:
    """The IDs that an XDELEX or XACKDEL names, complete."""
    words = [word.upper() for word in request]
    ids = request[words.index("IDS") + 2 :] if "IDS" in words else []
    return [entry_id if "-" in entry_id else f"{entry_id}-0" for entry_id in ids]
