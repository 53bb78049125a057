"""DUMP and RESTORE of much: only their own clients wait, and what they show or write is of one moment."""

from __future__ import annotations

import dataclasses
import gc

import pytest

from crdtstream.commands.dumping import Filled, Restoring
from crdtstream.connections.client import Client
from crdtstream.connections.context import Context, Work
from crdtstream.connections.slicing import WorkWaiter, begin, go_on
from crdtstream.core.values.entry_id import STRICT
from crdtstream.protocols.dump_writing import id_bytes, length, node_bytes, string
from crdtstream.protocols.stream_dump import KIND_1, KIND_2, DumpedEntry
from crdtstream.region.node import Node
from crdtstream.settings.config import Config, Limits
from crdtstream.status.availability import DISK_FULL, OOM
from simulations.machine import CLIENT, Machine
from tests.protocols.payloads import sealed

START_MS = 1_000
OTHER = 2
THIRD = 3
PONG = b"+PONG\r\n"
OK = b"+OK\r\n"
ENTRIES = 300


def region_of(**changes: int) -> Node:
    limits = dataclasses.replace(Limits(), segment_bytes_max=1 << 20, dump_slice_bytes=1_024)
    limits = dataclasses.replace(limits, **changes)
    machine = Machine(
        Config(name="east", region=1, cluster="c", id_mode=STRICT, incarnation=0, limits=limits), START_MS
    )
    for client_id in (OTHER, THIRD):
        machine.connect(client_id, START_MS)
    for number in range(ENTRIES):
        machine.execute([b"XADD", b"s", b"*", b"field", b"value-%d" % number], START_MS)
    return machine.node


@pytest.fixture
def node() -> Node:
    return region_of()


def turn(node: Node) -> dict[int, bytes]:
    ready = node.ready()
    node.check()
    return {} if ready is None else dict(ready.replies)


def ask(node: Node, *argv: bytes, client_id: int = CLIENT) -> None:
    node.execute(client_id, [*argv], START_MS)


def answer(node: Node, client_id: int = CLIENT) -> bytes:
    for _ in range(1_000):
        reply = turn(node).get(client_id)
        if reply is not None:
            return reply
    raise AssertionError(f"client {client_id} is not answered")


def call(node: Node, *argv: bytes, client_id: int = CLIENT) -> bytes:
    ask(node, *argv, client_id=client_id)
    return answer(node, client_id)


def payload_of(node: Node, key: bytes = b"s") -> bytes:
    return call(node, b"DUMP", key).partition(b"\r\n")[2][:-2]


@pytest.mark.parametrize("command", ["DUMP", "RESTORE"])
def test_others_are_served_meanwhile(node: Node, command: str) -> None:
    payload = payload_of(node)
    ask(node, *([b"DUMP", b"s"] if command == "DUMP" else [b"RESTORE", b"t", b"0", payload]))
    answered: dict[int, bytes] = {}
    turns = 0
    while CLIENT not in answered:
        assert node.serving.is_behind() and call(node, b"EXISTS", b"t", client_id=OTHER) == b":0\r\n"
        ask(node, b"PING", client_id=THIRD)
        answered = turn(node)
        assert answered[THIRD] == PONG
        turns += 2
    assert turns > 10 and not node.serving.is_behind()
    assert answered[CLIENT] == (OK if command == "RESTORE" else b"$%d\r\n%b\r\n" % (len(payload), payload))


def test_a_dump_is_of_its_first_turn(node: Node) -> None:
    """Whatever is added, removed, deleted and compressed before its last."""
    expected = payload_of(node)
    ask(node, b"DUMP", b"s")
    for changes in ([b"XADD", b"s", b"*", b"f", b"v"], [b"XTRIM", b"s", b"MAXLEN", b"5"], [b"DEL", b"s"]):
        assert CLIENT not in turn(node)
        ask(node, *changes, client_id=OTHER)
    assert answer(node).partition(b"\r\n")[2][:-2] == expected


def test_two_take_turns(node: Node) -> None:
    """So a small one waits for few slices of a large one."""
    for _ in range(10):
        call(node, b"XADD", b"small", b"*", b"f", b"v" * 200)
    ask(node, b"DUMP", b"s")
    turn(node)
    ask(node, b"DUMP", b"small", client_id=OTHER)
    assert answer(node, OTHER).startswith(b"$")
    assert node.serving.is_behind(), "the large one is done already"
    assert answer(node).startswith(b"$")


