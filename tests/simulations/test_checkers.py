"""Every checker passes a run in which nothing is wrong, and names what is wrong in one where something is."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from crdtstream.core import effects as fx
from crdtstream.core.effects import Batch
from crdtstream.core.members import ADMITTED, EVICTED, JOINED, Members
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.causality import VersionVector, origin_of, region_of
from crdtstream.core.values.entry_id import STRICT
from crdtstream.core.values.intervals import IntervalSet
from crdtstream.protocols.codec import BATCH, decode_batch
from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication.values.wire_values import vector_rows
from crdtstream.storage.segment import HEADER_BYTES, segment_names
from simulations.adversary import draw_world
from simulations.checkers import all_checkers
from simulations.checking import Checker
from simulations.collection_checkers import ForgetsInTheEnd, ForgetsOnlyStable, is_void, left_in
from simulations.expiry_checkers import ExpiresInTime, LongestExpiry, RestartsEmpty
from simulations.history import Added, Created, Violation
from simulations.history_checkers import (
    AcknowledgedOnly,
    DeliveredAtLeastOnce,
    NoLostGroup,
    NoLostWrite,
    UniqueDots,
    UniqueIds,
)
from simulations.network import START_MS, Connection
from simulations.settings import Settings
from simulations.state_checkers import (
    AuditsAgree,
    Convergence,
    DamageIsRot,
    DeleteWins,
    Invariants,
    NoResurrection,
    ObservedRemove,
    Recovered,
    UnionOfRuns,
)
from simulations.wire_checkers import Fitting, NoEcho, OriginOrder, PartsGoOn, ResumesFromLog, SyncedFirst
from simulations.world import World

KEY = (0, b"x")
CALM = Settings(2, "mesh", STRICT, 400, (), 100, 1_000_000)
COMMANDS = (
    b"XADD x * f 1",
    b"XADD x * f 2",
    b"XGROUP CREATE x g 0",
    b"XREADGROUP GROUP g a COUNT 1 STREAMS x >",
)


@pytest.fixture
def world() -> World:
    """Two regions that agree: two entries, one of them acknowledged, a group `g` that has both delivered. No fault: the
    seed draws delays alone.
    """
    world = draw_world(1, CALM)
    world.run()
    for command in COMMANDS:
        say(world, command.split())
    say(world, [b"XACK", b"x", b"g", first_id(world)])
    say(world, b"XREADGROUP GROUP g a STREAMS x >".split())
    world.run_until(world.quiet, world.now_ms + 10_000)
    for checker in all_checkers():
        checker.at_end(world)
    return world


def say(world: World, argv: list[bytes]) -> None:
    """A command of a client of region 1, and its reply, which may wait for the disk."""
    world.execute(1, argv)
    world.machines[1].sync()
    world.turned(1)


def first_id(world: World) -> bytes:
    ms, seq = first_added(world).entry_id
    return b"%d-%d" % (ms, seq)


def first_added(world: World) -> Added:
    return next(added for added in world.history.added if added.key == KEY)


def stream_of(world: World, number: int) -> Stream:
    return world.machines[number].node.replica.keyspace.databases[0][b"x"]


def remove_first(world: World, number: int) -> None:
    """The region loses an entry by no effect."""
    stream = stream_of(world, number)
    tree = next(iter(stream.trees.values()))
    counter = tree.counter_ranges()[0][0]
    tree.remove_counters(counter, counter)
    stream.derive()


def miscount(world: World) -> None:
    stream_of(world, 1).length += 1


def diverge(world: World) -> None:
    remove_first(world, 2)


def differ_for_a_while(world: World) -> None:
    """Long enough for the regions to notice."""
    say(world, b"XADD x * f 3".split())
    remove_first(world, 2)
    audit = world.machines[2].node.exchange.audit
    world.run_until(lambda: audit.differences > 0, world.now_ms + 100_000)


def lose_entry(world: World) -> None:
    for number in (1, 2):
        remove_first(world, number)


def lose_group(world: World) -> None:
    for number in (1, 2):
        del stream_of(world, number).groups[b"g"]


def invent_run(world: World) -> None:
    for number in (1, 2):
        group = stream_of(world, number).groups[b"g"]
        for create in group.creates.values():
            create.runs[1] = IntervalSet()
            create.runs[1].add((0, 0), (2**60, 0))


def lengthen_expiry(world: World) -> None:
    for number in (1, 2):
        stream_of(world, number).expires_ms = 2**40


def add_to_expired(world: World) -> None:
    """The specification hears of an entry that was added when its key had expired."""
    replica = world.machines[1].node.replica
    replica.set_expiry(KEY, world.now_ms)
    replica.add_entry(KEY, (2**62, 1), [b"f", b"v"])
    batch = replica.drain().batch
    assert batch is not None
    world.oracle.record(batch, world.now_ms + 1)


def forget_answered(world: World) -> None:
    world.history.added.append(Added(1, KEY, (5, 1), (1, 1000)))


def answer_twice(world: World) -> None:
    added = first_added(world)
    world.history.added.append(Added(1, KEY, added.entry_id, (1, 1000)))


def name_twice(world: World) -> None:
    added = first_added(world)
    world.history.added.append(Added(1, KEY, (5, 1), added.dot))


def acknowledge_alone(world: World) -> None:
    world.history.acknowledged.clear()


def deliver_nothing(world: World) -> None:
    world.history.delivered.clear()
    world.history.acknowledged.clear()
    world.machines[1].node.replica.keyspace.databases[0][b"x"].groups[b"g"].pending.remove_consumer(b"a")


def leave_out(world: World) -> None:
    """Region 2 takes for delivered what it neither delivered nor heard of as acknowledged."""
    group = stream_of(world, 2).groups[b"g"]
    group.passed.of(1).add((0, 0), (2**60, 0))
    group.acked.clear()


def void_answered(world: World) -> None:
    """Another origin takes the place of region 2's, at less than what that one has answered."""
    replica = world.machines[1].node.replica
    world.act(1, lambda: replica.evict_member(2, origin_of(2, 9)))
    world.turn(1)
    world.history.created.append(Created((KEY, b"g"), (2, replica.applied.vector.get(2) + 1)))


