"""Mutations: each still fits its file, is applied to a copy alone, and what is broken is noticed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from simulations.broken_lines import Mutation
from simulations.checkers import all_checkers
from simulations.mutations import ALL, ROOT, chase, copy_with, patched

pytestmark = pytest.mark.interpreted


@pytest.mark.parametrize("mutation", ALL, ids=[mutation.name for mutation in ALL])
def test_a_mutation_fits_its_file(mutation: Mutation) -> None:
    source = Path(ROOT, "crdtstream", mutation.path).read_text()
    assert patched(mutation, source) != source


def test_there_are_enough() -> None:
    assert len({mutation.name for mutation in ALL}) == len(ALL) >= 21


def test_a_text_that_is_gone_is_named() -> None:
    with pytest.raises(ValueError, match="its text occurs 0 times in core"):
        patched(Mutation("a", "core/groups/group.py", "not there", "", "crash"), "something else")


def test_the_checkout_stays_as_it_is(tmp_path: Path) -> None:
    mutation = ALL[0]
    path = Path("crdtstream", mutation.path)
    before = (ROOT / path).read_text()
    copy_with(mutation, tmp_path)
    assert (ROOT / path).read_text() == before != (tmp_path / path).read_text()


def test_every_checker_has_a_broken_line_that_it_notices() -> None:
    """Whether it does is what `python -m simulations mutations` says; two are tried below."""
    names = {checker.name for checker in all_checkers()}
    assert len(names) == len(all_checkers()), "two checkers of one name"
    recorded = {mutation.checker for mutation in ALL}
    assert names <= recorded, f"no mutation for {sorted(names - recorded)}"
    assert recorded <= names | {"crash", "rot"}, f"no checker is called {sorted(recorded - names)}"
    assert all(mutation.checker in names for mutation in ALL if mutation.alone)


@pytest.mark.parametrize("name", ["a DEL keeps the groups", "a reader goes on in a segment that has ended"])
def test_a_broken_line_is_noticed(name: str) -> None:
    mutation = next(mutation for mutation in ALL if mutation.name == name)
    catch = chase(mutation, 0, 20)
    assert catch.checker == mutation.checker and 0 < catch.seeds <= 20


def test_a_checker_that_looks_alone_is_the_only_one_that_complains() -> None:
    mutation = next(mutation for mutation in ALL if mutation.name == "a DEL keeps the groups")
    assert chase(replace(mutation, checker="damage", alone=True), 0, 2).checker == ""
    assert chase(replace(mutation, checker="delete wins", alone=True), 0, 20).checker == "delete wins"
