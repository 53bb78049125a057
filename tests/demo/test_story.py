"""Cells are read as they are written, and replies are shown in the words of the tables."""

from __future__ import annotations

from typing import Any

import pytest

from crdtstream.demo.stories import KEYS, STORIES
from crdtstream.demo.story import Step, at, read_cell, show_reply

ENTRY = ["110-1", ["f", "v"]]
LATER = ["115-2", ["f", "v"]]
GROUP = ["name", "g1", "consumers", 0]


def test_a_cell_is_a_command_and_its_reply() -> None:
    assert read_cell("east", "XADD x 100 f v -> 100-1") == Step("east", "XADD x 100 f v", "100-1", None)
    assert read_cell("west", "XACK x g 110-1 -> 1 effects=0") == Step("west", "XACK x g 110-1", "1", 0)


def test_the_id_that_means_new_entries_is_no_arrow() -> None:
    step = read_cell("east", "XREADGROUP GROUP g a STREAMS x > -> nothing")
    assert (step.argv[-1], step.reply) == (">", "nothing")


def test_a_cell_without_a_reply_is_refused() -> None:
    with pytest.raises(AssertionError, match="not COMMAND -> REPLY"):
        read_cell("east", "PING")


def test_one_cell_may_stand_for_all_regions() -> None:
    row = at("PING -> PONG")
    assert isinstance(row, tuple)
    assert [step.region for step in row] == ["east", "west", "north"]


@pytest.mark.parametrize(
    ("command", "reply", "shown"),
    [
        ("XRANGE x - +", [ENTRY, LATER], "[110-1, 115-2]"),
        ("XRANGE x - +", [], "[]"),
        ("XREAD STREAMS x 0", [["x", [ENTRY]]], "[110-1]"),
        ("XREADGROUP GROUP g a STREAMS x >", None, "nothing"),
        ("XPENDING x g - + 10", [["110-1", "a", 5, 1]], "[110-1]"),
        ("XINFO GROUPS x", [GROUP], "[g1]"),
        ("DEL x", 1, "1"),
        ("XGROUP CREATE x g 0", "OK", "OK"),
        ("XINFO GROUPS x", ValueError("no such key"), "error: no such key"),
    ],
)
def test_replies_are_shown_in_the_words_of_the_tables(command: str, reply: Any, shown: str) -> None:
    assert show_reply(command.split(), reply) == shown


def test_every_key_of_a_story_is_proven() -> None:
    steps = [step for story in STORIES for row in story.rows if isinstance(row, tuple) for step in row]
    for step in steps:
        assert step.argv[0] == "WAIT" or any(key in step.argv for key in KEYS), step.command