EXAMPLES: list[tuple[type[Checker], Callable[[World], None]]] = [
    (Invariants, miscount),
    (Convergence, diverge),
    (AuditsAgree, differ_for_a_while),
    (ObservedRemove, lose_entry),
    (DeleteWins, lose_group),
    (UnionOfRuns, invent_run),
    (LongestExpiry, lengthen_expiry),
    (RestartsEmpty, add_to_expired),
    (NoLostWrite, forget_answered),
    (NoLostGroup, void_answered),
    (UniqueIds, answer_twice),
    (UniqueDots, name_twice),
    (AcknowledgedOnly, acknowledge_alone),
    (DeliveredAtLeastOnce, deliver_nothing),
    (DeliveredAtLeastOnce, leave_out),
]


@pytest.mark.parametrize(("kind", "spoil"), EXAMPLES, ids=[f"{k.__name__}-{s.__name__}" for k, s in EXAMPLES])
def test_a_checker_names_what_is_wrong_at_the_end(
    kind: type[Checker], spoil: Callable[[World], None], world: World
) -> None:
    spoil(world)
    with pytest.raises(Violation) as found:
        kind().at_end(world)
    assert found.value.checker == kind.name


def test_what_was_acknowledged_under_a_void_create_may_count_under_another(world: World) -> None:
    told, group = world.history.acknowledged[(KEY, b"g")], stream_of(world, 1).groups[b"g"]
    world.history.acknowledged[(KEY, b"g")] = {(9, 9): set().union(*told.values())}
    world.history.delivered.clear()
    DeliveredAtLeastOnce().at_end(world)
    group.acked.clear()
    with pytest.raises(Violation, match="never delivered"):
        DeliveredAtLeastOnce().at_end(world)


def test_what_an_expired_key_held_may_be_gone(world: World) -> None:
    say(world, b"PEXPIRE x 100".split())
    world.run_until(lambda: world.now_ms > START_MS + 5_000 and world.quiet(), world.now_ms + 20_000)
    assert world.machines[2].node.replica.keyspace.known(KEY) is None
    NoLostWrite().at_end(world)


