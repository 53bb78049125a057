"""CLIENT PAUSE: what waits, what goes on, and what follows its end."""

from __future__ import annotations

import dataclasses

import pytest

from crdtstream.commands.leaving import unblock_writers
from crdtstream.core.values.entry_id import LIBERAL
from crdtstream.region.node import Node
from crdtstream.settings.config import Config, Limits
from simulations.machine import Machine
from tests.commands.harness import REDIS, Connection, redis_server
from tests.commands.harness import Region as BareRegion

START_MS = 1_000
OK, ONE = b"+OK\r\n", b":1\r\n"


class Paused:
    """A region with four clients, whose first one pauses the others."""

    def __init__(self) -> None:
        limits = dataclasses.replace(Limits(), segment_bytes_max=1 << 20)
        config = Config(name="east", region=1, cluster="c", id_mode=LIBERAL, incarnation=0, limits=limits)
        self.machine = Machine(config, START_MS)
        self.now_ms = START_MS
        for client_id in range(2, 6):
            self.machine.connect(client_id, START_MS)

    @property
    def node(self) -> Node:
        return self.machine.node

    def say(self, line: str, client: int = 2) -> dict[int, bytes]:
        """What the turn of this request, and those that follow it, reply to whom."""
        self.node.execute(client, line.encode().split(), self.now_ms)
        return self.answers()

    def answers(self) -> dict[int, bytes]:
        told: dict[int, bytes] = {}
        while (ready := self.node.ready()) is not None:
            self.node.check()
            for client_id, reply in ready.replies:
                told[client_id] = told.get(client_id, b"") + reply
        return told

    def pass_time(self, ms: int) -> dict[int, bytes]:
        self.now_ms += ms
        self.node.tick(self.now_ms)
        return self.answers()


@pytest.fixture
def region() -> Paused:
    made = Paused()
    made.say("XADD s 1-0 f v")
    made.say("XGROUP CREATE s g 0")
    return made


def fields(region: Paused) -> dict[bytes, bytes]:
    (reply,) = region.say("INFO clients", 5).values()
    return dict(line.split(b":", 1) for line in reply.splitlines() if b":" in line)


# What waits


@pytest.mark.parametrize(
    "line",
    [
        "XADD s 2-0 f v",
        "XREADGROUP GROUP g c STREAMS s >",
        "DEL s",
        "PUBLISH a b",
        "SPUBLISH a b",
        "FLUSHALL",
        "XGROUP CREATE s h 0",
    ],
)
def test_writes_wait(region: Paused, line: str) -> None:
    assert region.say("CLIENT PAUSE 100 WRITE") == {2: OK}
    assert region.say(line, 3) == {}
    assert region.pass_time(99) == {}
    assert list(region.pass_time(1)) == [3]


@pytest.mark.parametrize("line", ["XLEN s", "XREAD STREAMS s 0", "PING", "WAIT 0 1", "CLIENT PAUSE 5 WRITE", "XADD s"])
def test_reads_and_errors_do_not_wait_for_writes(region: Paused, line: str) -> None:
    region.say("CLIENT PAUSE 100 WRITE")
    assert list(region.say(line, 3)) == [3]


@pytest.mark.parametrize("mode", ["", " ALL"])
def test_everything_waits_even_for_itself(region: Paused, mode: str) -> None:
    assert region.say(f"CLIENT PAUSE 100{mode}") == {2: OK}
    for client, line in ((2, "CLIENT UNPAUSE"), (3, "PING"), (4, "XLEN s")):
        assert region.say(line, client) == {}
    assert region.say("FOO", 5) != {}, "what is wrong is said at once"
    assert region.pass_time(100) == {2: OK, 3: b"+PONG\r\n", 4: ONE}


