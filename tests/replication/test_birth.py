"""Which origin a region is after each way in which its last life may have ended."""

from __future__ import annotations

import dataclasses
from itertools import product

import pytest

from crdtstream.config import Config, ConfigError
from crdtstream.core.causality import INCARNATION_MAX, Origin
from crdtstream.core.replica import Replica
from crdtstream.protocols import codec
from crdtstream.replication.birth import Birth
from crdtstream.replication.history import History
from crdtstream.replication.turn import Record, Turn

ALONE = Config(name="east", region=1, cluster="c")
PEERS = ("west:1", "north:1")
WITH_PEERS = dataclasses.replace(ALONE, peers=PEERS)


class Life:
    """One run of a region over the records of the lives before it."""

    def __init__(
        self, config: Config, records: list[Record], boot_id: bytes = b"boot", nonce: int = 7, served: bool = True
    ) -> None:
        self.records = list(records)
        self.turn = Turn(Replica(0), History())
        self.turn.last_position = len(records)
        self.birth = Birth(config)
        for kind, payload in records:
            self.birth.recover(kind, payload)
        self.birth.start(boot_id, nonce, self.turn, served)

    def sync(self) -> None:
        self.records += self.turn.take()
        self.birth.synced(len(self.records))

    def stop(self) -> list[Record]:
        self.turn.add(codec.STOP, b"")
        self.sync()
        return self.records


def origin_of(life: Life) -> tuple[int, int, int]:
    assert life.birth.origin is not None
    return (life.birth.origin.region, life.birth.origin.incarnation, life.birth.origin.nonce)


def test_a_region_without_peers_is_born_at_once_and_serves_once_that_is_synced() -> None:
    life = Life(ALONE, [])
    assert origin_of(life) == (1, 0, 7)
    assert life.birth.synced_origin() is None
    assert not life.birth.serving()
    life.sync()
    assert life.birth.serving()
    assert life.birth.synced_origin() == Origin(1, 0, 7)
    assert [kind for kind, _ in life.records] == [codec.START, codec.BIRTH]


def test_before_its_start_a_region_reads_its_log() -> None:
    assert Birth(ALONE).waiting_for() == "the log is being read"


@pytest.mark.parametrize(
    ("policy", "clean", "same_boot"), list(product(["always", "everysec", "no"], [True, False], [True, False]))
)
def test_a_new_origin_only_where_something_may_be_lost(policy: str, clean: bool, same_boot: bool) -> None:
    config = dataclasses.replace(ALONE, fsync=policy)
    first = Life(config, [])
    first.sync()
    records = first.stop() if clean else first.records
    second = Life(config, records, b"boot" if same_boot else b"another", nonce=9)
    lost = not clean and not same_boot and policy != "always"
    assert origin_of(second) == ((1, 1, 9) if lost else (1, 0, 7))


def test_the_policy_of_the_life_before_counts_not_the_new_one() -> None:
    first = Life(dataclasses.replace(ALONE, fsync="everysec"), [])
    first.sync()
    second = Life(dataclasses.replace(ALONE, fsync="always"), first.records, b"another", nonce=9)
    assert origin_of(second) == (1, 1, 9)


def test_a_new_directory_asks_every_peer_and_takes_the_next_incarnation() -> None:
    life = Life(WITH_PEERS, [])
    birth = life.birth
    assert birth.origin is None
    assert "west:1, north:1" in birth.waiting_for() and "--incarnation" in birth.waiting_for()
    birth.met("west:1", 2)
    assert not birth.advance([2], life.turn)
    assert "west:1" not in birth.waiting_for() and "north:1" in birth.waiting_for()
    birth.accept(Origin(1, 4, 99), life.turn)
    birth.met("north:1", 3)
    assert birth.advance([2, 3], life.turn)
    assert origin_of(life) == (1, 5, 7)
    assert not birth.advance([2, 3], life.turn)
    life.sync()
    birth.confirmed(2, 1 + 256 * 5)
    birth.confirmed(3, 1)
    assert "north:1" in birth.waiting_for() and "west:1" not in birth.waiting_for()
    birth.confirmed(3, 1 + 256 * 5)
    assert "until another region admits" in birth.waiting_for() and not birth.may_sponsor()
    birth.joined = True
    assert birth.serving() and birth.may_sponsor()