def test_a_key_that_expired_and_stays(world: World) -> None:
    say(world, b"PEXPIRE x 100".split())
    replica = world.machines[1].node.replica
    replica.keyspace.now_ms = replica.keyspace.deadlines.times[KEY]
    ExpiresInTime().ticked(world, 1)
    replica.keyspace.now_ms += 1
    with pytest.raises(Violation, match="expiry: region 1"):
        ExpiresInTime().ticked(world, 1)


def test_a_key_that_another_region_lets_expire_and_nobody_takes_over(world: World) -> None:
    say(world, b"PEXPIRE x 1000".split())
    replica = world.machines[2].node.replica
    world.run_until(lambda: KEY in replica.keyspace.deadlines.times, world.now_ms + 900)
    context = world.machines[2].node.context
    replica.keyspace.now_ms = replica.keyspace.deadlines.times[KEY] + context.limits.expiry_takeover_ms
    ExpiresInTime().ticked(world, 2)
    replica.keyspace.now_ms += 1
    with pytest.raises(Violation, match="expiry: region 2"):
        ExpiresInTime().ticked(world, 2)


def test_an_entry_that_was_gone_and_lives_again(world: World) -> None:
    checker = NoResurrection()
    database = world.machines[1].node.replica.keyspace.databases[0]
    stream = database.pop(b"x")
    checker.look(world, 1)
    database[b"x"] = stream
    with pytest.raises(Violation, match="was gone and lives again"):
        checker.look(world, 1)


def test_damage_that_nobody_did(world: World) -> None:
    machine, checker = world.machines[1], DamageIsRot()
    name = segment_names(machine.disk)[0]
    machine.disk.flip_bit(name, HEADER_BYTES + 5)
    assert machine.log.read(1, 1 << 20) == []
    machine.flipped.add(name)
    checker.turned(world, 1)
    machine.flipped.clear()
    with pytest.raises(Violation, match=f"damage: region 1: Damage.{name} at byte"):
        checker.turned(world, 1)


def test_rot_while_a_region_runs_is_in_what_no_start_reads(world: World) -> None:
    machine, rng = world.machines[1], Random(1)
    assert machine.rot_old(rng) == ""
    while len(segment_names(machine.disk)) < 3:
        say(world, b"XADD x * f 3".split())
        machine.sync()
    assert machine.rot_old(rng) == ""
    machine.checkpoint()
    assert machine.rot_old(rng).startswith(segment_names(machine.disk)[-2])
    machine.start(world.now_ms)
    world.run_until(world.quiet, world.now_ms + 10_000)


def test_a_start_that_forgets(world: World) -> None:
    checker = Recovered()
    checker.stopping(world, 1, "kill")
    stream_of(world, 1).groups[b"g"].pending.remove_consumer(b"a")
    with pytest.raises(Violation, match="recovery: region 1, databases"):
        checker.started(world, 1, "kill")


def test_a_region_whose_disk_tells_less_than_it_has(world: World) -> None:
    Recovered().at_end(world)
    for number in world.machines:
        stream_of(world, number).groups[b"g"].entries_read += 1
    with pytest.raises(Violation, match=r"recovery: region \d, databases"):
        Recovered().at_end(world)


def test_a_start_after_a_power_loss_may_forget(world: World) -> None:
    checker = Recovered()
    checker.stopping(world, 1, "power")
    stream_of(world, 1).groups[b"g"].pending.remove_consumer(b"a")
    checker.started(world, 1, "power")


@pytest.mark.parametrize(
    ("first", "context", "what"), [(3, {}, "1:3 after 0"), (1, {2: 7}, "1:1 before {2: 7}")], ids=["gap", "context"]
)
def test_a_batch_out_of_order(world: World, first: int, context: dict[int, int], what: str) -> None:
    effect = fx.GroupDestroyed(KEY, b"g")
    world.machines[1].logged = [Batch(1, first, first, VersionVector(context), [effect])]
    with pytest.raises(Violation, match=what):
        OriginOrder().turned(world, 1)