def test_what_was_stopped_runs_in_order_and_with_what_was_sent_behind_it(region: Paused) -> None:
    region.say("CLIENT PAUSE 100000 WRITE")
    words = [[b"XADD", b"s", b"5-0", b"f", b"v"], [b"XLEN", b"s"], [b"XADD", b"s", b"6-0", b"f", b"v"]]
    region.node.execute_all(3, words, region.now_ms)
    assert region.say("XADD s 7-0 f v", 4) == {}
    assert region.say("CLIENT UNPAUSE") == {2: OK, 3: b"$3\r\n5-0\r\n:2\r\n$3\r\n6-0\r\n", 4: b"$3\r\n7-0\r\n"}
    assert not region.node.context.clients[3].backlog_bytes


def test_a_pipeline_of_adds_waits_as_a_whole(region: Paused) -> None:
    region.say("CLIENT PAUSE 100 WRITE")
    region.node.execute_all(3, [[b"XADD", b"s", b"*", b"f", b"v"]] * 50, region.now_ms)
    assert region.say("XLEN s") == {2: ONE}
    told = region.pass_time(100)
    assert told[3].count(b"$") == 50
    assert region.say("XLEN s") == {2: b":51\r\n"}


def test_a_request_is_checked_again_at_the_end(region: Paused) -> None:
    region.say("CLIENT PAUSE 100 WRITE")
    region.say("XADD s 5-0 f v", 3)
    region.node.writable(False)
    assert region.pass_time(100)[3].startswith(b"-MISCONF")


def test_replies_that_are_skipped_stay_skipped(region: Paused) -> None:
    region.say("CLIENT REPLY SKIP", 3)
    region.say("CLIENT PAUSE 100 WRITE")
    region.say("XADD s 5-0 f v", 3)
    assert region.pass_time(100).get(3, b"") == b""
    assert region.say("PING", 3) == {3: b"+PONG\r\n"}


# Several pauses


def test_the_longest_and_strictest_pause_counts(region: Paused) -> None:
    region.say("CLIENT PAUSE 100 WRITE")
    region.say("CLIENT PAUSE 10 ALL")
    region.say("PING", 3)
    assert region.pass_time(99) == {}
    assert region.pass_time(1) == {3: b"+PONG\r\n"}


def test_a_pause_that_is_over_does_not_count(region: Paused) -> None:
    region.say("CLIENT PAUSE 10 ALL")
    region.now_ms += 10
    assert region.say("PING", 3) == {3: b"+PONG\r\n"}
    assert region.say("CLIENT PAUSE 10 WRITE") == {2: OK}
    assert region.say("PING", 3) == {3: b"+PONG\r\n"}


def test_a_clock_that_is_set_back_does_not_prolong_it(region: Paused) -> None:
    region.say("CLIENT PAUSE 100 WRITE")
    region.say("DEL s", 3)
    region.now_ms -= 500
    assert region.pass_time(0) == {}
    assert region.pass_time(99) == {}
    assert region.pass_time(1) == {3: ONE}


# Transactions


def test_transactions_that_write_wait_at_exec(region: Paused) -> None:
    for line in ("MULTI", "XADD s 5-0 f v"):
        region.say(line, 3)
    for line in ("MULTI", "XLEN s"):
        region.say(line, 4)
    region.say("CLIENT PAUSE 100 WRITE")
    assert region.say("EXEC", 3) == {}
    assert region.say("EXEC", 4) == {4: b"*1\r\n:1\r\n"}
    assert region.pass_time(100) == {3: b"*1\r\n$3\r\n5-0\r\n"}


def test_a_write_waits_to_be_queued(region: Paused) -> None:
    region.say("MULTI", 3)
    region.say("CLIENT PAUSE 100 WRITE")
    assert region.say("XADD s 5-0 f v", 3) == {}
    assert region.pass_time(100) == {3: b"+QUEUED\r\n"}


def test_a_pause_inside_a_transaction_begins_behind_it(region: Paused) -> None:
    for line in ("MULTI", "CLIENT PAUSE 100 WRITE", "XADD s 5-0 f v"):
        region.say(line)
    assert region.say("EXEC") == {2: b"*2\r\n+OK\r\n$3\r\n5-0\r\n"}
    assert region.say("XADD s 6-0 f v") == {}


# Clients that waited before


