"""The judge of dead letters: what it passes, and what it names."""

from __future__ import annotations

from nemesis.letters import FoundLetter, judge_letters, lacking, letters_of, poison_token

POISON = poison_token("1-0").encode()
HEALTHY = b"1-1"
GROUPS = ("a", "b")
BOTH = [FoundLetter("a", POISON, 2), FoundLetter("b", POISON, 2)]


def test_one_letter_in_each_group() -> None:
    assert judge_letters([POISON, HEALTHY], BOTH, GROUPS) == []
    assert lacking([POISON, HEALTHY], BOTH[:1], GROUPS) == ["poison-1-0 of b"]


def test_what_is_lost_or_comes_twice() -> None:
    assert judge_letters([POISON], BOTH[1:], GROUPS) == ["no letter for poison-1-0 of a"]
    assert judge_letters([POISON], [*BOTH, BOTH[0]], GROUPS) == ["2 letters for poison-1-0 of a"]


def test_healthy_entries() -> None:
    allowed = FoundLetter("a", HEALTHY, 2)
    assert judge_letters([HEALTHY], [allowed], GROUPS) == []
    early = FoundLetter("a", HEALTHY, 1)
    assert judge_letters([HEALTHY], [early], GROUPS) == ["a letter for 1-1 of a after 1 deliveries"]
    assert judge_letters([], [allowed], GROUPS) == ["a letter for 1-1, which nobody added"]


def test_letters_are_parsed() -> None:
    row = (b"5-1", [b"token", POISON, b"crdt-group", b"a", b"crdt-deliveries", b"2"])
    assert letters_of([row]) == BOTH[:1]
