"""/streams, /stream, /diff and /group: streams and groups of all regions."""

from __future__ import annotations

import time
from urllib.parse import unquote

from crdtstream.dashboard import asking
from crdtstream.dashboard.addresses import text_in
from crdtstream.dashboard.board import Board
from crdtstream.dashboard.inspection import StreamSide
from crdtstream.dashboard.pages.live import Draw, Drawn, Parameters, key_in, register_live
from crdtstream.dashboard.views import group as group_view
from crdtstream.dashboard.views import stream as stream_view
from crdtstream.dashboard.views import streams as streams_view
from crdtstream.dashboard.visitors import Visitor

REFRESH_S = 2.0


def register(board: Board) -> None:
    def search(visitor: Visitor, parameters: Parameters) -> Draw:
        pattern = text_in(parameters, "pattern") or "*"
        cursors = cursors_in(text_in(parameters, "cursors"))

        async def draw() -> Drawn:
            found = await asking.search(visitor.ports, board.shards(), board.answering, pattern.encode(), cursors)
            return streams_view.search_form(pattern), streams_view.results(found, board.regions(), pattern)

        return draw

    def stream(visitor: Visitor, parameters: Parameters) -> Draw:
        key, rates = key_in(parameters), Rates()

        async def draw() -> Drawn:
            sides = await asking.read_stream(visitor.ports, board.answering(key), key)
            told = rates.record(sides)
            tables = (stream_view.sides_table(sides, told), stream_view.origins_table(sides))
            return stream_view.head(key, "/stream"), *tables, stream_view.groups_table(key, sides)

        return draw

    def diff(visitor: Visitor, parameters: Parameters) -> Draw:
        key = key_in(parameters)

        async def draw() -> Drawn:
            addresses = board.answering(key)
            sides = await asking.read_stream(visitor.ports, addresses, key)
            found = await asking.read_differences(visitor.ports, addresses, key, sides)
            return stream_view.head(key, "/diff"), stream_view.differences(*found)

        return draw

    def group(visitor: Visitor, parameters: Parameters) -> Draw:
        key, name = key_in(parameters), key_in(parameters, "group")

        async def draw() -> Drawn:
            sides = await asking.read_group(visitor.ports, board.answering(key), key, name)
            chosen = text_in(parameters, "to") or next((side.region for side in sides if not side.error), "")
            return (
                group_view.head(key, name, board.may_act),
                group_view.summary(sides, int(1000 * time.time())),
                group_view.positions(sides),
                group_view.moving(key, sides, chosen, name),
                group_view.pending(sides),
                group_view.ages(sides),
                group_view.deliveries(sides),
            )

        return draw

    register_live(board, "/streams", "/streams", "Streams", search, 0)
    register_live(board, "/stream", "/streams", "Stream", stream, REFRESH_S)
    register_live(board, "/diff", "/streams", "Differences", diff, 2 * REFRESH_S)
    register_live(board, "/group", "/streams", "Group", group, REFRESH_S)


def cursors_in(text: str) -> dict[str, bytes]:
    """`east:5,west:9`: where the search goes on in each region."""
    found: dict[str, bytes] = {}
    for part in text.split(","):
        region, _, cursor = part.rpartition(":")
        if cursor.isdigit():
            found[unquote(region)] = cursor.encode()
    return found


class Rates:
    """How many entries a region has for each second, from one look to the next."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[float, int]] = {}

    def record(self, sides: list[StreamSide]) -> dict[str, float | None]:
        now_s = time.monotonic()
        found: dict[str, float | None] = {}
        for side in sides:
            if side.row is not None:
                before = self._before.get(side.region)
                found[side.region] = (
                    None if before is None else (side.row.entries_added - before[1]) / (now_s - before[0])
                )
                self._before[side.region] = (now_s, side.row.entries_added)
        return found