def test_blocked_readers_wait_on_and_get_what_came(region: Paused) -> None:
    """Batches of peers are applied meanwhile; readers of groups are served at the end, others at once."""
    region.say("XREADGROUP GROUP g c STREAMS s >")
    region.say("XREADGROUP GROUP g c BLOCK 0 STREAMS s >", 3)
    region.say("XREAD BLOCK 0 STREAMS s $", 4)
    region.say("CLIENT PAUSE 100 WRITE")
    region.node.replica.add_entry((0, b"s"), (5, 0), [b"f", b"v"])
    region.node.serving.wake()
    assert list(region.answers()) == [4]
    assert list(region.pass_time(100)) == [3]


def test_blocked_readers_time_out(region: Paused) -> None:
    region.say("XREADGROUP GROUP g c STREAMS s >")
    region.say("XREADGROUP GROUP g c BLOCK 50 STREAMS s >", 3)
    region.say("CLIENT PAUSE 100")
    assert region.pass_time(50) == {3: b"*-1\r\n"}


class Later:
    """The admission of this region's origin, which comes when the test says so."""

    def __init__(self) -> None:
        self.admitted = self.is_outside = False

    def want(self) -> None:
        """It is wanted all the time."""

    def say_admitted(self) -> None:
        """Nobody listens."""


def stopped_at_admission(region: Paused, line: bytes) -> Later:
    """Let client 3 wait for the admission with a RESTORE or another command, and pause all that write."""
    payload = region.say("DUMP s")[2].partition(b"\r\n")[2][:-2]
    later = Later()
    region.node.context.cluster.admission = later
    region.node.execute(3, [payload if word == b"payload" else word for word in line.split()], region.now_ms)
    assert region.answers() == {}
    assert region.say("CLIENT PAUSE 100000 WRITE") == {2: OK}
    return later


AT_ADMISSION = [(b"RESTORE t 0 payload", "t"), (b"XGROUP CREATE t h 0 MKSTREAM", "t")]


@pytest.mark.parametrize(("line", "key"), AT_ADMISSION)
@pytest.mark.parametrize("early", [True, False])
def test_what_waits_for_the_admission_waits_for_the_end_too(region: Paused, line: bytes, key: str, early: bool) -> None:
    later = stopped_at_admission(region, line)
    later.admitted = early
    wait_ms = region.node.settings.limits.admission_wait_ms
    assert wait_ms < 99_000
    assert region.pass_time(wait_ms) == region.pass_time(1) == {}
    assert region.node.next_deadline_ms() == START_MS + 100_000, "nothing is to be done before"
    later.admitted = True
    assert region.say(f"EXISTS {key}") == {2: b":0\r\n"}
    assert region.pass_time(99_999 - wait_ms) == {3: OK}
    assert region.say(f"EXISTS {key}") == {2: ONE}


def test_a_restore_behind_one_that_waits_makes_no_turns(region: Paused) -> None:
    """What the first one has read stays in memory until it is written."""
    later = stopped_at_admission(region, b"RESTORE t 0 payload")
    region.say("CLIENT UNPAUSE")
    payload = region.say("DUMP s")[2].partition(b"\r\n")[2][:-2]
    for client, key in ((4, b"u"), (5, b"v")):
        region.node.execute(client, [b"RESTORE", key, b"0", payload], region.now_ms)
    assert region.answers() == {} and not region.node.is_behind()
    later.admitted = True
    assert region.pass_time(region.node.settings.limits.admission_wait_ms) == {3: OK, 4: OK, 5: OK}


@pytest.mark.parametrize(("line", "key"), AT_ADMISSION)
def test_client_unblock_writes_nothing_for_what_waits(region: Paused, line: bytes, key: str) -> None:
    stopped_at_admission(region, line).admitted = True
    told = region.say("CLIENT UNBLOCK 3")
    assert told == {2: b":0\r\n"} or told[3].startswith(b"-TRYAGAIN")
    assert region.say(f"EXISTS {key}") == {2: b":0\r\n"}