def test_a_stranger_stands_in_for_no_peer() -> None:
    """Region 4 dials in; the peer that might know of a later incarnation has said nothing."""
    life = Life(WITH_PEERS, [])
    life.birth.met("west:1", 2)
    assert not life.birth.advance([2, 4], life.turn)
    life.birth.met("north:1", 3)
    assert life.birth.advance([2, 3, 4], life.turn)
    life.sync()
    life.birth.confirmed(2, 1)
    life.birth.confirmed(4, 1)
    assert not life.birth.serving()


def test_two_addresses_of_one_region_are_one_peer() -> None:
    life = Life(WITH_PEERS, [])
    life.birth.met("west:1", 2)
    life.birth.met("north:1", 2)
    assert life.birth.advance([2], life.turn)


def test_a_peer_that_left_again_has_not_greeted() -> None:
    life = Life(WITH_PEERS, [])
    life.birth.met("west:1", 2)
    life.birth.met("north:1", 3)
    assert not life.birth.advance([3], life.turn)
    assert "west:1" in life.birth.waiting_for()


def test_an_incarnation_that_is_given_stands_in_for_the_answers() -> None:
    life = Life(dataclasses.replace(WITH_PEERS, incarnation=3), [])
    assert origin_of(life) == (1, 3, 7)
    life.sync()
    assert life.birth.serving()


def test_it_means_nothing_to_a_directory_that_has_an_origin() -> None:
    first = Life(ALONE, [])
    second = Life(dataclasses.replace(ALONE, incarnation=3), first.stop())
    assert origin_of(second) == (1, 0, 7)


def test_the_directory_of_another_region_is_refused() -> None:
    records = Life(ALONE, []).stop()
    with pytest.raises(ConfigError, match="belongs to region 1, not to region 2"):
        Life(dataclasses.replace(ALONE, region=2), records)


def test_incarnations_end() -> None:
    records = Life(dataclasses.replace(ALONE, incarnation=INCARNATION_MAX), [])
    records.sync()
    with pytest.raises(ConfigError, match="has used all"):
        Life(ALONE, records.records, b"another")


def test_an_incarnation_that_this_region_never_had_uses_up_none() -> None:
    """Taken for true, the last one there is would end the region at its next unclean stop."""
    life = Life(ALONE, [])
    life.sync()
    assert "two data directories are used as one region" in str(life.birth.conflict(Origin(1, INCARNATION_MAX, 9)))
    assert life.birth.conflict(Origin(1, 0, 7)) is None
    assert life.birth.conflict(Origin(2, INCARNATION_MAX, 9)) is None


def test_other_origins_are_remembered_once_and_conflicts_named() -> None:
    life = Life(ALONE, [])
    position = life.birth.accept(Origin(2, 0, 5), life.turn)
    assert position == 3
    assert life.birth.accept(Origin(2, 0, 5), life.turn) == 0
    assert life.birth.conflict(Origin(2, 0, 5)) is None
    conflict = life.birth.conflict(Origin(2, 0, 6))
    assert conflict is not None and "region 2, incarnation 0" in conflict
    later = Life(ALONE, life.stop())
    assert later.birth.known[2] == Origin(2, 0, 5)


def confirmed(life: Life) -> Life:
    """Every configured peer has stored the birth, and no region has admitted the origin."""
    for number, peer in enumerate(PEERS, 2):
        life.birth.met(peer, number)
    life.birth.advance([2, 3], life.turn)
    life.sync()
    for region in (2, 3):
        life.birth.confirmed(region, life.birth.slot())
    return life


def tell_neighbours(life: Life) -> None:
    """The peers are each other's, and have been born."""
    life.birth.founding.tell(2, [1, 3])
    life.birth.founding.tell(3, [1, 2])


