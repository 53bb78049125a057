"""Covering intervals beside a naive model."""

from __future__ import annotations

import random

import pytest

from crdtstream.core.entries import covering_intervals as module
from crdtstream.core.entries.covering_intervals import covering_intervals
from crdtstream.core.entries.encoding import encode_entry
from crdtstream.core.entries.entry_tree import EntryTree
from crdtstream.core.values.entry_id import EntryId


def tree_of(ids: list[EntryId]) -> EntryTree:
    tree = EntryTree()
    for counter, entry_id in enumerate(ids, 1):
        tree.append(entry_id, counter, encode_entry(entry_id, [b"f", b"v"]))
    return tree


@pytest.mark.parametrize("share", [0, 8])
@pytest.mark.parametrize("seed", range(30))
def test_they_hold_these_entries_and_no_other(seed: int, share: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SPARSE_SHARE", share)
    chosen = random.Random(seed)
    live = [(number, 1) for number in range(1, 700) if chosen.random() < 0.9]
    odds = chosen.choice((0.02, 0.5, 0.995))
    held = [entry_id for entry_id in live if chosen.random() < odds]
    found = covering_intervals(tree_of(live), held)
    found.check()
    assert [entry_id for entry_id in live if found.contains(entry_id)] == held
    runs = sum(1 for at, one in enumerate(live) if one in held and (at == 0 or live[at - 1] not in held))
    assert len(found) == runs


def test_without_a_tree_nothing_lies_between() -> None:
    assert covering_intervals(None, [(2, 0), (9, 0)]).pairs() == [((1, 2**64 - 1), (9, 0))]
    assert not covering_intervals(None, [])
