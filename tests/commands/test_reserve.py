"""What commands that free room take from the reserve of a full disk, beside what they write to the log."""

from __future__ import annotations

import re

import pytest

from crdtstream.commands.dispatch import find
from crdtstream.commands.reserve import OVERHEAD_BYTES
from crdtstream.settings.config import Config, Limits
from crdtstream.status.availability import PAUSED_WRITES
from simulations.disk import SimulatedDisk
from simulations.machine import Machine
from tests.commands.harness import every_command

NOW_MS = 100
COUNT = 600
PLENTY = 1 << 30


@pytest.fixture
def machine() -> Machine:
    """A stream of which each group left every second entry pending, in turns."""
    machine = Machine(Config(name="one", region=1, cluster="c", incarnation=0, limits=Limits()), NOW_MS)
    for _ in range(COUNT):
        ask(machine, "XADD s * f v")
    for group in "gh":
        ask(machine, f"XGROUP CREATE s {group} 0")
        for number in range(COUNT):
            ask(machine, f"XREADGROUP GROUP {group} {'ab'[number % 2]} COUNT 1 STREAMS s >")
    ask(machine, f"XACK s g {' '.join(ids_of(machine)[::2])}")
    ask(machine, f"XACK s h {' '.join(ids_of(machine)[::3])}")
    return machine


def ask(machine: Machine, text: str) -> bytes:
    machine.look_for_room()
    reply = machine.execute(text.encode().split(), NOW_MS)
    assert reply is not None and not reply.startswith(b"-"), (text, reply)
    return reply


def ids_of(machine: Machine) -> list[str]:
    return re.findall(r"\d+-\d+", told(machine, "XRANGE s - +").decode())


def fill(machine: Machine, left_bytes: int) -> None:
    standing = machine.node.standing
    standing.writable, standing.removal_bytes, standing.member_bytes = False, left_bytes, left_bytes


def told(machine: Machine, text: str) -> bytes:
    reply = machine.execute(text.encode().split(), NOW_MS)
    assert reply is not None
    return reply


def taken(machine: Machine) -> int:
    return PLENTY - machine.node.standing.removal_bytes


REQUESTS = [
    "XTRIM s MAXLEN 0",
    "XTRIM s MAXLEN 300 DELREF",
    "XTRIM s MAXLEN 0 DELREF",
    "XTRIM s MAXLEN 0 ACKED",
    "XTRIM s MAXLEN ~ 10 ACKED",
    "XTRIM s MINID MIDDLE ACKED",
    "XDEL s EVEN",
    "XDELEX s DELREF IDS 300 EVEN",
    "XDELEX s ACKED IDS 300 EVEN",
    "XACKDEL s g DELREF IDS 300 ODD",
    "XGROUP DELCONSUMER s g a",
    "XGROUP DELCONSUMER s g b",
    "XGROUP DESTROY s g",
    "DEL s",
    "UNLINK s",
    "EXPIRE s 1000",
    "EXPIREAT s 1",
    "PEXPIRE s 1000",
    "PEXPIREAT s 1",
    "FLUSHDB",
    "FLUSHALL",
]


@pytest.mark.parametrize("text", REQUESTS)
def test_no_command_writes_more_than_it_takes(machine: Machine, text: str) -> None:
    ids = ids_of(machine)
    for word, named in (("MIDDLE", ids[500:501]), ("EVEN", ids[::2]), ("ODD", ids[1::2])):
        text = text.replace(word, " ".join(named))
    fill(machine, PLENTY)
    before = machine.log.appended_bytes
    assert not told(machine, text).startswith(b"-")
    assert 0 < machine.log.appended_bytes - before <= taken(machine)


def test_every_command_that_removes_data_is_measured() -> None:
    tried = {find(text.encode().split()).name for text in REQUESTS}
    assert tried == {command.name for command in every_command() if command.frees and "admin" not in command.flags}


def test_a_trim_that_names_each_entry_is_refused_where_it_does_not_fit(machine: Machine) -> None:
    """It is a request of 25 bytes."""
    fill(machine, OVERHEAD_BYTES + 4_096)
    before = machine.log.appended_bytes
    reply = told(machine, "XTRIM s MAXLEN 0 ACKED")
    assert reply.startswith(b"-MISCONF The disk is full") and machine.log.appended_bytes == before
    found = re.search(rb"trim in smaller steps, of (\d+) entries or fewer", reply)
    assert found is not None and 50 < int(found[1]) < COUNT
    assert told(machine, f"XTRIM s MAXLEN {COUNT - int(found[1])} ACKED").startswith(b":")


