"""Warnings at intervals."""

from __future__ import annotations

from crdtstream.connections.alarms import WARNING_INTERVAL_MS, Alarm


def test_a_warning_is_told_at_intervals_with_the_number_of_those_between() -> None:
    alarm = Alarm()
    assert alarm.text_due("a", 1_000) == "a"
    assert alarm.text_due("b", 1_000) == ""
    assert alarm.text_due("c", 999 + WARNING_INTERVAL_MS) == ""
    assert alarm.text_due("d", 1_000 + WARNING_INTERVAL_MS) == "d; 2 more like it since the last warning"
    assert alarm.text_due("e", 1_000 + 2 * WARNING_INTERVAL_MS) == "e"


def test_a_clock_that_was_set_back_tells_at_once() -> None:
    alarm = Alarm()
    assert alarm.text_due("a", WARNING_INTERVAL_MS) == "a"
    assert alarm.text_due("b", 5) == "b"
