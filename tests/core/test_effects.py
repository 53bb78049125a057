"""Every class of effects has its row in each table by class."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from crdtstream.connections.notifications import EVENTS
from crdtstream.core.applying import MEMBER_RULES, STREAM_RULES
from crdtstream.core.effects import Acknowledged, Effect, EntriesAdded, MemberEffect
from crdtstream.protocols.effect_rows import KINDS


def leaves(kind: type[Effect]) -> list[type[Effect]]:
    """The classes below `kind` that have no subclass; `kind` itself if it has none."""
    below = kind.__subclasses__()
    return [leaf for child in below for leaf in leaves(child)] if below else [kind]


EFFECTS = leaves(Effect)


# The frequent ones, which are applied without a look-up.
FREQUENT: list[type[Effect]] = [EntriesAdded, Acknowledged]


RULES = [*FREQUENT, *STREAM_RULES, *MEMBER_RULES]


@pytest.mark.parametrize("table", [RULES, [effect for _, effect, *_ in KINDS], EVENTS])
def test_every_effect_has_one_row(table: Iterable[type[Effect]]) -> None:
    assert sorted(effect.__name__ for effect in table) == sorted(effect.__name__ for effect in EFFECTS)


def test_members_have_rules_of_their_own() -> None:
    assert set(MEMBER_RULES) == {effect for effect in EFFECTS if issubclass(effect, MemberEffect)}


# Of kinds that are not used yet.
UNUSED = {16, 17, 18, 19}


def test_kinds_on_the_wire_are_numbered_without_a_gap() -> None:
    assert [number for number, *_ in KINDS] == sorted({*range(1, len(EFFECTS) + len(UNUSED) + 1)} - UNUSED)
