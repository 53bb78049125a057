"""Pages of a list, with tokens that go forth and back.

A token holds the sort key of the item at which its page begins or ends, not a number: items that are created or
forgotten meanwhile shift nothing. Sort keys are unique, because they end in the ID.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Final, TypeVar

from crdtstream.oci.calls import Call
from crdtstream.oci.errors import invalid
from crdtstream.oci.resources import StreamPoolSummary, StreamSummary

PAGE_ITEMS: Final = 10
PAGE_ITEMS_MAX: Final = 50
NEXT_PAGE: Final = "opc-next-page"
PREV_PAGE: Final = "opc-prev-page"
AFTER: Final = "after"
BEFORE: Final = "before"

T = TypeVar("T")
PageKey = tuple[str, str]


def page_of(
    call: Call, items: list[T], key: Callable[[T], PageKey], descending: bool
) -> tuple[list[T], dict[str, str]]:
    """The page that is asked for, and the headers that name its neighbours; raises OciError."""
    limit = call.number("limit", PAGE_ITEMS, PAGE_ITEMS_MAX)
    ordered = sorted(items, key=key, reverse=descending)
    first = start_of(call.query.get("page"), [key(item) for item in ordered], descending, limit)
    page = ordered[first : first + limit]
    headers = {}
    if page and first + limit < len(ordered):
        headers[NEXT_PAGE] = token(AFTER, key(page[-1]))
    if page and first > 0:
        headers[PREV_PAGE] = token(BEFORE, key(page[0]))
    return page, headers


def start_of(page: str | None, keys: list[PageKey], descending: bool, limit: int) -> int:
    if page is None:
        return 0
    side, at = untoken(page)
    if side == AFTER:
        return sum(1 for key in keys if (key >= at if descending else key <= at))
    return max(0, sum(1 for key in keys if (key > at if descending else key < at)) - limit)


def token(side: str, key: PageKey) -> str:
    return base64.urlsafe_b64encode(json.dumps([side, *key]).encode()).decode()


def untoken(text: str) -> tuple[str, PageKey]:
    try:
        side, word, id = json.loads(base64.urlsafe_b64decode(text))
    except (ValueError, TypeError, RecursionError) as error:
        raise invalid(f"page {text!r} is no page of this list: use what {NEXT_PAGE} said") from error
    return side, (str(word), str(id))


# Lists of resources

Resource = TypeVar("Resource", bound=StreamSummary | StreamPoolSummary)


def listed(call: Call, items: list[Resource]) -> tuple[list[Resource], dict[str, str]]:
    """Filter, sort and cut as ListStreams and ListStreamPools do."""
    state = call.query.get("lifecycleState", "").upper()
    wanted = [item for item in items if has(call, item) and state in ("", item.lifecycle_state)]
    by_name = call.choice("sortBy", "TIMECREATED", "NAME", "TIMECREATED") == "NAME"
    descending = call.choice("sortOrder", "ASC" if by_name else "DESC", "ASC", "DESC") == "DESC"

    def key(item: StreamSummary | StreamPoolSummary) -> PageKey:
        return (item.name if by_name else item.time_created, item.id)

    return page_of(call, wanted, key, descending)


def has(call: Call, item: StreamSummary | StreamPoolSummary) -> bool:
    asked = (("compartmentId", item.compartment_id), ("id", item.id), ("name", item.name))
    return all(call.query.get(name) in (None, value) for name, value in asked)
