"""docs/images/structure.svg: the packages and what imports what, from the imports in the code.

A package stands above all that it imports, so every arrow points down: a circle has no floors, and
`graphlib.CycleError` names it. Arrows that a longer way implies are left out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from statistics import fmean

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAMS = ("benchmarks", "fuzz", "nemesis", "simulations")
# Imported by nearly all; `__main__` and the package's own docstring and version say nothing about the structure.
LEFT_OUT = frozenset({"crdtstream", "__init__", "__main__", "status"})

WIDTH, FLOOR, HEIGHT, LETTER, GAP = 960, 74, 34, 8.2, 26

Graph = dict[str, set[str]]


def structure_picture() -> str:
    """The picture as SVG; the same code gives the same bytes."""
    graph = imported_parts()
    places = placed(floors(graph), graph)
    height = max(y for _, y in places.values()) + HEIGHT + GAP
    lines = [arrow(places[upper], places[lower]) for upper, lower in arrows(graph)]
    boxes = [box(name, *places[name]) for name in sorted(places)]
    return "\n".join([head(height), *lines, *boxes, "</svg>", ""])


def imported_parts() -> Graph:
    """Part -> parts that any of its files imports, wherever in the file the import stands."""
    graph: Graph = {}
    for path in files():
        part = part_of(path.relative_to(ROOT).with_suffix("").parts)
        if part not in LEFT_OUT:
            graph.setdefault(part, set()).update(named_parts(path) - {part} - LEFT_OUT)
    return graph


def files() -> Iterator[Path]:
    for folder in ("crdtstream", *PROGRAMS):
        yield from sorted((ROOT / folder).rglob("*.py"))


def named_parts(path: Path) -> set[str]:
    """Imports in the code are absolute: a check of the style demands it."""
    names = set[str]()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return {part_of(tuple(name.split("."))) for name in names if name.split(".")[0] in ("crdtstream", *PROGRAMS)}


def part_of(module: tuple[str, ...]) -> str:
    """A folder or a file of the package, or a program beside it."""
    if module[0] != "crdtstream":
        return module[0]
    return module[1] if len(module) > 1 and not module[1].startswith("__version") else "crdtstream"


def floors(graph: Graph) -> list[list[str]]:
    """Lowest first. What nothing below constrains stands as high as what uses it lets it: arrows stay short."""
    order = list(TopologicalSorter(graph).static_order())
    height: dict[str, int] = {}
    for part in order:
        height[part] = 1 + max((height[lower] for lower in graph[part]), default=-1)
    users = {part: [upper for upper in graph if part in graph[upper]] for part in graph}
    for part in reversed(order):
        if users[part]:
            height[part] = min(height[upper] for upper in users[part]) - 1
    return [sorted(part for part in graph if height[part] == floor) for floor in range(max(height.values()) + 1)]


def placed(rows: list[list[str]], graph: Graph) -> dict[str, tuple[float, float]]:
    """Part -> centre and top of its box. Below what uses it on the average, so that few arrows cross."""
    places: dict[str, tuple[float, float]] = {}

    def users_centre(part: str) -> float:
        return fmean([places[upper][0] for upper in sorted(places) if part in graph[upper]] or [WIDTH / 2])

    for depth, row in enumerate(reversed(rows)):
        step = (WIDTH - sum(width_of(part) for part in row)) / (len(row) + 1)
        left = 0.0
        for part in sorted(row, key=users_centre):
            places[part] = (left + step + width_of(part) / 2, GAP + depth * FLOOR)
            left += step + width_of(part)
    return places


def width_of(part: str) -> float:
    return LETTER * len(part) + GAP


def arrows(graph: Graph) -> Iterator[tuple[str, str]]:
    @cache
    def below(part: str) -> frozenset[str]:
        return frozenset(graph[part]).union(*(below(lower) for lower in graph[part]))

    for upper in sorted(graph):
        for lower in sorted(graph[upper]):
            if not any(lower in below(other) for other in graph[upper] - {lower}):
                yield upper, lower


def head(height: float) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img" '
        'aria-label="The packages, each above what it imports; all arrows point down" '
        'font-family="ui-monospace, monospace">\n'
        '  <defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 L8 4 L0 8 z" fill="#90a4ae"/></marker></defs>\n'
        f'  <rect width="{WIDTH}" height="{height:g}" rx="8" fill="#f7f8fc"/>'
    )


def arrow(upper: tuple[float, float], lower: tuple[float, float]) -> str:
    (x1, y1), (x2, y2) = (upper[0], upper[1] + HEIGHT), lower
    bend = (y2 - y1) / 2
    way = f"M{x1:.0f} {y1:.0f} C{x1:.0f} {y1 + bend:.0f} {x2:.0f} {y2 - bend:.0f} {x2:.0f} {y2:.0f}"
    return f'  <path d="{way}" fill="none" stroke="#90a4ae" stroke-width="1.2" marker-end="url(#tip)"/>'


def box(part: str, centre: float, top: float) -> str:
    colour, width = "#00796b" if part in PROGRAMS else "#3f51b5", width_of(part)
    left = centre - width / 2
    return (
        f'  <rect x="{left:.0f}" y="{top:.0f}" width="{width:.0f}" height="{HEIGHT}" rx="6" fill="{colour}"/>'
        f'<text x="{centre:.0f}" y="{top + 22:.0f}" fill="#ffffff" text-anchor="middle" font-size="13">{part}</text>'
    )
