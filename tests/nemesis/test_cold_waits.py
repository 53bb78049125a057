"""A short run on a real process; `python -m nemesis.cold_waits` is the long one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from nemesis.cold_waits import RANGE, are_sound, line_of, measured


def test_only_readers_of_cold_blocks_wait_for_a_disk_that_stalls(tmp_path: Path) -> None:
    lines, waited = measured(tmp_path, 20_000, 2.0, 20.0, 3.0)
    assert waited == 0 and are_sound(lines, 3.0), lines
    delayed = {line.request: line for line in lines if line.phase == "20 ms"}
    assert delayed[RANGE].p50_ms >= 20.0 and delayed["PING"].p50_ms < 20.0


def test_a_client_that_waits_for_the_disk_or_a_disk_that_does_not_stall_is_told() -> None:
    stalled = [line_of("stalled for 3 s", "PING", [1.0, 2.0]), line_of("stalled for 3 s", RANGE, [5.0, 2_990.0])]
    assert are_sound(stalled, 3.0)
    assert not are_sound([replace(stalled[0], longest_ms=2_000.0), stalled[1]], 3.0)
    assert not are_sound([stalled[0], replace(stalled[1], longest_ms=100.0)], 3.0)


def test_shares_are_those_of_all_replies() -> None:
    line = line_of("as it is", "PING", [float(ms) for ms in range(1_000)])
    assert (line.count, line.p50_ms, line.p99_ms, line.p999_ms, line.longest_ms) == (1_000, 500, 990, 999, 999)
