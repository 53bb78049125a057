"""What is said of peers that are not linked."""

from __future__ import annotations

from crdtstream.replication.membership.contacts import LINKED, NOT_TRIED, Contacts


def test_an_address_that_never_answered_is_shown_from_the_start_on() -> None:
    contacts = Contacts(["west:1", "north:1"], 1_000)
    contacts.record_failure("north:1", "connection refused")
    told = [(one.address, one.region, one.since_ms, one.reason) for one in contacts.unmet([])]
    assert told == [("north:1", 0, 1_000, "connection refused"), ("west:1", 0, 1_000, NOT_TRIED)]


def test_a_region_is_known_by_its_address() -> None:
    contacts = Contacts(["west:1"], 1_000)
    contacts.record_answer("west:1", 2)
    contacts.record_failure("west:1", "the peer refused: no")
    found = contacts.of(2)
    assert found is not None and (found.address, found.reason) == ("west:1", "the peer refused: no")
    assert contacts.unmet([2]) == []
    assert [one.region for one in contacts.unmet([3])] == [2]


def test_an_address_that_is_not_configured_does_not_count() -> None:
    contacts = Contacts(["west:1"], 1_000)
    contacts.record_answer("other:1", 3)
    assert contacts.of(3) is None and [one.address for one in contacts.unmet([])] == ["west:1"]


def test_what_regions_announce_is_dialled_unless_they_are_reached_otherwise() -> None:
    contacts = Contacts(["west:1"], 1_000)
    contacts.record_answer("west:1", 2)
    contacts.discover({"west.example:1": 2, "north:1": 3, "east:1": 4}, [2, 4], 2_000)
    assert contacts.dialled() == ["west:1", "north:1"], "region 2 answers at its peer's address, region 4 dialled in"
    contacts.record_failure("north:1", "connection refused")
    found = contacts.of(3)
    assert found is not None and (found.address, found.since_ms, found.reason) == (
        "north:1",
        2_000,
        "connection refused",
    )
    contacts.discover({"north:1": 3, "east:1": 4}, [2, 3, 4], 3_000)
    assert contacts.dialled() == ["west:1", "north:1"], "the link to region 3 is the one that was dialled there"
    contacts.record_end(4, "the peer ended the stream", 4_000)
    contacts.observe([2, 3], 4_000)
    contacts.discover({"north:1": 3, "east:1": 4}, [2, 3], 5_000)
    found = contacts.of(4)
    assert found is not None and (found.address, found.reason) == ("east:1", "the peer ended the stream")
    contacts.discover({"north:2": 3}, [2, 3], 6_000)
    assert contacts.dialled() == ["west:1"], "linked at an address that holds no longer: that link says so when it ends"
    assert contacts.unmet([]) == [contacts.of(2)], "only configured addresses are missed"


def test_a_peer_that_was_removed_is_not_discovered() -> None:
    contacts = Contacts(["west:1"], 1_000)
    contacts.record_answer("west:1", 2)
    assert contacts.configure([], 2_000) == [2]
    contacts.discover({"west.example:1": 2}, [], 2_000)
    assert contacts.dialled() == []
    contacts.configure(["west:1"], 3_000)
    contacts.record_answer("west:1", 2)
    contacts.configure(["west:2"], 4_000)
    contacts.discover({"west.example:1": 2}, [], 4_000)
    assert contacts.dialled() == ["west:2"]


def test_time_begins_when_the_link_is_lost_not_at_each_try() -> None:
    contacts = Contacts(["west:1"], 1_000)
    contacts.record_answer("west:1", 2)
    contacts.observe([2], 2_000)
    found = contacts.of(2)
    assert found is not None and found.since_ms == LINKED
    contacts.record_end(2, "nothing heard", 3_000)
    contacts.observe([], 3_000)
    contacts.record_failure("west:1", "connection refused")
    contacts.observe([], 4_000)
    assert (found.since_ms, found.reason) == (3_000, "connection refused")


def test_a_region_that_dials_in_needs_no_address() -> None:
    contacts = Contacts([], 1_000)
    assert contacts.of(2) is None
    contacts.record_end(2, "the peer ended the stream", 5_000)
    contacts.observe([], 5_000)
    found = contacts.of(2)
    assert found is not None
    assert (found.address, found.since_ms, found.reason) == ("", 5_000, "the peer ended the stream")


def test_addresses_come_and_go() -> None:
    contacts = Contacts(["west:1", "north:1"], 1_000)
    contacts.record_answer("west:1", 2)
    assert contacts.configure(["south:1", "north:1"], 2_000) == [2]
    assert [(one.address, one.since_ms) for one in contacts.unmet([])] == [("north:1", 1_000), ("south:1", 2_000)]
    contacts.record_failure("west:1", "a dial that had begun before")
    assert contacts.of(2) is None
    assert contacts.configure(["south:1"], 3_000) == [], "no region had answered there"


def test_a_shard_is_shown_where_it_is_dialled() -> None:
    contacts = Contacts(["west:1"], 1_000)
    assert [one.reached for one in contacts.unmet([])] == ["west:1"]
    contacts.record_dial("west:1", "west:2")
    contacts.record_dial("north:1", "north:2")
    contacts.record_answer("west:1", 2)
    found = contacts.of(2)
    assert found is not None and (found.address, found.reached) == ("west:1", "west:2")
    assert contacts.dialled() == ["west:1"], "the way there is asked for at the configured address"
