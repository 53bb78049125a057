"""Registers: written here, read everywhere, replaced by regions that saw them, and both kept where none did."""

from __future__ import annotations

from crdtstream.core.replica import Replica
from crdtstream.partitions.registers import Registers
from simulations.cluster import Cluster

KEY = (0, b"registers")


def registers_of(origin: int = 1) -> tuple[Replica, Registers]:
    replica = Replica(origin)
    replica.keyspace.now_ms = 1_000
    return replica, Registers(replica, KEY)


def test_a_register_has_its_last_value() -> None:
    replica, registers = registers_of()
    assert registers.latest(b"a") is None
    registers.write(b"a", b"1")
    registers.write(b"b", b"2")
    registers.write(b"a", b"3")
    assert (registers.latest(b"a"), registers.values(b"a"), registers.latest(b"b")) == (b"3", [b"3"], b"2")
    assert sorted(registers.names()) == [b"a", b"b"]
    stream = replica.keyspace.find(KEY)
    assert stream is not None
    assert stream.length == 2
    registers.check()


def test_a_dropped_register_is_gone_and_may_come_back() -> None:
    _, registers = registers_of()
    registers.drop(b"a")
    registers.write(b"a", b"1")
    registers.drop(b"a")
    assert registers.latest(b"a") is None
    registers.write(b"a", b"2")
    assert registers.latest(b"a") == b"2"
    registers.clear()
    assert registers.names() == []
    registers.check()


def test_the_version_changes_with_every_change_and_only_then() -> None:
    _, registers = registers_of()
    registers.names()
    versions = [registers.version]
    registers.write(b"a", b"1")
    versions.append(registers.version)
    registers.names()
    registers.drop(b"a")
    versions.append(registers.version)
    registers.names()
    assert registers.version == versions[-1]
    assert len(set(versions[:3])) == 3


def test_entries_of_another_form_are_ignored() -> None:
    replica, registers = registers_of()
    replica.add_entry(KEY, (1, 1), [b"name", b"value"])
    registers.write(b"a", b"1")
    assert (registers.names(), registers.latest(b"a")) == ([b"a"], b"1")


def test_regions_that_write_at_once_leave_both_until_somebody_saw_them() -> None:
    cluster = Cluster(2, "strict")
    cluster.live(2_000)
    one, other = [Registers(cluster.node(number).replica, KEY) for number in (1, 2)]
    for number, registers, value in ((1, one, b"x"), (2, other, b"y")):
        cluster.node(number).begin_slice(cluster.now_ms)
        registers.write(b"a", value)
        cluster.turn(number)
    cluster.sync()
    assert sorted(one.values(b"a")) == [b"x", b"y"]
    assert one.values(b"a") == other.values(b"a")
    assert one.latest(b"a") == other.latest(b"a")
    one.write(b"a", b"z")
    cluster.turn(1)
    cluster.sync()
    assert other.values(b"a") == [b"z"]
    for registers in (one, other):
        registers.check()