def batches() -> wire.Message:
    """One batch, as the log of a region has it."""
    world = draw_world(1, CALM)
    world.run()
    for command in COMMANDS:
        say(world, command.split())
    payloads = [payload for _, kind, payload in world.machines[1].log.read(1, 1 << 20) if kind == 1]
    return wire.Message(batches=wire.Batches(payloads=payloads[:1]))


def test_a_batch_that_is_sent_twice(world: World) -> None:
    checker, connection, message = NoEcho(), Connection(9, (1, 2)), batches()
    checker.sent(world, connection, 1, message, b"")
    checker.sent(world, Connection(10, (1, 2)), 1, message, b"")
    with pytest.raises(Violation, match="1 sends again to 2"):
        checker.sent(world, connection, 1, message, b"")


def test_a_batch_that_is_sent_back(world: World) -> None:
    checker, connection, message = NoEcho(), Connection(9, (1, 2)), batches()
    checker.received(world, connection, 2, message, b"")
    with pytest.raises(Violation, match="2 sends back to 1"):
        checker.sent(world, connection, 2, message, b"")


def test_a_state_that_the_log_could_have_told(world: World) -> None:
    checker, connection = ResumesFromLog(), Connection(9, (1, 2))
    own = world.machines[1].node.replica.applied.vector
    offer = wire.Message(offer=wire.Offer(vector=vector_rows(own)))
    checker.received(world, connection, 1, wire.Message(hello=wire.Hello(region=2)), b"")
    with pytest.raises(Violation, match="1 offers its state to 2, which has"):
        checker.sent(world, connection, 1, offer, b"")


def test_what_the_peer_does_not_take(world: World) -> None:
    checker, connection = Fitting(), Connection(9, (1, 2))
    taken = world.machines[2].config.limits.message_bytes_max
    checker.sent(world, connection, 1, batches(), bytes(taken))
    with pytest.raises(Violation, match=f"bounds: 1 sends {taken + 1} bytes to 2, which takes {taken}"):
        checker.sent(world, connection, 1, batches(), bytes(taken + 1))
    checker.closed(world, connection, 1, "connection lost")
    with pytest.raises(Violation, match="is closed at 1: a batch exceeds batch_bytes_max = 9 bytes"):
        checker.closed(world, connection, 1, "a batch exceeds batch_bytes_max = 9 bytes")


def test_a_batch_that_is_larger_than_its_region_knows(world: World) -> None:
    checker, machine = Fitting(), world.machines[1]
    payloads = [payload for _, kind, payload in machine.log.read(1, 1 << 20) if kind == BATCH]
    machine.logged = [one for one in map(decode_batch, payloads) if region_of(one.origin) == 1]
    checker.turned(world, 1)
    machine.node.replica.budget.fit(20, 2, 0)
    checker.turned(world, 1)
    with pytest.raises(Violation, match="and knows of the limit 20"):
        checker.turned(world, 1)
    own = machine.node.replica.applied.origin
    machine.node.replica.applied.origin = origin_of(1, 7)
    checker.turned(world, 1)
    machine.node.replica.applied.origin = own


def test_a_part_that_the_peer_has(world: World) -> None:
    checker, link = PartsGoOn(), Connection(10, (1, 2))
    batch = wire.BatchName(slot=257, first=1, last=1, size_bytes=9)
    part = wire.Message(part=wire.Part(batch=batch, payload=b"12345"))
    assemblies = world.machines[2].node.exchange.view.assemblies
    assemblies.add(assemblies.open((257, 1, 1, 9)), 0, b"12345")
    checker.sent(world, link, 2, wire.Message(hello=wire.Hello(region=2)), b"")
    with pytest.raises(Violation, match="parts: 1 sends byte 0 of a batch to 2, which has 5 bytes of it"):
        checker.sent(world, link, 1, part, b"")
    part.part.offset_bytes = 5
    checker.sent(world, link, 1, part, b"")


