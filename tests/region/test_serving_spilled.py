"""A region that spills everything between two requests replies as one that keeps all blocks in memory, and waits for no
disk in the middle of a request.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtstream.core.values.entry_id import SEMI_STRICT
from crdtstream.region.node import Node
from crdtstream.settings.config import Config, Limits
from simulations.machine import CLIENT, Machine
from tests.commands.drawn_requests import Request, common, newest, sent, with_ids
from tests.core.spilled_blocks import SlowFile, spill_all
from tests.region.test_serving_bursts import START_MS

# So few entries fill a block.
VALUE = "v" * 12_000
ENTRIES = 24
OPENING = [
    ["XGROUP", "CREATE", "s", "g", "0", "MKSTREAM"],
    ["XGROUP", "CREATE", "s", "h", "0"],
    *[["XADD", "s", f"{number}-1", "f", f"{number} {VALUE}"] for number in range(10, 10 + ENTRIES)],
]
IDS = [f"{number}-1" for number in range(10, 10 + ENTRIES)]
IDLE = st.sampled_from(["0", "5"])
READS: list[st.SearchStrategy[Request]] = [
    st.sampled_from(
        [
            ["XRANGE", "s", "-", "+"],
            ["XREVRANGE", "s", "+", "-", "COUNT", "3"],
            ["XRANGE", "s", "(14-1", "22-1", "COUNT", "5"],
            ["XREAD", "COUNT", "7", "STREAMS", "s", "11-1"],
            ["XREAD", "STREAMS", "s", "t", "30-1", "0"],
            ["XINFO", "STREAM", "s", "FULL"],
            ["XINFO", "GROUPS", "s"],
            ["XPENDING", "s", "g", "-", "+", "10"],
            ["XLEN", "s"],
            ["XTRIM", "s", "MAXLEN", "9"],
            ["XTRIM", "s", "MINID", "20-1"],
            ["XGROUP", "SETID", "s", "g", "18-1"],
            ["COPY", "s", "t"],
            ["RENAME", "t", "w"],
            ["DEL", "t"],
        ]
    )
]


class Twin:
    """A node that spills, if it is given a file, and what it replied."""

    def __init__(self, file: SlowFile | None) -> None:
        limits = Limits(stream_node_entries_max=3)
        config = Config(name="east", region=1, cluster="c", id_mode=SEMI_STRICT, incarnation=0, limits=limits)
        self.node: Node = Machine(config, START_MS).node
        self.file = file
        # How many blocks were waited for in the middle of a request.
        self.waited = 0
        # How many were read for the last request before it ran.
        self.read_for_requests = 0

    def ask(self, words: Request) -> bytes:
        node = self.node
        if self.file is not None:
            spill_all(node.replica.keyspace, self.file, node.open_blocks)
        before = node.replica.reads.waited
        self.read_for_requests = 0
        node.execute(CLIENT, [word.encode() for word in words], START_MS + 100)
        reply = self.drain()
        while not reply and node.context.block_reads.wanted:
            for read in node.context.block_reads.drain():
                self.read_for_requests += len(read.handles)
                read.finish(read.read())
            reply = self.drain()
        self.waited += node.replica.reads.waited - before
        node.check()
        return reply

    def say(self, line: str) -> bytes:
        return self.ask(line.split())

    def drain(self) -> bytes:
        reply = b""
        while (ready := self.node.ready()) is not None:
            reply += b"".join(data for client_id, data in ready.replies if client_id == CLIENT)
        return reply


requests = st.lists(st.one_of(common(IDLE, st.just("*")) + newest(IDLE) + READS), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(requests, st.booleans())
def test_a_region_that_spills_replies_as_one_that_does_not(drawn: list[Request], as_transaction: bool) -> None:
    file = SlowFile()
    plain, spilling = Twin(None), Twin(file)
    for words in OPENING:
        assert spilling.ask(words) == plain.ask(words)
    assert spilling.ask(["XRANGE", "s", "-", "+"]).count(VALUE.encode()) == ENTRIES and file.reads > 3
    plain.ask(["XRANGE", "s", "-", "+"])
    asked = [sent(with_ids(words, IDS)) for words in drawn]
    for words in [["MULTI"], *asked, ["EXEC"]] if as_transaction else asked:
        assert spilling.ask(words) == plain.ask(words), words
    assert spilling.ask(["XRANGE", "s", "-", "+"]) == plain.ask(["XRANGE", "s", "-", "+"])
    # What a command of a transaction needs because of another one is not foreseen.
    assert spilling.waited == 0 or (as_transaction and len(drawn) > 1)
    counted = [(twin.node.statistics.hits, twin.node.statistics.misses) for twin in (plain, spilling)]
    assert counted[0] == counted[1]
    assert plain.node.statistics.tally("xrange").calls == spilling.node.statistics.tally("xrange").calls


class Waiting:
    """A region in which a client's XRANGE waits for a block; OTHER is another client."""

    OTHER = 77

    def __init__(self) -> None:
        self.file = SlowFile()
        self.twin = Twin(self.file)
        self.node = self.twin.node
        for words in OPENING:
            self.twin.ask(words)
        spill_all(self.node.replica.keyspace, self.file, self.node.open_blocks)
        self.node.connect(self.OTHER, "127.0.0.1:77", START_MS)

    def send(self, client: int, line: str) -> dict[int, bytes]:
        self.node.execute(client, line.encode().split(), START_MS + 100)
        return self.replies()

    def replies(self) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        while (ready := self.node.ready()) is not None:
            for client_id, data in ready.replies:
                found[client_id] = found.get(client_id, b"") + data
            self.closing = ready.closing
        return found

    def read(self) -> dict[int, bytes]:
        """What clients are told once the disk has answered."""
        for block_read in self.node.context.block_reads.drain():
            block_read.finish(block_read.read())
        return self.replies()


