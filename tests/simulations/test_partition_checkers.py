"""The checkers of partitioned streams: none complains about a calm world, and each about the fault that it is for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from crdtstream.core.values.entry_id import STRICT
from crdtstream.partitions.keys import partition_key
from crdtstream.partitions.partition import fields_of
from crdtstream.partitions.state import Start, StreamState
from crdtstream.partitions.values import LATEST, TRIM_HORIZON, NewMessage, PartitionMessage, Polled, StreamSpec
from crdtstream.replication import wire_pb2 as wire
from simulations.adversary import draw_world
from simulations.checkers import all_checkers, run_checked
from simulations.checking import Checker
from simulations.history import Violation
from simulations.partition_checkers import (
    CommitsRise,
    Dense,
    GroupsStay,
    KeptForRetention,
    NoLostMessage,
    NothingSkipped,
    OneOwner,
    OneSequence,
    SilentOwner,
    memberships_in,
    state_in,
)
from simulations.partitioned import FOREVER_MS, Partitioned
from simulations.settings import Settings
from simulations.stream_clients import STREAM, Delivery, Put
from simulations.wire_checkers import SyncedFirst
from simulations.world import World

CALM = Settings(2, "mesh", STRICT, 900, (), 100, 1_000_000, partitioned=True)
CHECKERS = (
    OneSequence,
    Dense,
    NoLostMessage,
    KeptForRetention,
    OneOwner,
    SilentOwner,
    NothingSkipped,
    CommitsRise,
    GroupsStay,
)


@pytest.fixture
def world() -> World:
    """A calm world, at its end: every group begins at the first message, and no operator acts."""
    world = draw_world(3, CALM)
    clients = clients_of(world)
    clients.spec = StreamSpec(STREAM, 2, FOREVER_MS)
    clients.kinds = dict.fromkeys(clients.kinds, TRIM_HORIZON)
    clients.operated_ms = 0
    run_checked(world)
    assert len(clients.told.puts) > 10 and clients.told.delivered
    return world


def clients_of(world: World) -> Partitioned:
    assert isinstance(world.partitioned, Partitioned)
    return world.partitioned


def home_of(world: World) -> int:
    return world.machines[1].node.partitions.home(STREAM)


def state_of(world: World, number: int) -> StreamState:
    state = state_in(world, number)
    assert state is not None
    return state


def complains(checker: Checker, look: Callable[[], None], text: str) -> None:
    with pytest.raises(Violation, match=text) as caught:
        look()
    assert caught.value.checker == checker.name


def test_every_checker_of_partitioned_streams_is_here() -> None:
    kinds = {type(checker) for checker in all_checkers()}
    assert {kind for kind in kinds if kind.__module__ == OneSequence.__module__} == set(CHECKERS)


@pytest.mark.parametrize("kind", CHECKERS)
def test_nothing_is_wrong(world: World, kind: type[Checker]) -> None:
    checker = kind()
    for number in world.machines:
        checker.turned(world, number)
    checker.at_end(world)


@pytest.mark.parametrize("kind", CHECKERS)
def test_a_world_without_partitions_is_none_of_their_business(kind: type[Checker]) -> None:
    world = draw_world(3, replace(CALM, duration_ms=100, partitioned=False))
    run_checked(world, [kind()])


def test_a_region_with_another_message(world: World) -> None:
    home = home_of(world)
    partition = state_of(world, home).partitions()[0]
    partition.append([NewMessage(0, None, b"of this region alone")])
    complains(OneSequence(), lambda: OneSequence().at_end(world), f"region {home} has")


def test_one_offset_with_two_messages(world: World) -> None:
    checker, instance = OneSequence(), clients_of(world).instances[0]
    first = Delivery(1, instance, (1, 1), (1, 1), [(0, PartitionMessage(5, 7, None, b"a"))])
    checker.delivered(world, first)
    checker.delivered(world, first)
    other = replace(first, number=2, messages=[(0, PartitionMessage(5, 7, None, b"b"))])
    complains(checker, lambda: checker.delivered(world, other), "0:5 under")


@pytest.mark.parametrize("later", [PartitionMessage(4, 9, None, b"b"), PartitionMessage(6, 6, None, b"b")])
def test_offsets_or_times_that_fall(world: World, later: PartitionMessage) -> None:
    checker, instance = OneSequence(), clients_of(world).instances[0]
    read = Delivery(1, instance, (1, 1), (1, 1), [(0, PartitionMessage(5, 7, None, b"a")), (0, later)])
    complains(checker, lambda: checker.delivered(world, read), "before")


def test_an_offset_that_nobody_was_given(world: World) -> None:
    home = home_of(world)
    partition, epoch = state_of(world, home).partitions()[0], state_of(world, home).epochs.current()
    hole = partition.next_offset() + 1
    fields = fields_of(NewMessage(0, None, b"v"), 1)
    for machine in world.machines.values():
        if machine.config.region == home:
            machine.node.replica.add_entry(partition_key(STREAM, 0), (epoch[0], hole), fields)
    if home == 1:
        complains(Dense(), lambda: Dense().at_end(world), "was given to no message")


def test_a_message_that_is_gone(world: World) -> None:
    clients_of(world).told.puts[b"never numbered"] = Put(0, 0, True)
    complains(NoLostMessage(), lambda: NoLostMessage().at_end(world), "answered and gone")


def test_a_message_that_was_not_answered_may_be_gone(world: World) -> None:
    clients_of(world).told.puts[b"never numbered"] = Put(0, 0)
    NoLostMessage().at_end(world)


def test_a_message_that_is_removed_too_early(world: World) -> None:
    home = home_of(world)
    partition = state_of(world, home).partitions()[0]
    partition.trim(partition.oldest_offset() + 1)
    world.turn(home)
    for number in world.machines:
        world.machines[number].node.replica.applied.vector.merge(world.machines[home].node.replica.applied.vector)
    complains(KeptForRetention(), lambda: KeptForRetention().at_end(world), "was removed at")


def test_a_message_that_stays_too_long(world: World) -> None:
    clients_of(world).spec = StreamSpec(STREAM, 2, 1)
    world.now_ms += 1_000_000
    complains(KeptForRetention(), lambda: KeptForRetention().at_end(world), "is still there")


def test_a_partition_with_two_owners(world: World) -> None:
    checker, instance = OneOwner(), clients_of(world).instances[0]
    checker.polled(world, instance, Polled(5, (1, 1), (1, 1), {0: 3, 1: 4}))
    other = replace(instance, name="other")
    checker.polled(world, other, Polled(6, (1, 1), (1, 1), {1: 4}))
    complains(checker, lambda: checker.polled(world, other, Polled(5, (1, 1), (1, 1), {1: 4})), "belongs to")


@pytest.mark.parametrize(
    ("owners", "text"), [(["", "a"], "nobody owns 0"), (["a", "gone"], "that left"), (["a", "a"], "shares of")]
)
def test_shares_that_are_wrong(world: World, owners: list[str], text: str) -> None:
    home = home_of(world)
    ownership = next(iter(memberships_in(world, home).values())).ownership
    ownership.instances = {name: next(iter(ownership.instances.values())) for name in ("a", "b")}
    ownership.owners = owners
    complains(OneOwner(), lambda: OneOwner().turned(world, home), text)


@pytest.mark.parametrize("stays_ms", [0, 1 << 30])
def test_an_owner_who_stays(world: World, stays_ms: int) -> None:
    home, clients = home_of(world), clients_of(world)
    ownership = next(iter(memberships_in(world, home).values())).ownership
    now_ms = world.machines[home].node.context.now_ms
    SilentOwner().turned(world, home)
    for index in range(2):
        clients.instances.append(replace(clients.instances[0], name=f"caller{index}", timeout_ms=100))
        ownership.call(f"caller{index}", 100, now_ms)
    SilentOwner().turned(world, home)
    ownership.instances["caller0"].until_ms = now_ms + stays_ms
    assert "caller0" in ownership.owners
    complains(SilentOwner(), lambda: SilentOwner().turned(world, home), "caller0 stays")


def test_a_message_that_was_delivered_to_nobody(world: World) -> None:
    checker, told = NothingSkipped(), clients_of(world).told
    told.delivered = {key: set() for key in told.delivered}
    complains(checker, lambda: checker.look(world, 1), "delivered to nobody")


def test_a_message_behind_the_last_commit_that_was_delivered_to_nobody(world: World) -> None:
    checker, told = NothingSkipped(), clients_of(world).told
    for number in world.machines:
        state = state_of(world, number)
        for group in state.groups():
            state.write_commit(group, 0, 0, state.starts_of(group)[0])
    last = state_of(world, 1).partitions()[0].read(1, 1 << 20, 1 << 20)[-1]
    for values in told.delivered.values():
        values.discard(last.value)
    checker.look(world, 1)
    complains(checker, lambda: checker.at_end(world), "never got")


def test_a_start_that_was_written_again_further_back_promises_no_more(world: World) -> None:
    checker, state = NothingSkipped(), state_of(world, 1)
    group = state.groups()[0]
    epoch, name = state.epochs.current(), state.new_name()
    ends = [one.next_offset() for one in state.partitions()]
    state.write_start(group, Start(LATEST, 0, ends, epoch, 9, name))
    look_at_turn(world, 1, checker)
    state.write_start(group, Start(LATEST, 0, [0] * len(ends), epoch, 9, name))
    state.write_commit(group, 0, ends[0], state.starts_of(group)[0])
    checker.look(world, 1)
    complains(NothingSkipped(), lambda: NothingSkipped().look(world, 1), "delivered to nobody")


def test_a_commit_that_goes_back(world: World) -> None:
    checker, home = CommitsRise(), home_of(world)
    state = state_of(world, home)
    group, membership = next(iter(memberships_in(world, home).items()))
    state.write_commit(group, 0, 1_000, membership.start)
    look_at_turn(world, home, checker)
    state.write_commit(group, 0, 999, membership.start)
    complains(checker, lambda: look_at_turn(world, home, checker), "committed")


def test_a_group_that_goes_though_its_home_coordinates_it(world: World) -> None:
    checker, home = GroupsStay(), home_of(world)
    look_at_turn(world, home, checker)
    group, membership = next(iter(memberships_in(world, home).items()))
    state_of(world, home).drop_group(group)
    complains(checker, lambda: look_at_turn(world, home, checker), f"{group}: dropped")
    # What its home drops, the home no longer coordinates.
    memberships_in(world, home).pop(group)
    look_at_turn(world, home, checker)
    assert membership.epoch == state_of(world, home).epochs.current()


def look_at_turn(world: World, number: int, checker: Checker) -> None:
    """End a turn, with this checker as the only one that looks."""
    world.machines[number].perform()
    checker.turned(world, number)


def test_a_reset_that_was_answered_and_did_nothing(world: World) -> None:
    clients_of(world).told.resets["g0"] = 1
    complains(CommitsRise(), lambda: CommitsRise().at_end(world), "1 resets of g0")


def test_regions_that_differ_in_a_commit(world: World) -> None:
    home = home_of(world)
    state = state_of(world, home)
    group, membership = next(iter(memberships_in(world, home).items()))
    state.write_commit(group, 0, 1_000, membership.start)
    complains(CommitsRise(), lambda: CommitsRise().at_end(world), "regions differ")


def test_an_answer_that_is_sent_before_its_turn_is_on_disk(world: World) -> None:
    checker, machine = SyncedFirst(), world.machines[1]
    machine.config = replace(machine.config, fsync="always")
    connection = world.connections_of(1)[0]
    called, answered = wire.Message(), wire.Message()
    called.calls.add(number=7)
    answered.answers.add(number=7)
    checker.received(world, connection, 1, called, b"")
    machine.sync()
    checker.turned(world, 1)
    checker.sent(world, connection, 1, answered, b"")
    checker.received(world, connection, 1, called, b"")
    machine.node.replica.add_entry((0, b"x"), (1 << 50, 0), [b"f", b"v"])
    machine.sync_policy = False
    machine.perform()
    checker.turned(world, 1)
    complains(checker, lambda: checker.sent(world, connection, 1, answered, b""), "answers a call")
