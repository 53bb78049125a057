"""Scenario texts: what is a command, a reply, a step, a setting, a moment."""

from __future__ import annotations

import pytest

from crdtstream.scenarios.text import ScenarioError, ScenarioText

TEXT = """\
# A title
# and a note.
regions 3
fsync always
fsync 1

t1
  1> XADD x '5 ' f v
     5-1
  2 -> 1
t2
  check delete wins
  1<
"""


def test_lines_are_told_apart() -> None:
    text = ScenarioText(TEXT)
    assert text.notes == ["A title", "and a note."]
    assert text.settings["fsync"] == "always" and text.regions == 3
    assert [line.step for line in text.lines if line.step] == [
        ["fsync", "1"],
        ["carry", "2", "1"],
        ["check", "delete wins"],
    ]
    asked, awaited = [line for line in text.lines if line.expected is not None]
    assert (asked.region, asked.words(asked.command), asked.expected) == (1, ["XADD", "x", "5 ", "f", "v"], ["5-1"])
    assert (awaited.region, awaited.command, awaited.expected) == (1, "", [])


def test_a_moment_is_what_stands_below_its_name() -> None:
    text = ScenarioText(TEXT.replace("fsync 1\n", ""))
    assert [(name, len(lines)) for name, lines in text.moments()] == [("t1", 2), ("t2", 2)]
    with pytest.raises(ScenarioError, match="line 5: no moment"):
        ScenarioText(TEXT).moments()


def test_what_came_is_compared_and_written() -> None:
    text = ScenarioText("1> XLEN x\n   0\nturn 1\n  DEL x\n")
    [asked] = [line for line in text.lines if line.command]
    asked.actual = ["5"]
    assert text.differences() == ["line 1: 1> XLEN x: expected ['0'], got ['5']"]
    assert text.rewritten() == "1> XLEN x\n   5\nturn 1\n  DEL x\n"


def test_a_command_that_cannot_be_split_is_named() -> None:
    [line] = ScenarioText('1> XADD "x\n').lines
    with pytest.raises(ScenarioError, match="line 1: No closing"):
        line.words(line.command)
