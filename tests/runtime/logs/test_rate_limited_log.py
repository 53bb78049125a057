"""What repeats is logged at once, and then once a minute with how often."""

from __future__ import annotations

from crdtstream.runtime.logs.rate_limited_log import INTERVAL_S, TEXTS_MAX, Repeats


def test_the_first_is_told_at_once_and_others_once_a_minute() -> None:
    repeats = Repeats()
    asked = [repeats.ask("link-refused", "a", at) for at in (0.0, 0.1, INTERVAL_S - 1, INTERVAL_S, INTERVAL_S + 1)]
    assert asked == [0, None, None, 3, None]
    assert repeats.ask("link-refused", "a", 2 * INTERVAL_S) == 2


def test_other_texts_and_other_events_are_told_apart() -> None:
    repeats = Repeats()
    assert [repeats.ask(event, text, 0.0) for event in "xy" for text in "ab"] == [0, 0, 0, 0]
    assert repeats.ask("x", "a", 1.0) is None


def test_a_stranger_with_many_names_fills_no_log() -> None:
    repeats = Repeats()
    told = [repeats.ask("x", f"region {number}", number / 100) for number in range(5_000)]
    assert sum(one is not None for one in told) == TEXTS_MAX + 1
    assert repeats.ask("x", "region 9999", INTERVAL_S + 100) == 0, "old ones are forgotten"


def test_lines_that_are_old_make_room() -> None:
    repeats = Repeats()
    for number in range(TEXTS_MAX):
        repeats.ask("x", str(number), 0.0)
    assert repeats.ask("x", "new", INTERVAL_S) == 0
    assert repeats.ask("x", "0", INTERVAL_S) == 0