def test_the_first_of_a_new_cluster_admits_others_before_it_is_admitted() -> None:
    life = Life(WITH_PEERS, [])
    for number, peer in enumerate(PEERS, 2):
        life.birth.met(peer, number)
    life.birth.advance([2, 3], life.turn, untouched=True)
    assert not life.birth.founding.rows(), "its own birth is not on disk"
    life.sync()
    life.birth.confirmed(2, 1)
    tell_neighbours(life)
    life.birth.advance([2, 3], life.turn, untouched=True)
    assert not life.birth.may_sponsor(), "a peer has not stored its birth"
    life.birth.confirmed(3, 1)
    assert life.birth.may_sponsor() and not life.birth.serving()


def test_nobody_founds_who_has_not_met_all_that_may_found() -> None:
    life = confirmed(Life(WITH_PEERS, []))
    life.birth.founding.tell(2, [1])
    life.birth.founding.tell(3, [1, 4])
    life.birth.advance([2, 3], life.turn, untouched=True)
    assert not life.birth.may_sponsor() and "of regions 4 that is not known" in life.birth.waiting_for()
    life.birth.founding.tell(4, [3])
    life.birth.advance([2, 3], life.turn)
    assert not life.birth.may_sponsor(), "somebody has done something"
    life.birth.advance([2, 3], life.turn, untouched=True)
    assert life.birth.may_sponsor()


def test_an_origin_that_was_never_admitted_asks_again_after_a_restart() -> None:
    records = confirmed(Life(WITH_PEERS, [])).stop()
    again = Life(WITH_PEERS, records, served=False)
    again.sync()
    assert "has stored the birth" in again.birth.waiting_for()
    confirmed(again)
    assert "until another region admits" in again.birth.waiting_for()
    served = Life(WITH_PEERS, records, served=True)
    served.sync()
    assert served.birth.serving()


def test_a_cluster_that_ended_before_anybody_was_admitted_is_founded_after_all() -> None:
    records = confirmed(Life(WITH_PEERS, [])).stop()
    again = Life(WITH_PEERS, records, served=False)
    again.sync()
    again.birth.met(PEERS[0], 2)
    tell_neighbours(again)
    again.birth.advance([2], again.turn, untouched=True)
    again.birth.confirmed(2, again.birth.slot())
    again.birth.confirmed(3, again.birth.slot())
    assert not again.birth.may_sponsor(), "region 3 may know of somebody who has done something"
    again.birth.met(PEERS[1], 3)
    assert not again.birth.advance([2, 3], again.turn, untouched=True), "it is the origin that it was"
    assert again.birth.may_sponsor()


def test_who_lost_what_it_had_sent_goes_on_without_asking() -> None:
    life = Life(WITH_PEERS, confirmed(Life(WITH_PEERS, [])).records, boot_id=b"another")
    assert origin_of(life)[1] == 1
    life.sync()
    assert life.birth.serving() and life.birth.may_sponsor()
    assert life.birth.own_slots() == [1, 257], "whoever asks whether it served asks for both"


def test_who_lost_what_it_had_sent_before_it_served_asks_again_and_again() -> None:
    records = confirmed(Life(WITH_PEERS, [])).records
    for incarnation, boot_id in enumerate((b"second", b"third"), 1):
        life = Life(WITH_PEERS, records, boot_id=boot_id, served=False)
        assert origin_of(life)[1] == incarnation
        life.sync()
        assert not life.birth.serving() and not life.birth.may_sponsor()
        records = life.records


def test_a_checkpoint_tells_every_origin_that_the_directory_had() -> None:
    life = Life(WITH_PEERS, confirmed(Life(WITH_PEERS, [])).records, boot_id=b"another")
    life.sync()
    life.birth.accept(Origin(2, 0, 5), life.turn)
    later = Life(WITH_PEERS, life.birth.records(), boot_id=b"another")
    assert (later.birth.own_slots(), sorted(later.birth.known)) == ([1, 257], [1, 2, 257])


def test_an_evicted_origin_is_followed_by_another_at_once() -> None:
    life = confirmed(Life(WITH_PEERS, []))
    life.birth.bear_anew(life.turn)
    assert origin_of(life) == (1, 1, 7) and not life.birth.serving()
    life.sync()
    assert life.birth.serving()
