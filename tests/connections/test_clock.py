"""The clock: idle times are never negative, and count from where it was set back."""

from __future__ import annotations

from crdtstream.connections.clock import STEP_MS_MAX, Clock
from crdtstream.core.keyspace import Keyspace


def test_idle_times_after_the_clock_was_set_back() -> None:
    keyspace = Keyspace()
    clock = Clock(keyspace, 1_000)
    assert (keyspace.now_ms, clock.started_ms, clock.idle_ms(900)) == (1_000, 1_000, 100)
    keyspace.now_ms = clock.set_back_ms = 400
    assert clock.idle_ms(900) == 0, "it counts from now on"
    keyspace.now_ms = 450
    assert clock.idle_ms(900) == 50
    assert clock.idle_ms(300) == 150


def test_a_clock_that_is_set_adds_a_step_to_what_has_elapsed() -> None:
    keyspace = Keyspace()
    clock = Clock(keyspace, 10_000)
    clock.advance(10_100)
    assert clock.elapsed_ms == 100
    clock.advance(70_000)
    assert (keyspace.now_ms, clock.elapsed_ms) == (70_000, 100 + STEP_MS_MAX)
    clock.advance(500)
    assert (keyspace.now_ms, clock.elapsed_ms) == (500, 100 + STEP_MS_MAX)
    clock.advance(600)
    assert clock.elapsed_ms == 200 + STEP_MS_MAX
