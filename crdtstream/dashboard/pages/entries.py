"""/entries and /tail: the entries of a stream in one region."""

from __future__ import annotations

from datetime import UTC, datetime

from crdtstream.dashboard import asking
from crdtstream.dashboard.addresses import text_in
from crdtstream.dashboard.board import Board
from crdtstream.dashboard.inspection import Entry
from crdtstream.dashboard.pages.live import Draw, Drawn, Parameters, key_in, register_live
from crdtstream.dashboard.views import entries as view
from crdtstream.dashboard.views import stream as stream_view
from crdtstream.dashboard.visitors import Visitor

TAIL_S = 1.0
TAIL_SHOWN = 50
TAIL_READ = 500


def register(board: Board) -> None:
    def page(visitor: Visitor, parameters: Parameters) -> Draw:
        key, start = key_in(parameters), text_in(parameters, "from")

        async def draw() -> Drawn:
            addresses = board.answering(key)
            region = chosen(addresses, text_in(parameters, "region"))
            low, high, newest_first = bounds(parameters)
            head = stream_view.head(key, "/entries"), view.choices(key, list(addresses), region, start)
            if region not in addresses:
                return *head, view.page(key, region, (), "no region answers", True)
            found, error = await asking.read_entries(
                visitor.ports, addresses[region], key, low, high, view.PAGE, newest_first
            )
            # What is newer than a page is read upward from it, and shown like all others.
            shown = found if newest_first or start else tuple(reversed(found))
            return *head, view.page(key, region, shown, error, newest_first or not start)

        return draw

    def tail(visitor: Visitor, parameters: Parameters) -> Draw:
        key, following = key_in(parameters), LiveTail()

        async def draw() -> Drawn:
            addresses = board.answering(key)
            region = chosen(addresses, text_in(parameters, "region"))
            error = "it is not known" if region not in addresses else ""
            if not error:
                error = await following.read(visitor, addresses[region], key)
            return stream_view.head(key, "/entries"), view.tail(region, following.shown, error)

        return draw

    register_live(board, "/entries", "/streams", "Entries", page, 0)
    register_live(board, "/tail", "/streams", "Live tail", tail, TAIL_S)


def chosen(addresses: dict[str, str], wanted: str) -> str:
    """The region that was asked for, or the first one."""
    return wanted or next(iter(addresses), "")


def bounds(parameters: Parameters) -> tuple[str, str, bool]:
    """The range of a page, and whether it is read from its end."""
    before, after, start = (text_in(parameters, name) for name in ("before", "after", "from"))
    if before:
        return "-", f"({before}", True
    if after:
        return f"({after}", "+", False
    return (first_id(start), "+", False) if start else ("-", "+", True)


def first_id(text: str) -> str:
    """An ID as it is, or the first one of a time in UTC."""
    for form in ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d"):
        try:
            found = datetime.strptime(text.strip(), form).replace(tzinfo=UTC)
        except ValueError:
            continue
        return f"{int(1000 * found.timestamp())}-0"
    return text.strip()


class LiveTail:
    """Reads on behind the last entry that it has read, also after the region did not answer for a while."""

    def __init__(self) -> None:
        self.shown: list[Entry] = []
        self._last = ""

    async def read(self, visitor: Visitor, address: str, key: bytes) -> str:
        """Take what is new; returns an error."""
        low, newest_first = (f"({self._last}", False) if self._last else ("-", True)
        count = TAIL_READ if self._last else TAIL_SHOWN
        found, error = await asking.read_entries(visitor.ports, address, key, low, "+", count, newest_first)
        fresh = list(found) if newest_first else list(reversed(found))
        self.shown = [*fresh, *self.shown][:TAIL_SHOWN]
        if self.shown:
            self._last = self.shown[0].entry_id
        return error
