"""XGROUP CREATE while this region's origin is not admitted: it waits, for as long as the limit says."""

from __future__ import annotations

import pytest

from crdtstream.commands.groups import BUSY, NO_KEY
from crdtstream.connections.admission import NOT_ADMITTED
from crdtstream.connections.client import Client
from crdtstream.core import effects as fx
from crdtstream.core.values.entry_id import STRICT
from crdtstream.protocols import replies
from crdtstream.settings.config import Limits
from simulations.cluster import CLIENT, Cluster
from tests.commands.group_region import OK, array, bulk, error, filled
from tests.commands.harness import FakeAdmission, Region

CREATE = "XGROUP CREATE s g 0"
TRYAGAIN = replies.error(NOT_ADMITTED.encode())
LIMITS = Limits(segment_bytes_max=1 << 18, admission_wait_ms=5_000)


class Fake(FakeAdmission):
    """Remembers whether the admission was said to others before anything else."""

    def __init__(self, region: Region) -> None:
        super().__init__()
        self.region = region
        self.said_at: list[int] = []

    def say_admitted(self) -> None:
        self.said_at.append(self.region.replica.applied.counter())


def waiting(*lines: str) -> tuple[Region, Fake]:
    """A region that is not admitted, with an entry in `s`; these requests of its client wait."""
    region = filled("1-1")
    region.replica.drain()
    admission = region.context.cluster.admission = Fake(region)
    for line in lines:
        assert region.line(line) is None
    return region, admission


def admit(region: Region, admission: Fake) -> None:
    """As the node does when it is admitted."""
    admission.admitted = True
    for waiter in region.context.parking.keyless():
        region.serve(waiter)


def answered(region: Region) -> bytes:
    (reply,) = region.late_replies(region.client)
    return reply


# By itself


def test_it_waits_and_says_that_it_does() -> None:
    region, admission = waiting(CREATE)
    assert admission.wanted and region.client.parked
    assert region.replica.drain().batch is None, "nothing is prepared meanwhile"
    region.check()
    admit(region, admission)
    assert answered(region) == OK and not region.client.parked
    assert admission.said_at == [1], "the admission goes before the create"
    batch = region.replica.drain().batch
    assert batch is not None and isinstance(batch.effects[0], fx.GroupCreated)
    assert region.client.written_counter == region.replica.written()


def test_once_admitted_it_waits_for_nothing() -> None:
    region, admission = waiting()
    admission.admitted = True
    assert region.line(CREATE) == OK
    assert admission.said_at == [1] and not admission.wanted


def test_info_says_whether_the_region_is_admitted() -> None:
    region, admission = waiting()
    assert b"\r\nadmitted:0\r\n" in (region.line("INFO replication") or b"")
    admission.admitted = True
    assert b"\r\nadmitted:1\r\n" in (region.line("INFO replication") or b"")


def test_it_waits_no_longer_than_the_limit() -> None:
    region, _ = waiting(CREATE)
    wait_ms = region.context.limits.admission_wait_ms
    region.pass_time(wait_ms - 1)
    assert region.late_replies(region.client) == []
    region.pass_time(1)
    assert answered(region) == TRYAGAIN
    assert region.line("EXISTS s") == replies.ONE, "the client goes on"


def test_it_does_not_wait_where_the_limit_is_zero() -> None:
    region = Region(limits=Limits(admission_wait_ms=0))
    admission = region.context.cluster.admission = Fake(region)
    assert region.line("XGROUP CREATE s g $ MKSTREAM") == TRYAGAIN
    assert admission.wanted, "the next attempt may find it admitted"
    assert region.replica.keyspace.find((0, b"s")) is None


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        (
            "XGROUP CREATE s g 0 NOW",
            "ERR unknown subcommand or wrong number of arguments for 'CREATE'. Try XGROUP HELP.",
        ),
        ("XGROUP CREATE s g x", "ERR Invalid stream ID specified as stream command argument"),
        ("XGROUP CREATE absent g 0", NO_KEY),
        ("XGROUP CREATE s old 0", BUSY),
    ],
)
def test_what_cannot_work_is_refused_at_once(line: str, reply: str) -> None:
    region = filled("1-1")
    assert region.line("XGROUP CREATE s old 0") == OK
    admission = region.context.cluster.admission = Fake(region)
    assert region.line(line) == error(reply)
    assert not admission.wanted and not len(region.context.parking)


@pytest.mark.parametrize("line", ["XGROUP DESTROY s old", "XADD s 2-1 f v", "XGROUP CREATECONSUMER s old c", "DEL s"])
def test_everything_else_goes_on(line: str) -> None:
    region = filled("1-1")
    assert region.line("XGROUP CREATE s old 0") == OK
    region.context.cluster.admission = Fake(region)
    reply = region.line(line)
    assert reply is not None and not reply.startswith(b"-")


