"""The page in a browser: offline, in both schemes, as wide as its window; names of streams are text."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("jinja2")

from crdtstream.spark.report_page.page import page, write_page
from tests.dashboard.browser import DESK, PHONE, chromium, looking_at, need_chromium
from tests.spark.report_page.rows import AWAY, row, two_days

NOW = datetime(2026, 11, 23, 6, tzinfo=UTC)
pytestmark = pytest.mark.timeout(180)


def test_each_chart_has_its_numbers_in_a_table() -> None:
    text = page(two_days(), "s3://lake/orders", NOW)
    assert text.count("<svg") == text.count("<table") == text.count("<caption>") == text.count('role="img"') == 11
    assert "s3://lake/orders" in text and "2026-11-21 00:00 to 2026-11-22 23:00 UTC, by hour" in text
    assert f"origin {AWAY} in stream" in text, "the longest gap in words"


def test_what_is_not_there_is_said_and_not_drawn() -> None:
    text = page([row("s", "1.x", entries=5, size_bytes=50, lag_ms=5, lag_ms_max=9)], "archive", NOW)
    assert "None in 1 hour." in text and "None: each origin wrote to its streams in every hour." in text
    assert text.count("<svg") == 8
    assert "The archive holds none yet." in page([], "archive", NOW)


def test_the_page_asks_nobody_for_anything_and_fits(tmp_path: Path) -> None:
    need_chromium()
    write_page(two_days(), "s3://lake/orders", tmp_path / "report.html", NOW)
    with chromium() as browser, looking_at(browser, tmp_path.as_uri()) as looker:
        grounds = set()
        for size, scheme in ((DESK, "light"), (DESK, "dark"), (PHONE, "light")):
            with looker.page("/report.html", size, scheme) as shown:
                assert shown.evaluate("document.documentElement.scrollWidth") == size[0]
                assert shown.locator("svg text", has_text="logins").first.text_content().startswith("audit:<b>logins")
                assert shown.locator("b").count() == 0
                shown.locator("summary").first.click()
                assert shown.locator("tbody tr:visible").count() == 48
                shown.locator("summary").first.click()
                pictures(shown, scheme)
                grounds.add(shown.evaluate("getComputedStyle(document.body).backgroundColor"))
        assert len(grounds) == 2, "light and dark"


def pictures(shown: Any, scheme: str) -> None:
    """The pictures of the documentation, if SCREENSHOTS names a directory: `docs/images`."""
    directory = os.environ.get("SCREENSHOTS")
    if not directory or shown.viewport_size["width"] != DESK[0]:
        return
    target = Path(directory) / f"spark-report-{scheme}.png"
    if scheme == "light":
        shown.screenshot(path=target, clip={"x": 0, "y": 0, "width": DESK[0], "height": 1180}, full_page=True)
    else:
        shown.locator("section.wide").screenshot(path=target)
