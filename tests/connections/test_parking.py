"""Parking against a list of waiters, and a clock that is set."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crdtstream.connections.acl.users import open_user
from crdtstream.connections.client import Client
from crdtstream.connections.context import Context, Waiter
from crdtstream.connections.parking import Parking

KEYS = [(0, b"x"), (0, b"y"), (1, b"x")]


class Idle(Waiter):
    """Waits for ever."""

    def serve(self, context: Context) -> bytes | None:
        return None

    def expired(self, context: Context) -> bytes:
        return b""


def waiter(client_id: int, keys: list[tuple[int, bytes]], deadline_ms: int) -> Idle:
    return Idle(Client(client_id, "", 0, open_user()), keys, deadline_ms)


nothing: st.SearchStrategy[set[tuple[int, bytes]]] = st.just(set())
parks = st.tuples(st.just("park"), st.integers(1, 6), st.sets(st.sampled_from(KEYS)), st.integers(0, 5))
leaves = st.tuples(st.just("leave"), st.integers(1, 6), nothing, st.just(0))
shifts = st.tuples(st.just("shift"), st.just(0), nothing, st.integers(-3, 3))


@given(st.lists(parks | leaves | shifts, max_size=30))
def test_parking_is_a_list_of_waiters(steps: list[tuple[str, int, set[tuple[int, bytes]], int]]) -> None:
    parking = Parking[Idle]()
    model: list[Idle] = []
    for step, client_id, keys, number in steps:
        held = next((one for one in model if one.client.id == client_id), None)
        if step == "park" and held is None:
            model.append(waiter(client_id, sorted(keys), number))
            parking.park(model[-1])
        elif step == "leave":
            assert parking.leave(client_id) is held
            model = [one for one in model if one is not held]
        elif step == "shift":
            parking.shift(number)
        parking.check()
        deadlines = [one.deadline_ms for one in model if one.deadline_ms]
        assert parking.next_deadline_ms() == min(deadlines, default=None)
        assert parking.keyless() == [one for one in model if not one.keys]
        assert len(parking) == len(model)
        for key in KEYS:
            assert parking.waiting_for([key]) == [one for one in model if key in one.keys]
        for now_ms in range(8):
            assert parking.overdue(now_ms) == [one for one in model if 0 < one.deadline_ms <= now_ms]


def test_a_client_that_waits_again_has_its_new_deadline() -> None:
    parking = Parking[Idle]()
    client = Client(1, "", 0, open_user())
    parking.park(Idle(client, [], 5))
    parking.leave(1)
    parking.park(Idle(client, [], 9))
    assert parking.next_deadline_ms() == 9


def test_a_clock_set_far_back_leaves_a_deadline() -> None:
    parking = Parking[Idle]()
    parking.park(waiter(1, [], 1000))
    parking.park(waiter(2, [], 0))
    parking.shift(-5000)
    assert [one.client.id for one in parking.overdue(1)] == [1]
