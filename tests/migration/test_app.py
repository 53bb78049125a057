"""What `crdtstream import` prints."""

from __future__ import annotations

import pytest

from crdtstream.migration.app import imported_table, screen
from crdtstream.migration.importing import Imported


def test_a_table_without_a_terminal_is_not_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = imported_table({b"s" * 2_000: Imported(entries=10**12)})
    monkeypatch.delenv("COLUMNS", raising=False)
    screen().print(table)
    shown = capsys.readouterr().err
    assert "s" * 2_000 in shown and str(10**12) in shown
    monkeypatch.setenv("COLUMNS", "60")
    screen().print(table)
    assert max(map(len, capsys.readouterr().err.splitlines())) <= 60
