"""Beats: at once after a rest, and an interval apart under load."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from crdtstream.runtime.links.pull_schedule import Beat, PullInterval

INTERVAL_S = 0.02


async def test_the_first_is_at_once_and_the_next_an_interval_later() -> None:
    running = asyncio.get_running_loop()
    struck_s: list[float] = []
    beat = Beat(INTERVAL_S, lambda: struck_s.append(running.time()))
    beat.ask()
    assert len(struck_s) == 1
    for _ in range(5):
        beat.ask()
    assert len(struck_s) == 1, "an interval has not passed"
    while len(struck_s) < 2:
        await asyncio.sleep(INTERVAL_S / 4)
    assert struck_s[1] - struck_s[0] >= INTERVAL_S * 0.9


async def test_nothing_is_pulled_that_nobody_asked_for() -> None:
    struck: list[None] = []
    beat = Beat(0.0, lambda: struck.append(None))
    await asyncio.sleep(0.01)
    assert not struck
    beat.ask()
    beat.ask()
    assert len(struck) == 2


async def test_no_beat_follows_a_stop() -> None:
    struck: list[None] = []
    beat = Beat(INTERVAL_S, lambda: struck.append(None))
    beat.ask()
    beat.ask()
    beat.stop()
    await asyncio.sleep(2 * INTERVAL_S)
    assert len(struck) == 1


async def test_a_busy_thread_pauses_longer_and_one_that_rests_does_not() -> None:
    now_s = worked_s = 0.0
    beat = Beat(0.0, lambda: None, lambda: now_s, lambda: worked_s)
    stretches: list[int] = []
    for share in (0.5, 1.0, 0.95, 0.92, 1.0, 0.5, 0.8, 0.1, 0.92):
        now_s += 1.0
        worked_s += share
        beat.ask()
        stretches.append(beat.stretch)
    assert stretches == [1, 2, 4, 4, 4, 2, 1, 1, 2]


def spin(wanted: PullInterval) -> float:
    """How much time passed for a thread that never rested."""
    began_s = wanted()
    end_s = time.thread_time() + 0.01
    while time.thread_time() < end_s:
        pass
    return wanted() - began_s


def test_a_thread_that_waits_for_a_processor_does_not_rest(tmp_path: Path) -> None:
    scheduled = tmp_path / "schedstat"
    scheduled.write_text("0 0 1\n")
    wanted = PullInterval(str(scheduled))
    assert 0.01 <= spin(wanted) < 1.0
    scheduled.write_text("0 5000000000 2\n")
    assert wanted() >= 5.0
    wanted.close()


@pytest.mark.parametrize("text", [None, "", "0 x 1", "7"])
def test_without_word_from_the_system_only_running_counts(tmp_path: Path, text: str | None) -> None:
    scheduled = tmp_path / "schedstat"
    if text is not None:
        scheduled.write_text(text)
    wanted = PullInterval(str(scheduled))
    assert 0.01 <= spin(wanted) < 1.0
    wanted.close()
    wanted.close()
    assert wanted() > 0.0


def test_time_goes_on_for_a_thread() -> None:
    wanted = PullInterval()
    before_s = wanted()
    assert wanted() >= before_s
    assert spin(wanted) >= 0.01
    wanted.close()
