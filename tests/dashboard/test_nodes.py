"""Nodes: what a page shows, as values."""

from __future__ import annotations

from crdtstream.dashboard.nodes import figure, link, meter, node, table


def test_attributes_that_are_false_are_left_out() -> None:
    made = node("input", "", name="x", required=True, hidden=False, value=None, aria_label="X")
    assert made.attributes == {"name": "x", "required": "", "aria-label": "X"}


def test_one_text_is_the_text_and_several_are_spans() -> None:
    assert node("p", "", "a").text == "a"
    mixed = node("p", "", "a", None, node("b", "", "c"))
    assert [child.tag for child in mixed.children] == ["span", "b"]
    assert list(mixed.texts()) == ["a", "c"]


def test_cells_have_the_heads_of_their_columns() -> None:
    made = table(("x", "y"), [("1", figure("2")), (link("3", "/3"), "4")])
    cells = [each for each in made.all() if each.tag == "td"]
    assert [cell.attributes["data-head"] for cell in cells] == ["x", "y", "x", "y"]
    assert list(made.texts()) == ["x", "y", "1", "2", "3", "4"]


def test_a_meter_without_a_limit_is_empty() -> None:
    assert [each.attributes["style"] for each in meter(5, 0, "").all() if "style" in each.attributes] == ["width:0.0%"]
    assert any("bad" in each.attributes.get("class", "") for each in meter(95, 100, "").all())
