"""Loads whose requests are repeated: none is lost, and each reply is waited for."""

from __future__ import annotations

import pytest

from benchmarks.load.repeated import DEPTH, DISTINCT_STEPS, WRITERS, entries_in, entry_steps, parted, stream_steps


@pytest.mark.parametrize("count", [0, 5, DEPTH + 1, 2 * DISTINCT_STEPS * DEPTH + 7])
def test_a_load_adds_as_many_entries_as_it_should(count: int) -> None:
    steps = entry_steps("k", count, 1)
    assert sum(request.count(b"XADD") for request, _ in steps) == count
    assert sum(lines for _, lines in steps) == 2 * count


def test_each_stream_gets_one_entry() -> None:
    steps = stream_steps(["a", "b"], 1)
    assert [(request.count(b"XADD"), lines) for request, lines in steps] == [(2, 4)]


@pytest.mark.parametrize("total", [1, 10, 1_000_003])
def test_writers_share_a_load(total: int) -> None:
    shares = parted(total)
    assert sum(shares) == total and max(shares) - min(shares) <= 1


def test_streams_take_turns_and_idle_writers_are_left_out() -> None:
    load = entries_in(1, ["a", "b"], 3)
    assert [script[0][0].count(b"XADD") for script in load.scripts] == [1, 1, 1]
    assert [b"$1\r\nb\r\n" in script[0][0] for script in load.scripts] == [False, True, False]
    assert len(entries_in(1, ["a"], 10_000).scripts) == WRITERS
