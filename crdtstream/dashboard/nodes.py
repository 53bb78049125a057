"""What a page shows, as a tree of values. Pure.

A node has an element's name, attributes, and either a text or further nodes. Texts are shown as they are: nothing that
comes from a region is ever read as HTML, so nothing there can run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Tag:
    """An element."""

    tag: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    text: str = ""
    children: tuple[Tag, ...] = ()

    def texts(self) -> Iterator[str]:
        """All texts in it, in reading order."""
        if self.text:
            yield self.text
        for child in self.children:
            yield from child.texts()

    def all(self) -> Iterator[Tag]:
        yield self
        for child in self.children:
            yield from child.all()


def node(tag: str, classes: str = "", /, *content: Tag | str | None, **attributes: object) -> Tag:
    """Make an element; a text beside others becomes a span. `None` is left out, and so is a false attribute."""
    named = {"class": classes} if classes else {}
    for key, value in attributes.items():
        if value is not None and value is not False:
            named[key.rstrip("_").replace("_", "-")] = "" if value is True else str(value)
    present = [part for part in content if part is not None]
    if len(present) == 1 and isinstance(present[0], str):
        return Tag(tag, named, present[0])
    parts = [Tag("span", {}, part) if isinstance(part, str) else part for part in present]
    return Tag(tag, named, "", tuple(parts))


def link(text: str, url: str, classes: str = "") -> Tag:
    return node("a", classes, text, href=url)


def panel(title: str, *content: Tag | str | None, classes: str = "") -> Tag:
    """A titled part of a page."""
    return node("section", f"panel {classes}".strip(), node("h2", "", title), *content)


def table(heads: Sequence[str], rows: Iterable[Sequence[Tag | str]], classes: str = "") -> Tag:
    """A table; on a narrow screen each row is a card, whose cells have the heads beside them."""
    top = node("tr", "", *[node("th", "", text, scope="col") for text in heads])
    body = [node("tr", "", *[cell_of(cell, head) for cell, head in zip(row, heads, strict=False)]) for row in rows]
    grid = node("table", classes, node("thead", "", top), node("tbody", "", *body))
    return node("div", "scroll", grid, tabindex="0", role="region", aria_label=", ".join(filter(None, heads)))


def cell_of(cell: Tag | str, head: str) -> Tag:
    found = cell if isinstance(cell, Tag) and cell.tag == "td" else node("td", "", cell)
    return Tag("td", {**found.attributes, "data-head": head}, found.text, found.children)


def figure(text: str, classes: str = "") -> Tag:
    """A cell with a number."""
    return node("td", f"number {classes}".strip(), text)


def badge(text: str, kind: str) -> Tag:
    return node("span", f"badge {kind}", text)


def remark(text: str) -> Tag:
    return node("p", "note", text)


def meter(part: float, whole: float, text: str) -> Tag:
    """A bar that says how much of a limit is used."""
    used = min(1.0, part / whole) if whole else 0.0
    kind = "bad" if used > 0.9 else "warn" if used > 0.75 else "good"
    bar = node("span", f"fill {kind}", "", style=f"width:{100 * used:.1f}%")
    return node("span", "metered", node("span", "meter", bar), node("span", "", text))
