"""Origins of a directory: their numbers, their lineage, and the counts that give the residues of strict IDs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.replica import Replica
from crdtstream.core.values.causality import VersionVector, is_origin, region_of
from crdtstream.core.values.entry_id import residue_of
from crdtstream.protocols import codec
from crdtstream.protocols.log_port import Payload, joined
from crdtstream.replication.log.history import History
from crdtstream.replication.log.turn import Turn
from crdtstream.replication.origins.birth import LINEAGE_MAX, Birth
from crdtstream.settings.config import Config, ConfigError

CONFIG = Config(name="east", region=1, cluster="c")
# What splitmix64 makes of 0 first.
MIXED = 0xE220A8397B1DCDAF


class Life:
    """One run of a region over the records of the lives before it."""

    def __init__(self, records: Sequence[tuple[int, Payload]], seed: int, config: Config = CONFIG) -> None:
        self.before = [(kind, joined(payload)) for kind, payload in records]
        self.replica = Replica(0)
        self.turn = Turn(self.replica, History())
        self.birth = Birth(config, self.replica)
        for kind, payload in self.before:
            self.birth.recover(kind, payload)
        self.birth.start(seed, self.turn)

    def records(self) -> list[tuple[int, bytes]]:
        self.before += [(kind, joined(payload)) for kind, payload in self.turn.end()]
        return self.before

    def evict(self, origin: int) -> None:
        dot = (2, self.replica.applied.members.changes + 1)
        self.replica.applied.members.apply_evicted(dot, origin, 0, 0, VersionVector())


def lives(count: int) -> Life:
    life = Life([], 0)
    for seed in range(1, count):
        life = Life(life.records(), seed)
    return life


# Numbers


def test_an_origin_is_the_region_and_what_the_seed_says() -> None:
    life = Life([], 5)
    assert life.birth.origin == life.replica.applied.origin == 1 + 256 * 5
    assert [(kind, codec.decode_start(payload)) for kind, payload in life.records()] == [(codec.START, (1281, 0))]


@given(st.integers(0, (1 << 64) - 1), st.integers(1, 255))
def test_whatever_the_seed_is_it_is_an_origin_of_the_region(seed: int, region: int) -> None:
    birth = Life([], seed, dataclasses.replace(CONFIG, region=region)).birth
    assert is_origin(birth.origin) and region_of(birth.origin) == region


def test_each_start_is_another_origin_with_the_next_residue() -> None:
    life = lives(4)
    assert (life.birth.origin, life.birth.count, life.replica.residue) == (769, 3, residue_of(1, 3))
    assert life.birth.lineage == life.birth.predecessors() == [1, 257, 513]


def test_an_origin_of_the_same_process_follows_from_the_seed() -> None:
    life = Life([], 0)
    life.birth.become_new(life.turn)
    assert life.birth.origin == life.replica.applied.origin == 1 + 256 * (MIXED % (1 << 53))
    assert (life.birth.lineage, life.birth.count) == ([1], 1)
    again = Life(life.records(), 7)
    assert again.birth.lineage == [1, life.birth.origin]


def test_what_was_prepared_belongs_to_the_origin_that_ends() -> None:
    life = Life([], 0)
    life.replica.join_member(2)
    life.birth.become_new(life.turn)
    kinds = [kind for kind, _ in life.records()]
    assert kinds == [codec.START, codec.BATCH, codec.START]
    assert life.replica.applied.vector.as_dict() == {1: 1}


def test_the_directory_of_another_region_is_refused() -> None:
    with pytest.raises(ConfigError, match="belongs to region 1, not to region 2: give --region 1 or another --data"):
        Life(lives(2).records(), 9, dataclasses.replace(CONFIG, region=2))


# Lineage


def test_predecessors_are_those_that_have_not_ended() -> None:
    life = lives(4)
    life.evict(257)
    assert life.birth.predecessors() == [1, 513]
    assert life.birth.lineage == [257, 1, 513], "it tells still that this directory was in the cluster"


def test_a_lineage_is_bounded_and_forgets_the_oldest_and_what_ended() -> None:
    life = lives(LINEAGE_MAX + 3)
    first = life.birth.lineage[0]
    assert first == 1 and len(life.birth.lineage) == LINEAGE_MAX + 2
    life.evict(1 + 256 * 200)
    assert len(life.birth.predecessors()) == LINEAGE_MAX
    assert life.birth.lineage[0] == 1 + 256 and 1 + 256 * 200 not in life.birth.lineage
    assert not life.birth.was_in_cluster()


def test_a_lineage_keeps_the_newest_origin_that_was_in_a_cluster() -> None:
    life = lives(LINEAGE_MAX + 3)
    for origin in (1, 1 + 256):
        life.replica.applied.members.apply_admitted((origin, 2), (origin, 1), True, VersionVector())
    assert len(life.birth.predecessors()) == LINEAGE_MAX
    assert life.birth.lineage[:2] == [1 + 256, 1 + 256 * 3]
    assert life.birth.was_in_cluster()


def test_a_checkpoint_tells_what_the_log_told() -> None:
    life = lives(3)
    life.birth.found(2, life.turn)
    life.birth.receive(2, 4, life.turn, batch_bytes_max=1 << 17)
    later = Life(life.birth.records(), 9)
    assert (later.birth.counts[2], later.birth.bounds.of(2)) == (4, 1 << 17)
    assert later.birth.lineage == [1, 257, 513]
    assert (later.birth.count, later.birth.founders_left()) == (3, [2])


# Counts and residues


def test_the_next_origin_counts_those_that_peers_know() -> None:
    life = Life([], 0)
    life.birth.receive(257, 6, life.turn)
    assert (life.birth.count, life.replica.residue) == (0, 1), "another residue than the own one"
    life.birth.become_new(life.turn)
    assert life.birth.count == 7


def test_an_origin_with_the_residue_of_another_one_takes_the_next() -> None:
    """A copy of the directory, or one that was lost, began with the same count."""
    life = lives(2)
    life.birth.receive(2561, 1, life.turn)
    assert (life.birth.count, life.replica.residue) == (2, residue_of(1, 2))
    life.birth.receive(2817, 2 + 256, life.turn)
    assert (life.birth.count, life.replica.residue) == (259, residue_of(1, 3)), "residues come round after 256"
    assert life.birth.origin == 257, "the origin stays"
    later = Life(life.records(), 2)
    assert (later.birth.count, later.birth.lineage) == (260, [1, 257])


def test_two_with_one_residue_part_once_one_has_heard_of_the_other() -> None:
    one, other = Life([], 0), Life([], 1)
    assert one.replica.residue == other.replica.residue
    one.birth.receive(other.birth.origin, other.birth.count, one.turn)
    other.birth.receive(one.birth.origin, one.birth.count, other.turn)
    assert (one.birth.count, other.birth.count) == (1, 0)


def test_counts_of_other_regions_and_of_itself_say_nothing_of_the_own_residue() -> None:
    life = Life([], 0)
    life.birth.receive(2, 0, life.turn)
    life.birth.receive(1, 44, life.turn)
    assert (life.birth.count, life.birth.counts) == (0, {1: 0, 2: 0})


def test_of_ended_origins_the_highest_count_is_kept() -> None:
    life = Life([], 0)
    for origin, count in ((258, 1), (514, 2), (770, 3)):
        life.birth.receive(origin, count, life.turn)
    for origin in (258, 770):
        life.evict(origin)
    life.birth.receive(2, 0, life.turn)
    assert life.birth.counts == {1: 0, 2: 0, 258: 1, 514: 2, 770: 3}, "the highest is one that ended"
    life.birth.receive(1026, 4, life.turn)
    assert life.birth.counts == {1: 0, 2: 0, 514: 2, 1026: 4}


def test_only_what_is_news_is_passed_on() -> None:
    life = Life([], 0)
    before = life.birth.changes
    life.birth.receive(2, 5, life.turn)
    life.birth.receive(2, 5, life.turn)
    assert life.birth.changes == before + 1


# Founders


def test_a_founder_is_remembered_once_and_until_it_has_ended() -> None:
    life = Life([], 0)
    for _ in range(2):
        life.birth.found(2, life.turn)
    assert [kind for kind, _ in life.records()] == [codec.START, codec.FOUNDER]
    assert life.birth.founders_left() == [2]
    life.evict(2)
    assert life.birth.founders_left() == []


def test_a_checkpoint_tells_of_no_founder_that_has_ended() -> None:
    """Its end may be forgotten by then, and it would count again."""
    life = Life([], 0)
    for origin in (2, 3):
        life.birth.found(origin, life.turn)
    life.evict(2)
    assert list(Life(life.birth.records(), 1).birth.founders) == [3]


def test_a_process_that_was_cloned_draws_other_numbers_once_both_have_another_seed() -> None:
    one, two = Life([], 5), Life([], 5)
    for life, seed in ((one, 7), (two, 8)):
        life.birth.reseed(seed)
        life.birth.become_new(life.turn)
    assert [life.birth.origin for life in (one, two)] == [1 + 256 * 7, 1 + 256 * 8]