def test_it_is_looked_at_again_when_its_time_comes() -> None:
    """Meanwhile another client deleted the key, another region made the group."""
    region, admission = waiting(CREATE)
    other = region.connect()
    region.line("DEL s", other)
    admit(region, admission)
    assert answered(region) == error(NO_KEY)
    region, admission = waiting(CREATE)
    west = filled(origin=2)
    west.line("XGROUP CREATE s g 0 MKSTREAM")
    batch = west.replica.drain().batch
    assert batch is not None
    region.replica.apply_batch(batch)
    admit(region, admission)
    assert answered(region) == error(BUSY)


def test_two_that_wait_for_the_same_group_make_one() -> None:
    region, admission = waiting(CREATE)
    other = region.connect()
    assert region.line(CREATE, other) is None
    admit(region, admission)
    assert answered(region) == OK
    assert region.late_replies(other) == [error(BUSY)]


def test_the_end_is_taken_when_it_is_made() -> None:
    """`$` is what is there when the group is made, not when it was asked for."""
    region, admission = waiting("XGROUP CREATE s g $")
    region.line("XADD s 2-1 f v", region.connect())
    admit(region, admission)
    assert answered(region) == OK
    assert region.line("XREADGROUP GROUP g c STREAMS s >") == b"*-1\r\n"


@pytest.mark.parametrize(
    ("how", "reply"), [("TIMEOUT", TRYAGAIN), ("ERROR", b"-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n")]
)
def test_its_wait_is_ended_as_any_other(how: str, reply: bytes) -> None:
    region, admission = waiting(CREATE)
    assert region.run("CLIENT", "UNBLOCK", region.client.id, how, client=region.connect()) == replies.ONE
    assert [text for client, text in region.context.outbox if client is region.client] == [reply]
    admit(region, admission)
    assert region.replica.drain().batch is None


def test_within_a_transaction_it_does_not_wait() -> None:
    region, admission = waiting()
    for line in ("MULTI", CREATE, "XADD s 2-1 f v"):
        region.line(line)
    assert region.line("EXEC") == array(TRYAGAIN, bulk("2-1"))
    assert admission.wanted and not len(region.context.parking)
    region.check()
    admit(region, admission)
    for line in ("MULTI", CREATE):
        region.line(line)
    assert region.line("EXEC") == array(OK)


# What carries groups along


def copy_case(line: str) -> tuple[Region, Fake, list[bytes]]:
    """A region that is not admitted, with an entry and a group in `s`, and this request as words."""
    region = filled("1-1")
    region.line("XGROUP CREATE s g 0")
    payload = (region.line("DUMP s") or b"").partition(b"\r\n")[2][:-2]
    region.replica.drain()
    admission = region.context.cluster.admission = Fake(region)
    return region, admission, [payload if word == "@" else word.encode() for word in line.split()]


COPIES = [("COPY s t", 0, b"t"), ("MOVE s 1", 1, b"s"), ("SWAPDB 0 1", 1, b"s"), ("RESTORE t 0 @", 0, b"t")]


@pytest.mark.parametrize(("line", "database", "name"), COPIES)
def test_what_makes_groups_waits_like_a_create(line: str, database: int, name: bytes) -> None:
    region, admission, words = copy_case(line)
    assert region.run(*words) is None
    assert admission.wanted and region.client.parked
    assert region.replica.drain().batch is None, "nothing is prepared meanwhile"
    admit(region, admission)
    assert not answered(region).startswith(b"-") and not region.client.parked
    copy = region.replica.keyspace.find((database, name))
    assert copy is not None and list(copy.groups) == [b"g"]
    assert admission.said_at == [region.replica.applied.vector.get(1) - len(region.replica.opened()[0])]
    region.check()


@pytest.mark.parametrize(("line", "database", "name"), COPIES)
def test_what_makes_groups_waits_no_longer_than_the_limit(line: str, database: int, name: bytes) -> None:
    region, _, words = copy_case(line)
    assert region.run(*words) is None
    region.pass_time(region.context.limits.admission_wait_ms - 1)
    assert region.late_replies(region.client) == []
    region.pass_time(1)
    assert answered(region) == TRYAGAIN
    assert region.replica.keyspace.find((database, name)) is None
    region.configure(limits=Limits(admission_wait_ms=0))
    assert region.run(*words) == TRYAGAIN


@pytest.mark.parametrize(("line", "database", "name"), COPIES)
def test_what_makes_groups_does_not_wait_in_a_transaction(line: str, database: int, name: bytes) -> None:
    region, _, words = copy_case(line)
    region.line("MULTI")
    region.run(*words)
    assert region.line("EXEC") == array(TRYAGAIN)
    assert region.replica.keyspace.find((database, name)) is None
    region.check()


