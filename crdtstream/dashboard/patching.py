"""Puts nodes into a NiceGUI page, and afterwards changes only what differs: the focus, and what is scrolled, stay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement

from crdtstream.dashboard.nodes import Tag


class Mounted:
    """A node, and the element that shows it."""

    def __init__(self, shown: Tag) -> None:
        self.shown = shown
        self.element: Any = TextElement(tag=shown.tag, text=shown.text)
        self.element.props.update(shown.attributes)
        with self.element:
            self.children = [Mounted(child) for child in shown.children]

    def change(self, shown: Tag) -> None:
        if shown == self.shown:
            return
        if shown.attributes != self.shown.attributes:
            for name in self.shown.attributes.keys() - shown.attributes.keys():
                del self.element.props[name]
            self.element.props.update(shown.attributes)
            self.element.update()
        if shown.text != self.shown.text:
            self.element.set_text(shown.text)
        self.children = changed(self.element, self.children, shown.children)
        self.shown = shown


def changed(parent: Any, mounted: Sequence[Mounted], nodes: Sequence[Tag]) -> list[Mounted]:
    """Keep the elements as far as they are of the same kind, and replace those behind."""
    kept = 0
    while kept < min(len(mounted), len(nodes)) and mounted[kept].shown.tag == nodes[kept].tag:
        mounted[kept].change(nodes[kept])
        kept += 1
    for each in mounted[kept:]:
        parent.remove(each.element)
    with parent:
        added = [Mounted(each) for each in nodes[kept:]]
    return [*mounted[:kept], *added]


class Mount:
    """A part of a page that shows nodes."""

    def __init__(self, classes: str = "") -> None:
        self._box: Any = ui.element("div")
        if classes:
            self._box.props["class"] = classes
        self._mounted: list[Mounted] = []

    def show(self, *nodes: Tag | None) -> None:
        self._mounted = changed(self._box, self._mounted, [each for each in nodes if each is not None])