def test_a_part_that_is_sent_twice(world: World) -> None:
    """A restart brings it again, and no restart brings it twice."""
    checker, link = PartsGoOn(), Connection(9, (1, 2))
    batch = wire.BatchName(slot=257, first=1, last=1, size_bytes=9)
    for restart in (0, 1):
        part = wire.Message(part=wire.Part(batch=batch, payload=b"12345", restart=restart))
        checker.sent(world, link, 1, part, b"")
        with pytest.raises(Violation, match="parts: 1 sends byte 0 of a batch to 2 again, after 5 bytes"):
            checker.sent(world, link, 1, part, b"")


def test_a_tombstone_that_is_forgotten_too_soon(world: World) -> None:
    checker = ForgetsOnlyStable()
    stream_of(world, 1).put_destroyed(b"g", {1: 1000})
    checker.turned(world, 1)
    stream_of(world, 1).destroyed.clear()
    with pytest.raises(Violation, match="collection: region 1"):
        checker.turned(world, 1)


def test_who_was_evicted_is_not_waited_for(world: World) -> None:
    """Nor an origin that follows a Join which an eviction made worthless."""
    checker = ForgetsOnlyStable()
    stream_of(world, 1).put_destroyed(b"g", {1: 1000})
    checker.turned(world, 1)
    stream_of(world, 1).destroyed.clear()
    world.machines[1].node.replica.applied.members.apply_evicted((1, 9), 2, 0, 0, VersionVector())
    checker.turned(world, 1)
    joins = Members.of_rows([(JOINED, 4, 3, 7, 0), (ADMITTED, 4, 3, 7, 1)])
    assert not is_void(4, False, Members(), joins)
    assert not is_void(4, False, Members.of_rows([(EVICTED, 3, 1, 9, 7)]), joins)
    assert is_void(4, False, Members.of_rows([(EVICTED, 3, 1, 9, 6)]), joins)
    unsaid = Members.of_rows([(JOINED, 4, 3, 7, 0), (ADMITTED, 3, 0, 0, 1)])
    assert not is_void(4, False, Members.of_rows([(EVICTED, 3, 1, 9, 7)]), unsaid)
    assert is_void(4, False, Members.of_rows([(EVICTED, 3, 1, 9, 6)]), unsaid)
    assert not is_void(4, True, Members.of_rows([(EVICTED, 3, 1, 9, 6)]), unsaid), "a founder follows no Join"


def test_a_tombstone_that_stays(world: World) -> None:
    world.seed = 0  # the checker waits in one of so many seeds, of which this is one
    stream_of(world, 1).put_destroyed(b"g", {1: 1000})
    with pytest.raises(Violation, match="bounded memory: 20000 ms after"):
        ForgetsInTheEnd().at_end(world)


def test_a_context_of_an_ended_origin_that_stays(world: World) -> None:
    machine = world.machines[1]
    machine.node.replica.applied.contexts[3] = VersionVector()
    assert left_in(machine) == []
    machine.node.replica.applied.members.apply_evicted((1, 9), 3, 0, 0, VersionVector())
    assert left_in(machine) == [3]


def test_every_checker_has_an_example() -> None:
    kinds = {type(checker) for checker in all_checkers()}
    others = {
        DamageIsRot,
        ExpiresInTime,
        NoResurrection,
        Recovered,
        OriginOrder,
        NoEcho,
        ResumesFromLog,
        PartsGoOn,
        Fitting,
        SyncedFirst,
        ForgetsOnlyStable,
        ForgetsInTheEnd,
    }
    # Those of a module of checkers have theirs in the test of that module.
    words = [
        "partition",
        "order",
        "queue",
        "room",
        "deletion",
        "session",
        "cursor",
        "delivery",
        "letter",
        "name",
        "repeat",
        "retention",
        "shard",
        "spill",
    ]
    modules = [f"simulations.{word}_checkers" for word in words]
    partitioned = {kind for kind in kinds if kind.__module__ in modules}
    assert kinds == {kind for kind, _ in EXAMPLES} | others | partitioned
    assert len({checker.name for checker in all_checkers()}) == len(kinds)