def test_others_are_served_while_one_waits_for_a_block() -> None:
    region = Waiting()
    assert region.send(CLIENT, "XRANGE s 10-1 10-1") == {}
    assert region.send(region.OTHER, "PING") == {region.OTHER: b"+PONG\r\n"}
    assert region.send(CLIENT, "PING") == {}
    assert region.read()[CLIENT].endswith(b"+PONG\r\n")


def test_a_request_that_waits_for_a_block_is_no_blocked_client() -> None:
    region = Waiting()
    region.send(CLIENT, "XRANGE s 10-1 10-1")
    assert region.send(region.OTHER, f"CLIENT UNBLOCK {CLIENT}") == {region.OTHER: b":0\r\n"}
    assert region.node.context.blocked_clients() == 0
    assert region.read()[CLIENT].startswith(b"*1\r\n")


def test_a_client_that_sends_no_more_gets_its_reply_before_it_is_closed() -> None:
    region = Waiting()
    region.send(CLIENT, "XRANGE s 10-1 10-1")
    region.node.ended(CLIENT)
    assert region.replies() == {}
    assert region.read()[CLIENT].startswith(b"*1\r\n") and region.closing == [CLIENT]


def test_a_client_that_left_meanwhile_is_no_fault() -> None:
    region = Waiting()
    region.send(CLIENT, "XRANGE s 10-1 10-1")
    region.node.disconnect(CLIENT)
    assert region.read() == {}
    region.node.check()


def test_a_block_that_is_damaged_is_an_error_for_its_reader_only() -> None:
    region = Waiting()
    region.file.data[:] = bytes(len(region.file.data))
    region.send(CLIENT, "XRANGE s 10-1 10-1")
    assert region.read()[CLIENT].startswith(b"-ERR internal error: BlockDamaged in xrange")
    assert region.send(CLIENT, "XLEN s") == {CLIENT: b":%d\r\n" % ENTRIES}


def test_a_blocked_reader_waits_for_blocks_that_become_wanted() -> None:
    region = Waiting()
    before = region.node.replica.reads.waited
    region.send(CLIENT, "XGROUP SETID s g $")
    assert region.send(CLIENT, "XREADGROUP GROUP g c COUNT 2 BLOCK 0 STREAMS s >") == {}
    region.send(region.OTHER, "XGROUP SETID s g 9")
    region.send(region.OTHER, "XADD s * f v")
    assert CLIENT in region.node.context.parking.waiters
    assert region.read()[CLIENT].count(VALUE.encode()) == 2
    assert region.node.replica.reads.waited == before


def test_a_blocked_reader_whose_time_ends_while_blocks_are_read_gets_them() -> None:
    region = Waiting()
    region.send(CLIENT, "XGROUP SETID s g $")
    region.send(CLIENT, "XREADGROUP GROUP g c COUNT 2 BLOCK 50 STREAMS s >")
    region.send(region.OTHER, "XGROUP SETID s g 9")
    region.send(region.OTHER, "XADD s * f v")
    region.node.tick(START_MS + 1_000)
    assert region.replies() == {}
    assert region.read()[CLIENT].count(VALUE.encode()) == 2


def test_runs_over_named_entries_wait_for_the_blocks_that_these_lie_in() -> None:
    region = Waiting()
    region.node.open_blocks.limit(0)
    region.send(CLIENT, "XGROUP CREATE n g 0 MKSTREAM")
    added = [region.send(CLIENT, f"XADD n IDMP p {number} * f {VALUE}")[CLIENT] for number in range(ENTRIES)]
    ids = b" ".join([reply.split(b"\r\n")[1] for reply in added]).decode()
    region.send(CLIENT, "XREADGROUP GROUP g c STREAMS n >")
    assert spill_all(region.node.replica.keyspace, region.file, region.node.open_blocks) > 6
    before = region.node.replica.reads.waited
    region.send(CLIENT, f"XACK n g {ids}")
    assert region.read()[CLIENT] == b":%d\r\n" % ENTRIES
    while region.node.context.block_reads.wanted:
        region.read()
    assert not region.node.replica.changed.dirty
    # The command left one block open, which was not asked for, and closed since nothing may be open.
    assert region.node.replica.reads.waited - before <= 1


