"""Every command block of the documentation runs, and its output is the one that is shown."""

from __future__ import annotations

import importlib.util
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from crdtstream.processes.region import RegionProcess, regions_in
from tests.docs.blocks import EXECUTED, READ, ROOT, Block, Page, blocks_of, pages
from tests.docs.blocks import PAGES as DOCS
from tests.docs.session import Session, matches

PAGES = pages()
RUN = [page for page in PAGES if page.executed()]
SLOW = [page for page in PAGES if page.is_slow]
NOT_RUN_MAX = 22
README_LINES_MAX = 120


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "session").mkdir()
    return tmp_path


@pytest.mark.parametrize("page", RUN, ids=[page.name for page in RUN])
def test_blocks(page: Page, directory: Path) -> None:
    run_blocks(page, page.executed(), directory)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("page", SLOW, ids=[page.name for page in SLOW])
def test_blocks_with_slow_ones(page: Page, directory: Path) -> None:
    run_blocks(page, page.executed(slow=True), directory)


def run_blocks(page: Page, blocks: list[Block], directory: Path) -> None:
    for need in ["redis-cli", *page.needs]:
        if shutil.which(need) is None and importlib.util.find_spec(need) is None:
            pytest.skip(f"needs {need}")
    with regions_in(directory) as regions:
        running = regions.make(*range(1, len(page.regions) + 1), bulk=True)
        for region, name in zip(running, page.regions, strict=True):
            others = [other for other in running if other is not region]
            region.start(*others, name=name, cluster="shop")
        await_founded(running)
        session = Session(directory / "session", running)
        try:
            for block in blocks:
                session.run(block)
        finally:
            session.close()


def await_founded(regions: list[RegionProcess]) -> None:
    for region in regions:
        region.await_serving()
    for region in regions:
        region.await_admitted()


def all_blocks() -> Iterator[Block]:
    for page in PAGES:
        yield from page.blocks


def test_no_command_hides_in_another_kind_of_block() -> None:
    for block in all_blocks():
        assert block.language in READ | EXECUTED, f"{block.place}: no test executes {block.language or 'plain'} blocks"
        if block.language in READ:
            prompts = [line for line in block.lines if line.startswith(("$ ", "127.0.0.1:"))]
            assert not prompts, f"{block.place}: {prompts[0]}: a command belongs into a console block"


def test_code_is_fenced() -> None:
    """A block by indentation alone would be executed by nobody."""
    for path in [*DOCS.glob("*.md"), ROOT / "README.md"]:
        beginning, before, fenced = "", "", False
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            fenced ^= line.lstrip().startswith("```")
            if line and not line.startswith(" "):
                beginning = line
            inside = fenced or re.match(r"[-*] |\d+\. ", beginning)
            assert before or inside or not line.startswith("    "), f"{path.name}:{number}: {line}"
            before = line


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= README_LINES_MAX


def test_few_blocks_are_not_run() -> None:
    skipped = [block for block in all_blocks() if block.reason]
    assert all(len(block.reason.split()) > 2 for block in skipped), "a reason is a sentence"
    assert len(skipped) <= NOT_RUN_MAX, [block.place for block in skipped]


def test_most_pages_have_commands() -> None:
    assert len(RUN) >= 10
    assert sum(len(page.executed()) for page in RUN) >= 40


@pytest.mark.parametrize(
    ("shown", "came", "same"),
    [
        (["OK"], ["OK"], True),
        (["OK"], ["(nil)"], False),
        (["17...-1"], ["1763-1"], True),
        (["a", "...", "c"], ["a", "b", "b", "c"], True),
        (["a", "...", "c"], ["a", "c"], True),
        (["a", "...", "c"], ["a", "b"], False),
        (["a"], ["a", "b"], False),
        (["1) a"], ["1) a  ", ""], True),
    ],
)
def test_matching(shown: list[str], came: list[str], same: bool) -> None:
    assert matches(shown, came) is same


def test_a_wrong_output_is_named(directory: Path) -> None:
    session = Session(directory / "session", [])
    try:
        with pytest.raises(AssertionError, match=r"page\.md:2: echo a\n.*shown:\nb\ncame:\na"):
            session.run(Block("page.md", 1, "console", ["$ echo a", "b"]))
        with pytest.raises(AssertionError, match="exit code 1"):
            session.run(Block("page.md", 1, "console", ["$ false"]))
        with pytest.raises(AssertionError, match="exit code 1"):
            session.run(Block("page.md", 1, "python", ["raise SystemExit(1)"]))
    finally:
        session.close()


def test_what_a_comment_says_holds_for_the_next_block_alone() -> None:
    text = "<!-- not run: it is slow -->\n\n```console\n$ a\n```\n\n```console\n$ b \\\n  c\nout\n> more\n```\n"
    first, second = blocks_of("page.md", text)
    assert (first.reason, second.reason) == ("it is slow", "")
    assert [(command.text, command.output) for command in second.commands()] == [("b \\\n  c", ["out", "> more"])]