def test_a_trim_that_names_one_range_fits_whatever_its_length(machine: Machine) -> None:
    fill(machine, OVERHEAD_BYTES + 1_024)
    assert told(machine, "XTRIM s MAXLEN 0") == b":%d\r\n" % COUNT


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        (f"DEL {' '.join(map(str, range(100)))}", b"name fewer keys"),
        ("FLUSHALL", b"use DEL first"),
        (f"XDEL s {' '.join(['1-1'] * 99)}", b"name fewer IDs"),
        ("PEXPIRE s 1000", b"free space on the volume"),
    ],
)
def test_what_does_not_fit_is_told_what_to_do(machine: Machine, text: str, remedy: bytes) -> None:
    for number in range(100):
        ask(machine, f"XADD {number} * f v")
    fill(machine, OVERHEAD_BYTES + 10)
    reply = told(machine, text)
    assert reply.startswith(b"-MISCONF") and reply.rstrip().endswith(remedy)


def test_a_transaction_takes_the_reserve_at_exec_and_once(machine: Machine) -> None:
    fill(machine, PLENTY)
    assert told(machine, "DEL s x").startswith(b":")
    once = taken(machine)
    ask_full = ("MULTI", "DEL s x")
    fill(machine, PLENTY)
    for text in ask_full:
        assert told(machine, text).startswith(b"+")
    assert taken(machine) == 0, "nothing is written yet"
    assert told(machine, "EXEC").startswith(b"*1")
    assert 0 < taken(machine) <= once


def test_a_transaction_that_does_not_fit_is_discarded_as_a_whole(machine: Machine) -> None:
    fill(machine, OVERHEAD_BYTES + 4_096)
    for text in ("MULTI", "DEL x", "XTRIM s MAXLEN 0 ACKED"):
        assert told(machine, text).startswith(b"+")
    reply = told(machine, "EXEC")
    assert reply.startswith(b"-EXECABORT") and b"split the transaction" in reply
    assert told(machine, "XLEN s") == b":%d\r\n" % COUNT


def test_a_request_that_a_pause_puts_back_takes_nothing(machine: Machine) -> None:
    node = machine.node
    fill(machine, PLENTY)
    node.context.pause.begin(NOW_MS + 1_000, PAUSED_WRITES, NOW_MS)
    assert machine.execute([b"DEL", b"s"], NOW_MS) is None
    assert taken(machine) == 0


def test_a_region_heals_after_the_largest_trim_that_its_reserve_takes() -> None:
    """The reserve keeps what a checkpoint and evictions need, so the next checkpoint ends it."""
    limits = Limits(segment_bytes_max=1 << 14, disk_reserve_bytes=1 << 15)
    machine = Machine(Config(name="one", region=1, cluster="c", incarnation=0, limits=limits), NOW_MS, SimulatedDisk())
    for _ in range(2_000):
        ask(machine, "XADD s * f v")
    ask(machine, "XGROUP CREATE s g 0")
    ask(machine, "XREADGROUP GROUP g a NOACK STREAMS s >")
    machine.disk.capacity_bytes = machine.disk.used_bytes()
    while told(machine, "XADD x MAXLEN 1 * f v").startswith(b"$"):
        machine.look_for_room()
    machine.look_for_room()
    steps = 0
    while not (reply := told(machine, "XTRIM s MAXLEN 0 ACKED")).startswith(b":"):
        steps += 1
        found = re.search(rb"of (\d+) entries", reply)
        assert found is not None, reply
        length = int(told(machine, "XLEN s")[1:])
        assert told(machine, f"XTRIM s MAXLEN {max(1, length - int(found[1]))} ACKED").startswith(b":")
        assert machine.room.reserve.held_bytes >= limits.disk_reserve_bytes // 2
        save(machine)
    assert steps > 1
    save(machine)
    assert told(machine, "XADD x MAXLEN 1 * f v").startswith(b"$")


def save(machine: Machine) -> None:
    while not machine.save(1_000):
        pass
    machine.sync()
    machine.look_for_room()
