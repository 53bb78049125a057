"""What tests of argument parsers share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from crdtstream.connections.context import CommandError


def words(line: str) -> list[bytes]:
    return line.encode().split()


def refused(parse: Callable[[], object], text: str) -> None:
    with pytest.raises(CommandError) as caught:
        parse()
    assert caught.value.text == text
