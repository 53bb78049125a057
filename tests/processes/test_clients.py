"""Waiting for a region as a client does it."""

from __future__ import annotations

import pytest
import redis
from redis._parsers.base import BaseParser

from crdtstream.processes.clients import creates


def error_of(text: str) -> Exception:
    """What redis-py raises for this reply."""
    error: Exception = BaseParser.parse_error(text)  # type: ignore[no-untyped-call]
    return error


CREATE = ("XGROUP", "CREATE", "x", "g", "0", "MKSTREAM")


@pytest.mark.parametrize("text", ["TRYAGAIN this region has started as a new origin", "LOADING the log is being read"])
def test_a_region_that_cannot_create_a_group_yet_is_asked_again(text: str) -> None:
    """The client's parser takes the code off the text of these errors, and gives them classes of their own."""
    asked: list[tuple[str, ...]] = []

    def ask(*argv: str) -> str:
        asked.append(argv)
        if len(asked) == 1:
            raise error_of(text)
        return "OK"

    assert [creates(ask, "x", "g"), creates(ask, "x", "g")] == [False, True]
    assert asked == [CREATE, CREATE]


def test_any_other_error_is_raised() -> None:
    def ask(*argv: str) -> str:
        raise error_of(f"BUSYGROUP Consumer Group name already exists {len(argv)}")

    with pytest.raises(redis.ResponseError, match="BUSYGROUP"):
        creates(ask, "x", "g")