@pytest.mark.parametrize(("line", "database", "name"), COPIES)
def test_what_makes_groups_is_unblocked_and_refused_when_the_region_departs(
    line: str, database: int, name: bytes
) -> None:
    region, admission, words = copy_case(line)
    assert region.run(*words) is None
    region.context.standing.departing = "leaving"
    admit(region, admission)
    assert answered(region) == error("READONLY leaving")
    region.context.standing.departing = ""
    admission.admitted = False
    assert region.run(*words) is None
    other = region.connect()
    assert region.run("CLIENT", "UNBLOCK", region.client.id, client=other) == replies.ONE
    assert [text for client, text in region.context.outbox if client is region.client] == [TRYAGAIN]
    assert region.replica.keyspace.find((database, name)) is None


@pytest.mark.parametrize("line", ["COPY s t", "MOVE s 1", "SWAPDB 0 1", "RESTORE t 0 @"])
def test_without_groups_nothing_waits(line: str) -> None:
    region, _, _ = copy_case(line)
    region.line("XGROUP DESTROY s g")
    payload = (region.line("DUMP s") or b"").partition(b"\r\n")[2][:-2]
    reply = region.run(*[payload if word == "@" else word for word in line.split()])
    assert reply is not None and not reply.startswith(b"-")


# In a region


def ask(cluster: Cluster, number: int, line: str) -> bytes | None:
    return cluster.execute(number, line.encode().split())


def founded(regions: int, limits: Limits = LIMITS) -> Cluster:
    """Regions that have been at work and know each other; each restarts as an origin that is not admitted."""
    cluster = Cluster(regions, STRICT, limits=limits)
    cluster.sync()
    assert ask(cluster, 1, "XGROUP CREATE s old $ MKSTREAM") == OK
    for _ in range(2):
        cluster.tick(limits.heartbeat_ms)
        cluster.sync()
    return cluster


def client_of(cluster: Cluster, number: int) -> Client:
    return cluster.node(number).context.clients[CLIENT]


def test_a_region_that_restarts_waits_for_another_to_admit_it() -> None:
    cluster = founded(2)
    cluster.restart(1)
    assert ask(cluster, 1, CREATE) is None and client_of(cluster, 1).parked
    for _ in range(3):
        cluster.tick(LIMITS.heartbeat_ms)
        cluster.sync()
    assert cluster.machines[1].pop_reply() == OK
    cluster.sync()
    stream = cluster.node(2).replica.keyspace.find((0, b"s"))
    assert stream is not None and sorted(stream.groups) == [b"g", b"old"]
    cluster.check()


def test_a_region_that_nobody_admits_says_so_in_time() -> None:
    cluster = founded(2)
    cluster.cut(1, 2)
    cluster.restart(1)
    assert ask(cluster, 1, CREATE) is None
    cluster.tick(LIMITS.admission_wait_ms - 1)
    assert cluster.machines[1].pop_reply() is None
    cluster.tick(1)
    assert cluster.machines[1].pop_reply() == TRYAGAIN
    assert ask(cluster, 1, "XREADGROUP GROUP old c STREAMS s >") == b"*-1\r\n", "what was there serves on"
    assert ask(cluster, 1, "XGROUP DESTROY s old") == replies.ONE


def test_a_region_alone_admits_itself() -> None:
    cluster = founded(1)
    cluster.restart(1)
    assert ask(cluster, 1, CREATE) == OK


def test_regions_that_restart_together_admit_each_other_once_all_have_it_on_disk() -> None:
    cluster = founded(2)
    for number in (1, 2):
        cluster.restart(number)
    assert ask(cluster, 1, CREATE) is None
    assert ask(cluster, 2, "XGROUP CREATE s h 0") is None
    for _ in range(6):
        for region in cluster.machines.values():
            region.sync()
        cluster.sync()
        cluster.tick(LIMITS.heartbeat_ms // 2)
    assert [cluster.machines[number].pop_reply() for number in (1, 2)] == [OK, OK]
    cluster.sync()
    for number in (1, 2):
        stream = cluster.node(number).replica.keyspace.find((0, b"s"))
        assert stream is not None and sorted(stream.groups) == [b"g", b"h", b"old"]
    cluster.check()


def test_what_a_client_asks_behind_it_waits_too() -> None:
    cluster = founded(2)
    cluster.restart(1)
    assert ask(cluster, 1, CREATE) is None
    assert ask(cluster, 1, "PING") is None
    for _ in range(3):
        cluster.tick(LIMITS.heartbeat_ms)
        cluster.sync()
    assert cluster.machines[1].pop_reply() == OK + replies.PONG
