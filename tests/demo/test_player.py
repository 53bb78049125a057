"""What a moment shows of what happened to links, and stories that the demo cannot play."""

from __future__ import annotations

import re
from typing import Any, cast

import pytest

from crdtstream.demo.cluster import Cluster, DemoError
from crdtstream.demo.player import Outcome, Player, ToldLine, effects_text
from crdtstream.demo.story import Story


def test_links_that_move_several_times_in_a_moment_share_a_cell() -> None:
    outcome = Outcome("A story", "t1")
    for text in ("links open", "links open", "sync"):
        outcome.move("east", text)
    assert outcome.cells == {"east": ToldLine("", "links open, sync")}


def test_a_command_is_shown_instead_of_what_moves() -> None:
    outcome = Outcome("A story", "t1", {"east": ToldLine("PING", "PONG")})
    outcome.move("east", "sync")
    assert outcome.cells["east"].text == "PONG"


def test_a_complaint_says_where() -> None:
    outcome = Outcome("A story", "t1")
    outcome.complain("so it is")
    outcome.complain("so it is", "east")
    assert outcome.complaints == ["A story, t1: so it is", "A story, t1, east: so it is"]


def test_effects_are_counted_in_words() -> None:
    assert [effects_text(count) for count in range(3)] == [
        ", nothing to send",
        ", one effect to send",
        ", 2 effects to send",
    ]


class FakeCluster:
    """Regions of two shards that nobody asks."""

    def __init__(self) -> None:
        self.shards = 2
        self.regions: dict[str, Any] = {}

    def reset_links(self) -> None:
        """There are none."""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("shards 3\n\nt1\n  sync\n", "A story: its regions have 3 shards: give --shards 3"),
        (
            "\nt1\n  1.0> XLEN a\n",
            "line 4: the demo names no shard: clients find that of a key, and a step concerns all",
        ),
        ("shards 2\n\nt1\n  cut 1.0 2.0\n", "line 5: the demo names no shard"),
    ],
)
def test_a_story_of_single_shards_is_refused(text: str, reason: str) -> None:
    player = Player(cast("Cluster", FakeCluster()))
    with pytest.raises(DemoError, match=re.escape(reason)):
        player.play(Story(f"# A story\n{text}"), [])
