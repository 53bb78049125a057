"""A conversation of several clients with a region and with a real redis-server: their replies must be alike.

The region's clock follows IDs that the server made from its own, so that both make the same. A client whose request
waits is left alone until both have replied to it; what it waits for is known from `CLIENT LIST`.
"""

from __future__ import annotations

from select import select

from crdtstream.connections.client import Client
from tests.commands.harness import Argument, Connection, Region, as_8_says, read_reply
from tests.commands.portraits import ENTRY_ID, SECOND_MS, Part, integers_in, parsed, portrait
from tests.commands.random_requests import Request, Requests, named_ids

PROTOCOLS = (2, 3, 2, 3)
NODE_ENTRIES = "4"
STILL_NEEDED = 2
SAID_MAX = 40


class Speaker:
    """One client on both sides; `asked` is the request that it waits for, and `queued` those of its transaction."""

    def __init__(self, region: Region, port: int, protocol: int) -> None:
        self.client: Client = region.connect()
        self.connection = Connection(port)
        self.asked: Request | None = None
        self.queued: list[Request] | None = None
        self.number = int(self.connection.run("CLIENT", "ID")[1:])
        self.client.protocol = protocol
        self.connection.run("HELLO", protocol)


class Conversation:
    """`control` asks the server what is not compared."""

    def __init__(self, port: int, seed: int) -> None:
        self.region, self.control, self.requests = Region(), Connection(port), Requests(seed)
        self.control.line("FLUSHALL")
        self.control.line(f"CONFIG SET stream-node-max-entries {NODE_ENTRIES}")
        self.region.run("CONFIG", "SET", "stream-node-max-entries", NODE_ENTRIES)
        self.set_clock(self.server_ms())
        self.speakers = [Speaker(self.region, port, protocol) for protocol in PROTOCOLS]
        self.said: list[str] = []
        self.dumped: tuple[bytes, bytes] = (b"", b"")

    def close(self) -> None:
        for speaker in self.speakers:
            speaker.connection.close()
        self.control.close()

    def server_ms(self) -> int:
        seconds, microseconds = self.control.run("TIME").split(b"\r\n")[2::2][:2]
        return int(seconds) * SECOND_MS + int(microseconds) // SECOND_MS

    def set_clock(self, ms: int) -> None:
        self.region.replica.keyspace.now_ms = max(ms, self.region.replica.keyspace.now_ms)

    def step(self) -> None:
        rng = self.requests.rng
        free = [at for at, speaker in enumerate(self.speakers) if speaker.asked is None]
        at = rng.choice(free)
        self.requests.waiting = len(free) < len(self.speakers)
        self.say(at, self.requests.draw(at, len(free) > 2 and self.speakers[at].queued is None))
        if rng.random() < 0.1:
            self.region.end_turn()

    def say(self, at: int, request: Request) -> None:
        speaker = self.speakers[at]
        self.said = [*self.said[-SAID_MAX:], f"{at}: {' '.join(request)}"]
        missing = self.missing_at(request)
        theirs = self.ask(speaker, self.with_ids(request, False))
        self.follow_clock(theirs)
        ours = self.region.run(*self.with_ids(request, True), client=speaker.client)
        assert (ours is None) == (theirs is None), (ours, theirs, self.said)
        if ours is None or theirs is None:
            speaker.asked = request
        else:
            self.compare(at, request, ours, theirs, missing)
        self.wake()

    def with_ids(self, request: Request, ours: bool) -> list[Argument]:
        """The request with the numbers of clients on this side, and what the other side dumped."""
        ids: dict[str, Argument] = {
            f"@{at}": one.client.id if ours else one.number for at, one in enumerate(self.speakers)
        }
        ids["@dumped"] = self.dumped[ours]
        return [ids.get(word, word) for word in request]

    def ask(self, speaker: Speaker, request: list[Argument]) -> bytes | None:
        """The server's reply; None if the client waits."""
        speaker.connection.send(*request)
        if "BLOCK" in request and speaker.queued is None and self.waits(speaker):
            return None
        return as_8_says(read_reply(speaker.connection.stream))

    def waits(self, speaker: Speaker) -> bool:
        """Whether the server has parked the client: one or the other shows once it has read the request."""
        while not select([speaker.connection.socket], [], [], 0)[0]:
            if self.is_parked(speaker):
                return True
        return False

    def is_parked(self, speaker: Speaker) -> bool:
        return b" flags=b" in self.control.run("CLIENT", "LIST", "ID", speaker.number)

    def follow_clock(self, reply: bytes | None) -> None:
        for entry_id in ENTRY_ID.findall(reply or b""):
            self.set_clock(int(entry_id.partition(b"-")[0]))

    def wake(self) -> None:
        """Compare what came for those who waited."""
        for at, speaker in enumerate(self.speakers):
            if speaker.asked is None:
                continue
            unblocked = [reply for client, reply in self.region.context.outbox if client is speaker.client]
            late = unblocked or self.region.late_replies(speaker.client)
            assert self.is_parked(speaker) == (not late), (at, late, self.said)
            if late:
                theirs = as_8_says(read_reply(speaker.connection.stream))
                self.compare(at, speaker.asked, late[0], theirs, [])
                speaker.asked = None
        self.region.context.outbox.clear()

    def missing_at(self, request: Request) -> list[bool]:
        """With ACKED, for each ID that is named, whether the stream lacks it."""
        if request[0] not in ("XDELEX", "XACKDEL") or "ACKED" not in map(str.upper, request):
            return []
        return [self.control.run("XRANGE", request[1], one, one) == b"*0\r\n" for one in named_ids(request)]

    def compare(self, at: int, request: Request, ours: bytes, theirs: bytes, missing: list[bool]) -> None:
        own, other = parsed(ours), parsed(theirs)
        speaker = self.speakers[at]
        pairs = [(request, own, other)]
        if request[0] == "EXEC" and speaker.queued is not None and other[0] == b"*":
            assert isinstance(own[1], list) and isinstance(other[1], list), (own, other, self.said)
            pairs = list(zip(speaker.queued, own[1], other[1], strict=True))
        for said, one, two in pairs:
            same = portrait(said, one) == portrait(said, two) or only_kept_by_redis(one, two, missing)
            assert same, (said, one, two, self.said)
            self.requests.note(at, said, two)
            if said[0] == "DUMP" and isinstance(one[1], bytes) and isinstance(two[1], bytes):
                self.dumped = (one[1], two[1])
                # No time in the payload lies ahead.
                self.set_clock(self.server_ms())
        self.record_transaction(speaker, request, other)
        if request[0] == "EXEC":
            self.requests.note(at, request, other)

    def record_transaction(self, speaker: Speaker, request: Request, reply: Part) -> None:
        if request[0] == "EXEC" or request == ["DISCARD"]:
            speaker.queued = None
        elif request == ["MULTI"] and speaker.queued is None:
            speaker.queued = []
        elif speaker.queued is not None and reply == (b"+", b"QUEUED"):
            speaker.queued.append(request)


def only_kept_by_redis(own: Part, other: Part, missing: list[bool]) -> bool:
    """Redis may keep an entry that is not there: of an ID that the stream lacks nothing is kept here."""
    ours, theirs = integers_in(own), integers_in(other)
    if not len(ours) == len(theirs) == len(missing):
        return False
    rows = zip(ours, theirs, missing, strict=True)
    return all(one == two or (gone and one != STILL_NEEDED and two == STILL_NEEDED) for one, two, gone in rows)


def converse(port: int, seed: int, count: int) -> None:
    """One conversation, from an empty keyspace on."""
    conversation = Conversation(port, seed)
    try:
        for request in conversation.requests.first():
            conversation.say(0, request)
        for _ in range(count):
            conversation.step()
        conversation.region.check()
    finally:
        conversation.close()
