"""What a moment shows of what happened to links."""

from __future__ import annotations

from crdtstream.demo.player import Outcome, ToldLine, effects_text


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
