"""The picture of the structure: floors from imports, arrows without those that a longer way implies."""

from __future__ import annotations

from graphlib import CycleError

import pytest

from docs.reference.structure import arrows, floors, imported_parts, placed, structure_picture

HOUSE = {"roof": {"wall", "floor"}, "wall": {"floor"}, "floor": set[str](), "shed": set[str]()}


def test_every_part_stands_above_what_it_imports() -> None:
    assert floors(HOUSE) == [["floor", "shed"], ["wall"], ["roof"]]


def test_an_arrow_that_a_longer_way_implies_is_left_out() -> None:
    assert list(arrows(HOUSE)) == [("roof", "wall"), ("wall", "floor")]


def test_a_circle_is_named() -> None:
    with pytest.raises(CycleError, match="nodes are in a cycle"):
        floors({"a": {"b"}, "b": {"a"}})


def test_all_arrows_of_this_code_point_down() -> None:
    graph = imported_parts()
    places = placed(floors(graph), graph)
    assert graph["core"] == set()
    assert {"region", "simulations", "commands", "oci"} <= graph.keys()
    assert all(places[upper][1] < places[lower][1] for upper in graph for lower in graph[upper])


def test_the_picture_is_the_same_each_time() -> None:
    assert structure_picture() == structure_picture()
