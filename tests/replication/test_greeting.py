"""Hellos as values; how sessions refuse each other is in test_session.py."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.config import Config
from crdtstream.core.causality import Origin, VersionVector
from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication.greeting import (
    WireError,
    check_hello,
    make_hello,
    refusal,
    to_origins,
    to_vector,
    vector_rows,
)

BIG = (1 << 53) + 1


def hello(region: int, origin: Origin | None, origins: list[Origin], vector: VersionVector) -> wire.Hello:
    config = Config(name=f"r{region}", region=region, cluster="test")
    return make_hello(config, origin, origins, vector, [])


@st.composite
def hellos(draw: st.DrawFn) -> wire.Hello:
    region = draw(st.integers(1, 2))
    births = draw(st.lists(st.builds(Origin, st.integers(1, 2), st.integers(0, 1), st.integers(0, 1)), max_size=3))
    origin = draw(st.none() | st.builds(Origin, st.just(region), st.integers(0, 1), st.integers(0, 1)))
    known = {born.slot: born for born in [*births, *([origin] if origin else [])]}
    vector = VersionVector({slot: draw(st.integers(0, 2)) for slot in sorted(known)})
    return hello(region, origin, [known[slot] for slot in sorted(known)], vector)


@given(hellos(), hellos())
def test_who_goes_on_may_use_its_counters(own: wire.Hello, peer: wire.Hello) -> None:
    """A node that is let through is of another region, and nobody holds more of its origin or a later one."""
    if refusal(own, peer) is None:
        assert own.region != peer.region
        if own.HasField("origin"):
            slot = own.origin.region + 256 * own.origin.incarnation
            assert to_vector(peer.origins).get(slot) <= to_vector(own.origins).get(slot)
            assert all(row.slot <= slot for row in peer.origins if row.slot % 256 == own.region)


@given(hellos(), hellos())
def test_who_is_merely_behind_is_let_through(own: wire.Hello, peer: wire.Hello) -> None:
    """The peer's Hello may have been long under way: what it lacks of its own origin may be here already."""
    if refusal(own, peer) is None:
        for row in peer.origins:
            row.counter = 0
        assert refusal(own, peer) is None


def test_births_without_effects_are_named_and_counters_are_64_bit() -> None:
    origins = [Origin(1, 0, 1 << 63), Origin(3, 255, 5)]
    made = hello(1, origins[0], origins, VersionVector({1: BIG}))
    read = wire.Hello.FromString(made.SerializeToString())
    check_hello(read)
    assert to_origins(read.origins) == origins
    assert to_vector(read.origins).as_dict() == {1: BIG}
    assert to_vector(vector_rows(VersionVector({7: BIG * 3}))).as_dict() == {7: BIG * 3}


@pytest.mark.parametrize("slot", [0, 256, 1 << 16])
def test_there_are_no_such_slots(slot: int) -> None:
    with pytest.raises(WireError, match=f"no slot {slot}"):
        to_vector([wire.VectorRow(slot=slot, counter=1)])


@pytest.mark.parametrize("field", ["name", "cluster", "id_mode"])
def test_names_that_would_fill_a_log_are_refused(field: str) -> None:
    greeting = hello(1, None, [], VersionVector())
    setattr(greeting, field, "x" * 128)
    check_hello(greeting)
    setattr(greeting, field, "x" * 129)
    with pytest.raises(WireError, match="a name of 129 characters"):
        check_hello(greeting)
