"""Addresses of pages, whose names are bytes."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from crdtstream.dashboard.addresses import number_in, parameters_of, text_in, url


@pytest.mark.parametrize("name", [b"orders", b"a b&c=d", b"\xff\x00", "ä/?#".encode(), b"+", b"javascript:alert(1)"])
def test_a_name_comes_back_as_it_was(name: bytes) -> None:
    told = url("/group", key=name, group=name, count=None)
    assert parameters_of(urlsplit(told).query.encode()) == {"key": name, "group": name}
    assert told.startswith("/group?key=") and "<" not in told


def test_parameters_as_texts_and_numbers() -> None:
    told = parameters_of(b"a=x+y&n=12&bad=12x&empty=&flag")
    assert told == {"a": b"x y", "n": b"12", "bad": b"12x", "empty": b""}
    assert (text_in(told, "a"), text_in(told, "none", "?")) == ("x y", "?")
    assert [number_in(told, name, 7) for name in ("n", "bad", "empty", "none")] == [12, 7, 7, 7]
