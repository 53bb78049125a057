"""The drawing of regions and links, as nodes of an SVG. Pure.

Regions stand on a circle, the first one on top. A link is a line between two of them, with a label only where
something is to be said: a lag, a transfer, or that it is down. More labels than a few would hide the regions: then
colours alone say it, and the table below has the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, pi, sin

from crdtstream.dashboard.model import LATE_MS, Place
from crdtstream.dashboard.nodes import Tag, node
from crdtstream.observing.links import RegionLink
from crdtstream.observing.words import count, duration

WIDTH, HEIGHT = 580, 400
RADIUS_X, RADIUS_Y = 215, 150
BOX_WIDTH, BOX_HEIGHT = 128, 52
CLOSE = 0.42
NAME_MAX = 14
LABELS_MAX = 4
MARGIN = 12

Point = tuple[float, float]


def drawing(places: Sequence[Place], links: Sequence[RegionLink]) -> Tag:
    spots = {place.region: spot(index, len(places)) for index, place in enumerate(places)}
    lines = [line(link, spots) for link in links]
    told = [link for link in links if label_text(link)]
    labels = [label(link, spots) for link in told] if len(told) <= LABELS_MAX else []
    boxes = [box(place, spots[place.region]) for place in places]
    ys = [y for _, y in spots.values()]
    top, bottom = min(ys) - BOX_HEIGHT / 2 - MARGIN, max(ys) + BOX_HEIGHT / 2 + MARGIN
    view = f"0 {top:.0f} {WIDTH} {bottom - top:.0f}"
    return node("svg", "map", *lines, *boxes, *labels, viewBox=view, role="img", aria_label=described(places, links))


def described(places: Sequence[Place], links: Sequence[RegionLink]) -> str:
    down = sum(not link.is_up for link in links)
    return f"{len(places)} regions, {len(links)} links, {down} of them down"


def spot(index: int, number: int) -> Point:
    if number == 1:
        return WIDTH / 2, HEIGHT / 2
    angle = 2 * pi * index / number - pi / 2
    return WIDTH / 2 + RADIUS_X * cos(angle), HEIGHT / 2 + RADIUS_Y * sin(angle)


def line(link: RegionLink, spots: dict[int, Point]) -> Tag:
    (x1, y1), (x2, y2) = spots[link.one], spots[link.other]
    return node("line", f"link {state(link)}", x1=f"{x1:.0f}", y1=f"{y1:.0f}", x2=f"{x2:.0f}", y2=f"{y2:.0f}")


def state(link: RegionLink) -> str:
    if not link.is_up:
        return "bad"
    return "warn" if link.is_transferring or link.lag_ms > LATE_MS else "good"


def label_text(link: RegionLink) -> str:
    if not link.is_up:
        return f"down {duration(link.unlinked_ms)}" if link.unlinked_ms >= 0 else "down"
    if link.is_transferring:
        return "transfer"
    return f"{count(link.lag)} · {duration(link.lag_ms)}" if link.lag_ms > LATE_MS else ""


def label(link: RegionLink, spots: dict[int, Point]) -> Tag:
    """Beside the middle of its line, nearer to the first region, so that labels of lines that cross stay apart."""
    (x1, y1), (x2, y2) = spots[link.one], spots[link.other]
    x, y = x1 + CLOSE * (x2 - x1), y1 + CLOSE * (y2 - y1)
    text = label_text(link)
    width = 12 + 6.6 * len(text)
    plate = node(
        "rect",
        f"plate {state(link)}",
        x=f"{x - width / 2:.0f}",
        y=f"{y - 11:.0f}",
        width=f"{width:.0f}",
        height=22,
        rx=11,
    )
    words = node("text", f"told {state(link)}", text, x=f"{x:.0f}", y=f"{y + 4:.0f}", text_anchor="middle")
    return node("g", "", plate, words)


def box(place: Place, at: Point) -> Tag:
    x, y = at
    kind = place_state(place)
    frame = node(
        "rect",
        f"place {kind}",
        x=f"{x - BOX_WIDTH / 2:.0f}",
        y=f"{y - BOX_HEIGHT / 2:.0f}",
        width=BOX_WIDTH,
        height=BOX_HEIGHT,
        rx=10,
    )
    name = node("text", "name", short(place.name), x=f"{x:.0f}", y=f"{y - 3:.0f}", text_anchor="middle")
    told = node("text", f"state {kind}", place_text(place), x=f"{x:.0f}", y=f"{y + 15:.0f}", text_anchor="middle")
    return node("g", "", node("title", "", place.error or place.loading or place.name), frame, name, told)


def short(name: str) -> str:
    return name if len(name) <= NAME_MAX else f"{name[: NAME_MAX - 1]}…"


def place_state(place: Place) -> str:
    if not place.is_asked:
        return "dim"
    if place.error or place.loading:
        return "bad"
    return "warn" if place.is_late else "good"


def place_text(place: Place) -> str:
    """How it stands; of several shards this is said of one, unless all of them are up to date, or silent."""
    if not place.is_asked:
        return "not asked"
    where = "" if place.shard is None else f"shard {place.shard}: "
    if place.error:
        return "no answer" if place.is_silent else f"{where}no answer"
    if place.loading:
        return f"{where}loading"
    return f"{where}{duration(place.lag_ms)} behind" if place.is_late else "up to date"
