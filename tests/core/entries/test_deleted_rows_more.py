"""Removals that are only noted, in blocks of the size that they have in production, so in a compiled core too."""

from __future__ import annotations

from random import Random

import pytest

from tests.core.entries.test_deleted_rows import LOOKS, filled, finds_each, remove
from tests.core.trees import ALL, rows_of

ENTRIES = 2_000


@pytest.mark.parametrize("seed", range(8))  # any: each mixes removals and looks in another way
def test_looks_between_scattered_removals(seed: int) -> None:
    random = Random(seed)
    looks = [look for look in LOOKS if look is not finds_each]
    tree, rows = filled(ENTRIES)
    noted = 0
    for _ in range(60):
        for _ in range(random.randrange(6)):
            rows = remove(tree, rows, [random.randint(1, ENTRIES) for _ in range(random.randint(1, 12))])
        noted = max(noted, tree.check_deleted()[0])
        random.choice(looks)(tree, rows, random.randint(1, 400))
        tree.check()
    assert noted > 0
    assert rows_of(tree.slices(*ALL, -1, reverse=False)) == rows
