"""Dead letters of the drill of queues, judged: each poison entry becomes one letter in each group, and a healthy one
only if it was delivered as often as the group allows, to consumers that died or could not acknowledge it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LETTERS_KEY = "work:dead"
DELIVERIES_MAX = 2
LIMIT = ("MAXDELIVERIES", DELIVERIES_MAX, "DEADLETTER", LETTERS_KEY)
_POISON = b"poison-"


class PoisonError(Exception):
    """What the handler of a poison entry raises."""


@dataclass(frozen=True, slots=True)
class FoundLetter:
    """A letter of this group, for the add with this token, after so many deliveries in one region."""

    group: str
    token: bytes
    deliveries: int


def poison_token(token: str) -> str:
    return _POISON.decode() + token


def is_poison(token: bytes) -> bool:
    return token.startswith(_POISON)


def letters_of(rows: Iterable[tuple[bytes, list[bytes]]]) -> list[FoundLetter]:
    """Parse the entries of the dead-letter key, as XRANGE replies them."""
    return [letter_of(dict(zip(words[::2], words[1::2], strict=True))) for _, words in rows]


def letter_of(fields: dict[bytes, bytes]) -> FoundLetter:
    return FoundLetter(fields[b"crdt-group"].decode(), fields[b"token"], int(fields[b"crdt-deliveries"]))


def lacking(tokens: Iterable[bytes], letters: Sequence[FoundLetter], groups: Sequence[str]) -> list[str]:
    """Return the poison entries that are no letter of a group yet."""
    found = {(letter.group, letter.token) for letter in letters}
    wanted = [(group, token) for group in groups for token in tokens if is_poison(token)]
    return [f"{token.decode()} of {group}" for group, token in wanted if (group, token) not in found]


def judge_letters(tokens: Sequence[bytes], letters: Sequence[FoundLetter], groups: Sequence[str]) -> list[str]:
    """Return what is wrong about the letters of these adds."""
    wrong = [f"no letter for {name}" for name in lacking(tokens, letters, groups)]
    for (group, token), count in Counter((letter.group, letter.token) for letter in letters).items():
        if count > 1:
            wrong.append(f"{count} letters for {token.decode()} of {group}")
    unknown = {letter.token for letter in letters} - set(tokens)
    wrong += [f"a letter for {token.decode()}, which nobody added" for token in sorted(unknown)]
    early = [letter for letter in letters if letter.deliveries < DELIVERIES_MAX]
    wrong += [f"a letter for {one.token.decode()} of {one.group} after {one.deliveries} deliveries" for one in early]
    return wrong
