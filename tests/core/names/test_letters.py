"""Dead letters: their names, their trailer, and what goes with them in one batch."""

from __future__ import annotations

import pytest

from crdtstream.core.effects import Acknowledged, Batch, EntriesAdded, EntriesRemoved, EntryNamed, Key, Position
from crdtstream.core.names.adding import add_named
from crdtstream.core.names.duplicates import remove_lost
from crdtstream.core.names.letters import (
    HOPS_MAX,
    TRAILER,
    Letter,
    PoisonEntry,
    hops_of,
    letter_names,
    origin_of,
    return_letter,
    write_letter,
)
from crdtstream.core.replica import Replica
from crdtstream.core.values.entry_id import ID_MIN
from tests.core.histories import copied

SOURCE: Key = (0, b"s")
LETTERS: Key = (0, b"d")


def made(groups: tuple[bytes, ...] = (b"g", b"h")) -> Replica:
    replica = Replica(1)
    for name in groups:
        replica.create_group(SOURCE, name, Position(ID_MIN), 0)
    replica.add_entry(SOURCE, (1, 1), [b"f", b"v"])
    replica.drain()
    return replica


def poison(group: bytes = b"g", deliveries: int = 3) -> PoisonEntry:
    return PoisonEntry(SOURCE, group, 1, (1, 1), deliveries, [b"f", b"v"])


def name_of(replica: Replica, group: bytes = b"g") -> bytes:
    ((_, name),) = letter_names(replica.keyspace.databases[0][b"s"], poison(group))
    return name


def test_the_name_is_of_the_group_its_create_and_its_reset() -> None:
    replica = made()
    first = name_of(replica)
    assert first == name_of(replica) != name_of(replica, b"h")
    replica.reset_group(SOURCE, b"g", Position(ID_MIN))
    second = name_of(replica)
    replica.destroy_group(SOURCE, b"g")
    replica.create_group(SOURCE, b"g", Position(ID_MIN), 0)
    assert len({first, second, name_of(replica)}) == 3


def test_a_named_entry_gives_its_name_too() -> None:
    """Two regions have it under two dots; a region that has forgotten the name has the dot alone."""
    names = []
    for entry_id in ((1, 1), (2, 1)):
        replica = made()
        replica.remove_entries(SOURCE, {1: [(3, 3)]}, False, (1, 1))
        add_named(replica, SOURCE, entry_id if entry_id > (1, 1) else (1, 2), [b"f", b"v"], (b"p", b"n"))
        held = (1, 2) if entry_id == (1, 1) else (2, 1)
        entry = PoisonEntry(SOURCE, b"g", 1, held, 1, [b"f", b"v"])
        names.append(letter_names(replica.keyspace.databases[0][b"s"], entry))
        register = replica.keyspace.databases[0][b"s"].producers
        assert register is not None and register.register is not None
        register.register.drop((b"p", b"n"))
        assert letter_names(replica.keyspace.databases[0][b"s"], entry) == names[-1][:1]
    assert len(names[0]) == len(names[1]) == 2 and names[0][1] == names[1][1]


def batch_of(replica: Replica) -> Batch:
    batch = replica.drain().batch
    assert batch is not None
    return batch


def test_a_region_that_has_forgotten_the_name_of_an_entry_makes_no_second_letter() -> None:
    one, two = Replica(1), Replica(2)
    one.create_group(SOURCE, b"g", Position(ID_MIN), 0)
    add_named(one, SOURCE, (1, 1), [b"f", b"v"], (b"p", b"n"))
    two.apply_batch(copied(batch_of(one)))
    producers = two.keyspace.databases[0][b"s"].producers
    assert producers is not None and producers.register is not None
    producers.register.drop((b"p", b"n"))
    two.keyspace.named.look(SOURCE, two.keyspace.databases[0][b"s"])
    assert write_letter(one, poison(), LETTERS, (2, 1)) and write_letter(two, poison(), LETTERS, (3, 2))
    first, second = batch_of(one), batch_of(two)
    two.apply_batch(copied(first))
    one.apply_batch(copied(second))
    for replica in (one, two):
        assert LETTERS in replica.keyspace.named.met
        remove_lost(replica, LETTERS)
        assert replica.keyspace.databases[0][b"d"].length == 1


def test_the_trailer_is_read_again() -> None:
    fields = poison().letter_fields()
    came = origin_of(fields)
    assert came is not None and (came.key, came.group, came.hops) == (b"s", b"g", 1)
    again = PoisonEntry(LETTERS, b"k", 2, (7, 7), 1, fields)
    assert hops_of(again.letter_fields()) == 2


@pytest.mark.parametrize("fields", [[b"f", b"v"], [b"f", b"v"] * 7, poison().letter_fields()[2:]])
def test_what_is_no_letter(fields: list[bytes]) -> None:
    assert origin_of(fields) is None and hops_of(fields) == 0


@pytest.mark.parametrize("hops", [b"", b"x", b"-1", b"1000000000000000000000"])
def test_a_number_of_hops_that_is_none(hops: bytes) -> None:
    assert origin_of([b"f", b"v", *[item for name in TRAILER for item in (name, hops)]]) is None
    assert HOPS_MAX < 100, "more digits are none"


def test_a_letter_and_its_acknowledgement_are_one_batch_however_full_the_one_before_is() -> None:
    replica = made()
    batches = []
    replica.budget.cutter = lambda: batches.append(replica.drain().batch)
    replica.budget.fit(8 << 10, 0, 0)
    replica.add_entry((0, b"x"), (1, 1), [b"f", b"v" * (replica.budget.cut_bytes - 200)])
    assert write_letter(replica, poison(), LETTERS, (2, 1))
    batches.append(replica.drain().batch)
    last = batches[-1]
    assert last is not None
    kinds = [type(effect) for effect in last.effects]
    assert kinds[-3:] == [EntriesAdded, EntryNamed, Acknowledged]
    group = replica.keyspace.databases[0][b"s"].groups[b"g"]
    assert group.acked[1].contains((1, 1)) and not replica.budget.whole
    replica.keyspace.databases[0][b"s"].check()


def test_a_letter_that_fits_into_no_batch_is_not_written() -> None:
    replica = made()
    replica.budget.fit(4 << 10, 0, 0)
    large = PoisonEntry(SOURCE, b"g", 1, (1, 1), 1, [b"f", b"v" * 5_000])
    assert not write_letter(replica, large, LETTERS, (2, 1))
    assert not replica.is_open


def test_a_letter_goes_back_in_one_batch_and_once() -> None:
    replica = made()
    write_letter(replica, poison(), LETTERS, (2, 1))
    counter = replica.keyspace.databases[0][b"d"].trees[1].counter_of((2, 1))
    replica.drain()
    letter = Letter(LETTERS, (1, counter), (2, 1), [b"f", b"v"])
    assert return_letter(replica, SOURCE, b"g", letter, (3, 1))
    batch = replica.drain().batch
    assert batch is not None
    assert [type(effect) for effect in batch.effects] == [EntriesAdded, EntryNamed, Acknowledged, EntriesRemoved]
    assert return_letter(replica, SOURCE, b"g", letter, (4, 1)), "it is gone, and its name is known"
    assert replica.keyspace.databases[0][b"s"].length == 2
    groups = replica.keyspace.databases[0][b"s"].groups
    assert groups[b"g"].wants(1, (3, 1)) and not groups[b"h"].wants(1, (3, 1))
