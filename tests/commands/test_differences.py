"""The table of intended differences names commands that exist."""

from __future__ import annotations

from crdtstream.commands.differences import DIFFERENCES
from crdtstream.commands.table import TABLE


def test_rows_name_commands_and_say_why() -> None:
    for row in DIFFERENCES:
        assert row.commands and row.what.endswith(".") and row.why.endswith("."), row
        assert not [name for name in row.commands if name.encode() not in TABLE], row


def test_no_difference_is_told_twice() -> None:
    assert len({row.what for row in DIFFERENCES}) == len(DIFFERENCES)
