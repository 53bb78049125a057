"""The site builds without a warning: every link and anchor leads somewhere, every page is in the navigation."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import PAGES, ROOT

NEEDS_MKDOCS = pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="needs the extra docs")


def build(source: Path, site: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", source / "mkdocs.yml", "-d", site],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )


@NEEDS_MKDOCS
def test_the_site_builds_strictly(tmp_path: Path) -> None:
    built = build(ROOT, tmp_path)
    assert built.returncode == 0, built.stderr
    for page in PAGES.glob("*.md"):
        made = tmp_path / ("" if page.stem == "index" else page.stem) / "index.html"
        assert made.exists(), f"{page.name} is not in the site"
        assert "8&lt;" not in made.read_text(encoding="utf-8"), f"{page.name}: a file was not included"
    assert "class Regions" in text_of(tmp_path / "clients" / "index.html")
    assert not list(tmp_path.rglob("reference")), "the generator is no page"


def text_of(page: Path) -> str:
    """Without the marks of highlighting."""
    return re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8"))


@NEEDS_MKDOCS
@pytest.mark.parametrize("link", ["[a](no-such-page.md)", "[a](tutorial.md#no-such-heading)", "[a](#nowhere)"])
def test_a_link_that_leads_nowhere_is_refused(tmp_path: Path, link: str) -> None:
    (tmp_path / "docs").mkdir()
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:")[0]
    (tmp_path / "mkdocs.yml").write_text(config, encoding="utf-8")
    (tmp_path / "docs" / "tutorial.md").write_text("# Tutorial\n", encoding="utf-8")
    (tmp_path / "docs" / "index.md").write_text(f"# Home\n\n{link}\n", encoding="utf-8")
    built = build(tmp_path, tmp_path / "site")
    assert built.returncode != 0
    assert "WARNING -  Doc file 'index.md' contains a link" in built.stderr, built.stderr


def test_no_page_asks_another_host() -> None:
    assert "font: false" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
