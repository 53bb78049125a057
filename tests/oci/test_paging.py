"""Pages: every item once, forth and back, also where items come and go meanwhile."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.oci.calls import Call
from crdtstream.oci.errors import OciError
from crdtstream.oci.paging import NEXT_PAGE, PREV_PAGE, PageKey, page_of


def page(items: list[PageKey], descending: bool, **query: str) -> tuple[list[PageKey], dict[str, str]]:
    return page_of(Call({}, query, {}, b"", ""), items, lambda item: item, descending)


def walk(
    items: list[PageKey], descending: bool, limit: int, towards: str, start: str | None = None
) -> list[list[PageKey]]:
    pages = []
    token = start
    while True:
        shown, headers = page(items, descending, limit=str(limit), **({"page": token} if token else {}))
        pages.append(shown)
        token = headers.get(towards)
        if token is None:
            return pages


KEYS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 99).map(str)), unique=True)


@given(KEYS, st.booleans(), st.integers(1, 7))
def test_every_item_once(items: list[PageKey], descending: bool, limit: int) -> None:
    pages = walk(items, descending, limit, NEXT_PAGE)
    assert [item for shown in pages for item in shown] == sorted(items, reverse=descending)
    assert all(len(shown) == limit for shown in pages[:-1])


@given(KEYS.filter(lambda items: len(items) > 3), st.booleans())
def test_there_and_back(items: list[PageKey], descending: bool) -> None:
    _, first = page(items, descending, limit="2")
    second, headers = page(items, descending, limit="2", page=first[NEXT_PAGE])
    assert second == sorted(items, reverse=descending)[2:4]
    back, end = page(items, descending, limit="2", page=headers[PREV_PAGE])
    assert back == sorted(items, reverse=descending)[:2] and PREV_PAGE not in end


def test_items_that_come_shift_nothing() -> None:
    items = [("a", str(number)) for number in range(6)]
    _, headers = page(items, True, limit="2")
    shown, _ = page([*items, ("b", "new")], True, limit="2", page=headers[NEXT_PAGE])
    assert shown == [("a", "3"), ("a", "2")]


def test_no_neighbours_no_tokens() -> None:
    assert page([("a", "1")], False) == ([("a", "1")], {})
    assert page([], False) == ([], {})


@pytest.mark.parametrize("token", ["x", "W10=", "é", "N10"])
def test_a_token_that_is_none(token: str) -> None:
    with pytest.raises(OciError, match="is no page of this list"):
        page([("a", "1")], False, page=token)
