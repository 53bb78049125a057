"""Choices: where the bytes end, every choice is the first."""

from __future__ import annotations

from fuzz.choices import Choices


def test_bytes_decide() -> None:
    choices = Choices(bytes([7, 1, 2, 3, 200]) + b"abcdef")
    assert choices.below(5) == 2
    assert choices.below(1) == 0
    assert choices.below(1000) == 0x0102
    assert choices.pick("wxyz") == "z"
    assert choices.one_in(201) and choices
    assert choices.take(4) == b"abcd"
    assert choices.rest() == b"ef" and not choices


def test_without_bytes_everything_is_the_first() -> None:
    choices = Choices(b"")
    assert [choices.below(9), choices.pick("ab"), choices.take(3), choices.rest()] == [0, "a", b"", b""]
    assert not choices.one_in(2)
