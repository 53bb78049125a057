"""The table of clients in docs/clients.md is what the tests saw."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from tests.clients_real.rows import ROWS, Row, table

PAGE = Path(__file__).resolve().parents[2] / "docs" / "clients.md"


@pytest.mark.skipif(not PAGE.exists(), reason="the documentation is not beside these tests")
def test_the_page_shows_the_rows() -> None:
    assert table() in PAGE.read_text(encoding="utf-8"), f"docs/clients.md needs this table:\n\n{table()}"


@pytest.mark.parametrize("row", [row for row in ROWS if row.package], ids=lambda row: row.package)
def test_no_newer_major_version_runs_than_is_shown(row: Row) -> None:
    try:
        runs = metadata.version(row.package)
    except metadata.PackageNotFoundError:
        pytest.skip(f"needs {row.package}")
    assert major(runs) <= major(row.version), "run it, and give the row the version"


def major(version: str) -> int:
    return int(version.partition(".")[0])