def test_one_whose_client_is_gone_is_given_up(node: Node) -> None:
    ask(node, b"RESTORE", b"t", b"0", payload_of(node))
    turn(node)
    assert node.serving.is_behind()
    node.disconnect(CLIENT)
    turn(node)
    assert not node.serving.is_behind()
    assert call(node, b"EXISTS", b"t", client_id=OTHER) == b":0\r\n"


def test_client_unblock_does_not_end_it(node: Node) -> None:
    expected = payload_of(node)
    client_id = call(node, b"CLIENT", b"ID")[1:-2]
    ask(node, b"DUMP", b"s")
    turn(node)
    ask(node, b"CLIENT", b"UNBLOCK", client_id, client_id=OTHER)
    assert turn(node)[OTHER] == b":0\r\n"
    assert answer(node).partition(b"\r\n")[2][:-2] == expected


def test_a_key_that_appears_meanwhile_is_not_overwritten(node: Node) -> None:
    payload = payload_of(node)
    ask(node, b"RESTORE", b"t", b"0", payload)
    turn(node)
    ask(node, b"XADD", b"t", b"*", b"f", b"v", client_id=OTHER)
    assert answer(node).startswith(b"-BUSYKEY")
    assert call(node, b"XLEN", b"t") == b":1\r\n"


@pytest.mark.parametrize(
    ("standing", "error"),
    [("memory_short", OOM), ("writable", DISK_FULL), ("departing", "READONLY it leaves")],
)
def test_what_the_region_refuses_by_then_is_not_written(node: Node, standing: str, error: str) -> None:
    payload = payload_of(node)
    ask(node, b"RESTORE", b"t", b"0", payload)
    turn(node)
    setattr(node.context.standing, standing, {"writable": False, "memory_short": True}.get(standing, "it leaves"))
    assert answer(node) == b"-%b\r\n" % error.encode()
    assert call(node, b"EXISTS", b"t") == b":0\r\n"


def test_within_a_transaction_it_is_one_piece(node: Node) -> None:
    payload = payload_of(node)
    for argv in ([b"MULTI"], [b"RESTORE", b"t", b"0", payload], [b"DUMP", b"t"], [b"RESTORE", b"t", b"0", payload]):
        call(node, *argv)
    reply = call(node, b"EXEC")
    assert reply.startswith(b"*3\r\n+OK\r\n$") and reply.endswith(b"-BUSYKEY Target key name already exists.\r\n")
    assert call(node, b"XLEN", b"t") == b":%d\r\n" % ENTRIES


def test_wait_counts_what_it_wrote(node: Node) -> None:
    payload = payload_of(node)
    assert call(node, b"RESTORE", b"t", b"0", payload, client_id=OTHER) == OK
    assert node.context.clients[OTHER].written_counter == node.replica.applied.counter() >= 2 * ENTRIES


def large(count: int, name: bytes) -> bytes:
    """A whole payload whose entries share a name, which is written once."""
    entries: list[DumpedEntry] = [((1, at), [name, b"v"]) for at in range(1, count + 1)]
    parts = [bytes([KIND_1]), length(1), string(id_bytes((1, 1))), string(node_bytes(entries))]
    return sealed(b"".join([*parts, *map(length, (count, 1, count)), length(0)]), 9)


def held_bytes(node: Node) -> int:
    works = [waiter.work for waiter in node.context.parking.keyless() if isinstance(waiter, WorkWaiter)]
    return sum([work.filled.byte_count() for work in works if isinstance(work, Restoring)])


def answers_of(node: Node, clients: list[int]) -> tuple[dict[int, bytes], int]:
    """What these clients are answered, in that order, and the most memory that their payloads took."""
    found: dict[int, bytes] = {}
    peak = 0
    for _ in range(2_000):
        found.update(turn(node))
        peak = max(peak, held_bytes(node))
        if len(found) == len(clients):
            return found, peak
    raise AssertionError(f"only {list(found)} are answered")


@pytest.mark.parametrize("memory_bytes_max", [20_000_000, 0])
def test_the_bound_is_one_for_all_that_are_under_way(memory_bytes_max: int) -> None:
    """What the first one took is not free for the others."""
    node = region_of(memory_bytes_max=memory_bytes_max, batch_bytes_max=15_000_000, dump_slice_bytes=1 << 18)
    node.context.about.memory_bytes = 5_000_000
    payload = large(140, b"n" * 100_000)
    for client_id in (THIRD, CLIENT, OTHER):
        ask(node, b"RESTORE", b"t%d" % client_id, b"0", payload, client_id=client_id)
    found, peak = answers_of(node, [CLIENT, OTHER, THIRD])
    assert list(found) == [THIRD, CLIENT, OTHER] and found[THIRD] == OK
    assert peak <= 15_000_000
    assert [found[one][:4] for one in (CLIENT, OTHER)] == [b"-ERR" if memory_bytes_max else b"+OK\r"] * 2