def test_a_reader_that_claims_one_entry_has_few_blocks_read() -> None:
    region = Waiting()
    region.send(CLIENT, "XREADGROUP GROUP g a COUNT 23 STREAMS s >")
    region.read()
    assert spill_all(region.node.replica.keyspace, region.file, region.node.open_blocks) > 3
    before = region.file.reads
    region.send(CLIENT, "XREADGROUP GROUP g b CLAIM 0 COUNT 1 STREAMS s >")
    assert region.read()[CLIENT].count(VALUE.encode()) == 1
    assert region.file.reads - before <= 2


@pytest.mark.parametrize(
    "options", ["MAXCOUNT 1 STREAMS s t > >", "MAXSIZE 100 STREAMS s t > >", "MAXCOUNT 1 CLAIM 1000 STREAMS s >"]
)
def test_a_reader_whose_reply_is_limited_has_few_blocks_read(options: str) -> None:
    file = SlowFile()
    twin = Twin(file)
    for words in [*OPENING, ["XGROUP", "CREATE", "t", "g", "0", "MKSTREAM"]]:
        twin.ask(words)
    twin.ask(["XRANGE", "s", "-", "+"])
    assert file.reads > 3
    before = file.reads
    assert twin.say(f"XREADGROUP GROUP g a {options}").count(VALUE.encode()) == 1
    # Those that it needs, and what a check of the test reads.
    assert twin.read_for_requests <= 2 < file.reads - before


def delivered(group: str) -> Twin:
    """All entries are pending at a consumer."""
    twin = Twin(SlowFile())
    for words in OPENING[2:]:
        twin.ask(words)
    twin.say(f"XGROUP CREATE s g 0 {group}")
    twin.say("XREADGROUP GROUP g a STREAMS s >")
    twin.say("XGROUP CREATECONSUMER s g b")
    return twin


def test_a_reader_moves_no_more_dead_letters_than_it_has_had_blocks_read_for() -> None:
    twin = delivered("CRDT MAXDELIVERIES 1 DEADLETTER dead")
    assert twin.say("XREADGROUP GROUP g b COUNT 1 CLAIM 0 STREAMS s >") == b"*-1\r\n"
    assert twin.ask(["XLEN", "dead"]) == b":10\r\n"
    twin.say("XREADGROUP GROUP g b COUNT 1 CLAIM 0 STREAMS s >")
    twin.say("XREADGROUP GROUP g b COUNT 1 CLAIM 0 STREAMS s >")
    assert twin.ask(["XLEN", "dead"]) == b":%d\r\n" % ENTRIES
    assert twin.waited == 0


@pytest.mark.parametrize("consumer", ["b", "new"])
def test_a_blocked_reader_that_claims_reads_no_block_to_know_when_to_look_again(consumer: str) -> None:
    twin = delivered("")
    twin.ask(["XDEL", "s", *IDS[:15]])
    assert twin.say(f"XREADGROUP GROUP g {consumer} BLOCK 100000 CLAIM 3000 STREAMS s >") == b""
    node, before = twin.node, twin.node.replica.reads.waited
    reply, looks = b"", 0
    while not reply:
        looks += 1
        assert looks < 30
        assert twin.file is not None
        spill_all(node.replica.keyspace, twin.file, node.open_blocks)
        node.tick(START_MS + 100 + looks * 500)
        reply = twin.drain()
        while not reply and node.context.block_reads.wanted:
            for read in node.context.block_reads.drain():
                read.finish(read.read())
            reply = twin.drain()
    assert twin.waited == 0 and node.replica.reads.waited == before
    assert reply.count(VALUE.encode()) == ENTRIES - 15 and looks == 6


def test_a_blocked_reader_whose_entries_are_gone_looks_more_and_more_rarely() -> None:
    """That they are gone is known only while their blocks are open, and these do not all stay open."""
    twin = delivered("")
    dead = IDS[1::4]
    twin.ask(["XACK", "s", "g", *[each for each in IDS if each not in dead]])
    twin.ask(["XDEL", "s", *dead])
    node = twin.node
    node.open_blocks.limit(100_000)
    assert twin.say("XREADGROUP GROUP g b BLOCK 100000 CLAIM 3000 STREAMS s >") == b""
    assert twin.file is not None
    before = twin.file.reads
    for late_ms in range(0, 20_000, 10):
        node.tick(START_MS + 100 + late_ms)
        twin.drain()
        while node.context.block_reads.wanted:
            for read in node.context.block_reads.drain():
                read.finish(read.read())
            twin.drain()
    assert len(dead) <= twin.file.reads - before < 200
    assert CLIENT in node.context.parking.waiters
