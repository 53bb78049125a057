"""Hellos as values; how sessions refuse each other is in test_session.py."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.replica import Replica
from crdtstream.core.values.causality import ORIGIN_MAX, VersionVector, is_origin
from crdtstream.protocols.codec import OLDEST_SENT
from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication.links.greeting import (
    OLDEST_PROTOCOL,
    Versions,
    agreed,
    check_hello,
    formats_of,
    make_hello,
    protocols_of,
    refusal,
)
from crdtstream.replication.links.received import Heard
from crdtstream.replication.log.history import History
from crdtstream.replication.log.turn import Turn
from crdtstream.replication.origins.birth import Birth
from crdtstream.replication.values.wire_values import (
    ORIGINS_MAX,
    WireError,
    to_origins,
    to_regions,
    to_vector,
    vector_rows,
)
from crdtstream.settings.config import Config

NOTHING = VersionVector()


def born(region: int, seed: int = 0) -> tuple[Birth, Turn]:
    replica = Replica(0)
    birth, turn = Birth(config_of(region), replica), Turn(replica, History())
    birth.start(seed, turn)
    return birth, turn


def config_of(region: int) -> Config:
    return Config(name=f"r{region}", region=region, cluster="test")


def hello(region: int, seed: int = 0, vector: VersionVector = NOTHING) -> wire.Hello:
    return make_hello(config_of(region), born(region, seed)[0], vector, [])


seeds = st.integers(0, (1 << 64) - 1)


@given(st.integers(1, 2), seeds, st.integers(1, 2), seeds)
def test_only_itself_is_refused(region: int, seed: int, other: int, other_seed: int) -> None:
    """Neither a region number that is used twice, nor a directory that is older than what its peers hold."""
    own, peer = hello(region, seed), hello(other, other_seed, VersionVector({region: 9}))
    check_hello(peer)
    assert (refusal(own, peer) is None) == (own.origin != peer.origin)


@pytest.mark.parametrize(
    ("field", "value", "what"),
    [
        ("protocol_version", 9, "speaks protocol version"),
        ("format_version", 9, "writes batches in format"),
        ("cluster", "other", "belongs to cluster 'test', region r2 (2) to cluster 'other'"),
        ("shard", 9, "serves shard 0"),
        ("id_mode", "liberal", "has ID mode strict"),
    ],
)
def test_what_must_agree_is_named(field: str, value: object, what: str) -> None:
    own, peer = hello(1), hello(2)
    setattr(peer, field, value)
    assert what in str(refusal(own, peer)) and "r2 (2)" in str(refusal(own, peer))


@pytest.mark.parametrize(
    ("own", "peer", "highest"),
    [
        ((2, 3), (2, 3), 3),
        ((2, 3), (2, 2), 2),
        ((2, 3), (3, 4), 3),
        ((2, 3), (4, 5), 0),
        ((3, 4), (2, 2), 0),
        ((4, 4), (3, 5), 4),
    ],
)
def test_two_regions_use_the_highest_version_that_both_speak(
    own: tuple[int, int], peer: tuple[int, int], highest: int
) -> None:
    assert agreed(own, peer) == agreed(peer, own) == highest
    one, other = speaking(1, Versions(protocol=own)), speaking(2, Versions(protocol=peer))
    assert (refusal(one, other) is None) == (highest > 0)
    one, other = speaking(1, Versions(format=own)), speaking(2, Versions(format=peer))
    assert (refusal(one, other) is None) == (highest > 0)


def speaking(region: int, versions: Versions) -> wire.Hello:
    return make_hello(config_of(region), born(region)[0], NOTHING, [], versions)


def test_the_release_before_names_one_version_and_compares_it() -> None:
    """It refuses any other number in this field, so this release names the lowest that it speaks there."""
    said = hello(1)
    assert (said.protocol_version, said.format_version) == (OLDEST_PROTOCOL, OLDEST_SENT) == (2, 3)
    before = hello(2)
    before.ClearField("protocol_version_max")
    before.ClearField("format_version_max")
    assert protocols_of(before) == (2, 2) and formats_of(before) == (3, 3)
    assert refusal(said, before) is None


def test_births_name_counts_and_founders() -> None:
    birth, turn = born(1)
    birth.receive(259, 7, turn)
    birth.receive(2, (1 << 40) + 3, turn)
    for origin in (1, 4):
        birth.found(origin, turn)
    said = make_hello(config_of(1), birth, NOTHING, [])
    rows = [(row.slot, row.count, row.founder) for row in said.births]
    assert rows == [(1, 0, True), (2, 3, False), (4, 0, True), (259, 7, False)]
    check_hello(said)


def test_a_directory_names_its_predecessors_and_what_its_operator_says() -> None:
    birth, turn = born(1)
    birth.become_new(turn)
    said = make_hello(replace(config_of(1), replace=True), birth, NOTHING, [2])
    assert (list(said.predecessors), said.replaces, list(said.direct_slots)) == ([1], True, [2])
    assert said.origin == birth.origin
    check_hello(said)


@given(st.dictionaries(st.integers(1, ORIGIN_MAX).filter(is_origin), st.integers(1, (1 << 64) - 1), max_size=5))
def test_vectors_travel_whole(counters: dict[int, int]) -> None:
    """Origins are up to 61 bits wide, counters 64."""
    said = hello(1, 0, VersionVector(counters))
    read = wire.Hello.FromString(said.SerializeToString())
    assert to_vector(read.vector).as_dict() == counters
    assert to_vector(vector_rows(VersionVector(counters))).as_dict() == counters


@pytest.mark.parametrize("origin", [0, 256, 1 << 16, ORIGIN_MAX + 2])
def test_there_are_no_such_origins(origin: int) -> None:
    with pytest.raises(WireError, match=f"{origin} is not a valid origin"):
        to_vector([wire.VectorRow(slot=origin, counter=1)])
    with pytest.raises(WireError, match=f"{origin} is not a valid origin"):
        to_origins([1, origin])


def test_origins_are_told_once_ascending_and_not_without_end() -> None:
    assert to_origins([258, 1, 1, 2]) == [1, 2, 258]
    origins = [1 + 256 * number for number in range(ORIGINS_MAX + 1)]
    assert len(to_origins(origins[1:])) == ORIGINS_MAX
    with pytest.raises(WireError, match=f"{ORIGINS_MAX + 1} origins"):
        to_origins(origins)


@pytest.mark.parametrize("region", [0, 256])
def test_there_are_no_such_regions(region: int) -> None:
    assert to_regions([3, 1, 3]) == [1, 3]
    with pytest.raises(WireError, match=f"{region} is not a valid region"):
        to_regions([1, region])


@pytest.mark.parametrize("field", ["name", "cluster", "id_mode"])
def test_names_that_would_fill_a_log_are_refused(field: str) -> None:
    greeting = hello(1)
    setattr(greeting, field, "x" * 128)
    check_hello(greeting)
    setattr(greeting, field, "x" * 129)
    with pytest.raises(WireError, match="a name has 129 characters"):
        check_hello(greeting)


def test_an_origin_or_a_predecessor_of_another_region_is_refused() -> None:
    greeting = hello(1)
    greeting.origin = (1 << 60) + 2
    with pytest.raises(WireError, match="region 1 greets with an origin of region 2"):
        check_hello(greeting)
    greeting = hello(1)
    greeting.predecessors.extend([257, 258])
    with pytest.raises(WireError, match="region 1 greets with an origin of region 2"):
        check_hello(greeting)


@pytest.mark.parametrize(("field", "least"), [("message_bytes_max", 4 << 10), ("batch_bytes_max", 4 << 10)])
def test_bounds_in_which_nothing_fits_are_refused(field: str, least: int) -> None:
    greeting = hello(1)
    for value in (0, least, (1 << 64) - 1):
        setattr(greeting.bounds, field, value)
        check_hello(greeting)
    for value in (1, least - 1):
        setattr(greeting.bounds, field, value)
        with pytest.raises(WireError, match=f"{field} = {value} is told, less than the minimum {least}"):
            check_hello(greeting)


def test_a_birth_that_tells_of_too_small_batches_is_refused() -> None:
    row = wire.BirthRow(slot=258, count=1, batch_bytes_max=1)
    greeting = hello(1)
    greeting.births.append(row)
    with pytest.raises(WireError, match="batch_bytes_max = 1 is told, less than the minimum 4096"):
        check_hello(greeting)
    with pytest.raises(WireError, match="batch_bytes_max = 1 is told, less than the minimum 4096"):
        Heard().receive_met(wire.Met(births=[row]))
