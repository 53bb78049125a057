"""What is compared between regions is what lasts."""

from __future__ import annotations

from crdtstream.demo.proof import lasting
from crdtstream.scenarios.reply import Value


def test_the_regions_that_a_group_awaits_for_a_moment_are_not_compared() -> None:
    group: Value = ["name", "team", "delivers", [1, 2], "awaits", [3]]
    assert lasting([group]) == [["name", "team", "delivers", [1, 2]]]
    assert lasting([["100-1", ["f", "awaits"]]]) == [["100-1", ["f", "awaits"]]]
    assert lasting("OK") == "OK"