@pytest.mark.parametrize(("line", "key"), AT_ADMISSION)
@pytest.mark.parametrize("resumed", [True, False])
def test_what_is_not_admitted_by_the_end_is_refused(region: Paused, line: bytes, key: str, resumed: bool) -> None:
    stopped_at_admission(region, line)
    region.pass_time(region.node.settings.limits.admission_wait_ms)
    told = {**region.say("CLIENT UNPAUSE"), **region.pass_time(0)} if resumed else region.pass_time(100_000)
    assert told[3].startswith(b"-TRYAGAIN")
    assert region.say(f"EXISTS {key}") == {2: b":0\r\n"}


def test_unblock_and_kill(region: Paused) -> None:
    region.say("CLIENT PAUSE 100 WRITE")
    region.say("DEL s", 3)
    assert region.say("CLIENT UNBLOCK 3 ERROR") == {2: b":0\r\n"}
    assert region.say("CLIENT KILL ID 3") == {2: ONE}
    region.node.disconnect(3)
    assert region.pass_time(100) == {}
    assert region.say("XLEN s") == {2: ONE}


# The region


def test_keys_expire_and_are_not_deleted(region: Paused) -> None:
    region.say("PEXPIRE s 50")
    region.say("CLIENT PAUSE 100 WRITE")
    counter = region.node.replica.applied.counter()
    region.pass_time(60)
    assert region.say("EXISTS s") == {2: b":0\r\n"}
    assert region.node.replica.applied.counter() == counter
    region.pass_time(40)
    assert region.node.replica.applied.counter() == counter + 1


def test_info_and_list(region: Paused) -> None:
    shown = (b"paused_reason", b"paused_actions", b"paused_timeout_milliseconds", b"blocked_clients")
    assert [fields(region)[name] for name in shown] == [b"none", b"none", b"0", b"0"]
    region.say("CLIENT PAUSE 100 WRITE")
    region.say("DEL s", 3)
    region.now_ms += 30
    assert [fields(region)[name] for name in shown] == [b"client_pause", b"write", b"70", b"1"]
    (listed,) = region.say("CLIENT LIST ID 3").values()
    assert b" flags=b " in listed and b" cmd=del " in listed


def test_a_region_that_stops_ends_the_pause(region: Paused) -> None:
    region.say("CLIENT PAUSE 100000")
    region.say("DEL s", 3)
    region.say("PING", 4)
    region.node.drain("this region is stopping")
    assert region.answers() == {3: b"-READONLY this region is stopping\r\n", 4: b"+PONG\r\n"}


def test_a_region_that_leaves_ends_the_pause(region: Paused) -> None:
    region.say("CLIENT PAUSE 100000 WRITE")
    region.say("DEL s", 3)
    region.node.standing.departing = "this region leaves"
    unblock_writers(region.node.context)
    assert region.say("PING") == {2: b"+PONG\r\n", 3: b"-READONLY this region leaves\r\n"}


def test_the_next_turn_comes_when_it_ends(region: Paused) -> None:
    assert region.node.next_deadline_ms() is None
    region.say("CLIENT PAUSE 100 WRITE")
    assert region.node.next_deadline_ms() == region.now_ms + 100
    region.say("CLIENT UNPAUSE")
    assert region.node.next_deadline_ms() is None


ERRORS = """
    CLIENT PAUSE | CLIENT PAUSE x | CLIENT PAUSE -1 | CLIENT PAUSE 1 FOO | CLIENT PAUSE x FOO | CLIENT PAUSE 1 write x
    CLIENT PAUSE 9223372036854775807 | CLIENT PAUSE 99999999999999999999 | CLIENT PAUSE 1.5 | CLIENT UNPAUSE x
    CLIENT PAUSE 0 | CLIENT PAUSE 0 all | CLIENT UNPAUSE | CLIENT unpause
"""


@pytest.mark.skipif(REDIS is None, reason="redis-server is not installed")
def test_errors(tmp_path_factory: pytest.TempPathFactory) -> None:
    region = BareRegion()
    with redis_server(tmp_path_factory.mktemp("redis")) as port:
        connection = Connection(port)
        for line in [line.strip() for text in ERRORS.strip().split("\n") for line in text.split("|")]:
            assert region.line(line) == connection.line(line), line
        connection.close()
