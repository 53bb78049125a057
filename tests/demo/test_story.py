"""Stories are texts with a title, a lesson and columns, and replies are shown in the words of the tables."""

from __future__ import annotations

import pytest

from crdtstream.demo.story import KEYS, Story, all_stories, brief_reply
from crdtstream.scenarios.reply import ReplyError, Value

ENTRY: Value = ["110-1", ["f", "v"]]
LATER: Value = ["115-2", ["f", "v"]]
GROUP: Value = ["name", "g1", "consumers", 0]


def test_a_story_has_a_title_a_lesson_and_a_column_for_each_region() -> None:
    story = Story("# Two\n# A lesson\n# of two lines.\nregions 2\n\nt1\n  sync\n")
    assert (story.title, story.lesson, story.names) == ("Two", "A lesson of two lines.", ("east", "west"))


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
        ("XINFO GROUPS x", ReplyError("ERR no such key"), "error: no such key"),
    ],
)
def test_replies_are_shown_in_the_words_of_the_tables(command: str, reply: Value, shown: str) -> None:
    assert brief_reply(command.split(), reply) == shown


def test_every_story_can_follow_the_others() -> None:
    """The regions are those of the demo, each key is proven, and a moment has commands or moves something."""
    for story in all_stories():
        assert (story.title, story.lesson) != ("", "")
        assert (story.settings["id-mode"], story.settings["topology"]) == ("strict", "mesh") and story.regions <= 3
        for moment, lines in story.moments():
            words = [line.words(line.command) for line in lines if line.command]
            assert all(argv[0] == "WAIT" or set(KEYS) & set(argv) for argv in words), moment
            moves = {line.step[0] for line in lines if line.step} & {"sync", "cut", "heal"}
            assert bool(words) != bool(moves) or lines[0].step[0] == "differ", (story.title, moment)