def test_one_that_waits_for_another_does_not_keep_a_dump_waiting(node: Node) -> None:
    payload = payload_of(node)
    for client_id in (CLIENT, OTHER):
        ask(node, b"RESTORE", b"t%d" % client_id, b"0", payload, client_id=client_id)
    call(node, b"XADD", b"small", b"*", b"f", b"v", client_id=THIRD)
    assert call(node, b"DUMP", b"small", client_id=THIRD).startswith(b"$")
    assert answers_of(node, [CLIENT, OTHER])[0] == {CLIENT: OK, OTHER: OK}


def test_one_that_was_given_up_lets_the_next_begin(node: Node) -> None:
    payload = payload_of(node)
    for client_id in (CLIENT, OTHER):
        ask(node, b"RESTORE", b"t", b"0", payload, client_id=client_id)
    turn(node)
    node.disconnect(CLIENT)
    assert answer(node, OTHER) == OK


def test_within_a_transaction_the_bound_counts_what_another_holds() -> None:
    node = region_of(memory_bytes_max=20_000_000, dump_slice_bytes=1 << 18)
    node.context.about.memory_bytes = 5_000_000
    payload = large(140, b"n" * 100_000)
    ask(node, b"RESTORE", b"t", b"0", payload)
    while held_bytes(node) < 5_000_000:
        turn(node)
    call(node, b"MULTI", client_id=OTHER)
    call(node, b"RESTORE", b"u", b"0", payload, client_id=OTHER)
    ask(node, b"EXEC", client_id=OTHER)
    found, peak = answers_of(node, [CLIENT, OTHER])
    assert found[CLIENT] == OK and found[OTHER].startswith(b"*1\r\n-ERR the payload expands to more than")
    assert peak <= 15_000_000


def test_one_ends_when_memory_is_short_meanwhile() -> None:
    """Not when it has read everything."""
    node = region_of(dump_slice_bytes=1 << 18)
    ask(node, b"RESTORE", b"t", b"0", large(140, b"n" * 100_000))
    turn(node)
    node.context.standing.memory_short = True
    assert turn(node) == {CLIENT: b"-%b\r\n" % OOM.encode()}
    assert not held_bytes(node)


class Compared(Work):
    """A work without end, which counts how often it is compared with another one."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Compared.compared += self is not other
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def step(self, context: Context) -> bool:
        return False

    def finish(self, context: Context, client: Client) -> bytes:
        raise AssertionError("it has no end")

    def release(self) -> None:
        """Nothing is registered."""


def test_a_slice_is_done_without_comparing_all_works(node: Node) -> None:
    count = 100
    for client_id in range(10, 10 + count):
        node.connect(client_id, "", START_MS)
        begin(node.context, node.context.clients[client_id], Compared())
    Compared.compared = 0
    go_on(node.context)
    assert Compared.compared < 2 * count


def bomb(count: int, name: bytes) -> bytes:
    """A payload whose entries share a name, which is written once."""
    entries: list[DumpedEntry] = [((1, at), [name, b"v"]) for at in range(1, count + 1)]
    return sealed(b"".join([bytes([KIND_2, 1]), string(id_bytes((1, 1))), string(node_bytes(entries))]))


@pytest.mark.parametrize("limit", ["memory_bytes_max", "batch_bytes_max"])
def test_a_payload_that_expands_to_too_much_is_refused(limit: str) -> None:
    """100 MB in 200 kB: refused while it is read, long before there are 100 MB."""
    node = region_of(**{limit: 20_000_000})
    node.context.about.memory_bytes = 5_000_000
    reply = call(node, b"RESTORE", b"t", b"0", bomb(1_000, b"n" * 100_000))
    allowed = 15_000_000 if limit == "memory_bytes_max" else 20_000_000
    assert reply.startswith(b"-ERR the payload expands to more than the %d bytes" % allowed)
    gc.collect()
    assert not [thing for thing in gc.get_objects() if isinstance(thing, Filled)], "what was read stays in memory"
    assert call(node, b"EXISTS", b"t") == b":0\r\n"


def test_what_no_client_could_take_is_not_dumped() -> None:
    node = region_of(output_bytes_max=65_536)
    for _ in range(10):
        call(node, b"XADD", b"s", b"*", b"f", b"v" * 6_000)
    assert call(node, b"DUMP", b"s").startswith(b"-ERR the stream has ")
    assert call(node, b"PING") == PONG
