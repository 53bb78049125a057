"""Mutations: each still fits its file, is applied to a copy alone, and what is broken is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulations.mutations import MUTATIONS, ROOT, Mutation, chase, copy_with, patched

pytestmark = pytest.mark.interpreted


@pytest.mark.parametrize("mutation", MUTATIONS, ids=[mutation.name for mutation in MUTATIONS])
def test_a_mutation_fits_its_file(mutation: Mutation) -> None:
    source = Path(ROOT, "crdtstream", mutation.path).read_text()
    assert patched(mutation, source) != source


def test_there_are_enough() -> None:
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS) >= 21


def test_a_text_that_is_gone_is_named() -> None:
    with pytest.raises(ValueError, match="its text occurs 0 times in core"):
        patched(Mutation("a", "core/group.py", "not there", ""), "something else")


def test_the_checkout_stays_as_it_is(tmp_path: Path) -> None:
    mutation = MUTATIONS[0]
    path = Path("crdtstream", mutation.path)
    before = (ROOT / path).read_text()
    copy_with(mutation, tmp_path)
    assert (ROOT / path).read_text() == before != (tmp_path / path).read_text()


def test_a_broken_line_is_noticed() -> None:
    mutation = next(mutation for mutation in MUTATIONS if mutation.name == "a DEL keeps the groups")
    catch = chase(mutation, 0, 20)
    assert catch.checker in ("convergence", "delete wins") and 0 < catch.seeds <= 20
