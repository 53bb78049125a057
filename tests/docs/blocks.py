"""Code blocks of the documentation, and the comments that say how they are tested.

    <!-- regions: east west -->      these regions run before the first block of the page, at ports 7001, 7101, 7201
                                     (Redis, replication, bulk) and so on
    <!-- needs: java pyspark -->     the page's blocks run only where these programs and packages are installed
    <!-- not run: REASON -->         the block that follows is not executed
    <!-- slow: REASON -->            the block that follows is executed with `-m slow` alone

A `console` block holds commands behind prompts, `$ ` for a shell and `127.0.0.1:7001> ` for redis-cli, each followed by
its output; a line of a command that goes on in the next one ends with a backslash, or the next one begins with `> `. A
`python` block is a whole program, or includes a file (`--8<--`) that a test of its own runs. In the output `...`
stands for anything: alone in its line for any number of lines. Output that is not shown is not compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = ROOT / "docs"
FENCE = re.compile(r"^(\s*)(`{3,})(\w*)\s*$")
COMMENT = re.compile(r"^\s*<!-- (regions|needs|not run|slow): (.+) -->$")
SHELL = re.compile(r"^\$ (.*)$")
REDIS = re.compile(r"^127\.0\.0\.1:(\d+)> (.*)$")
CONTINUED = re.compile(r"^>(?: (.*)|$)")
# What is read and not executed; any other language is refused, so that no command hides in one.
READ = frozenset(("text", "toml", "protobuf", "yaml", "svg"))
EXECUTED = frozenset(("console", "python"))


@dataclass
class Command:
    """One command and the output shown for it; `port` is 0 in a shell."""

    line: int
    port: int
    text: str
    output: list[str] = field(default_factory=list)


@dataclass
class Block:
    """A fenced block; `reason` says why it is not run, `slow` why it is not run each time."""

    page: str
    line: int
    language: str
    lines: list[str]
    reason: str = ""
    slow: str = ""

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def included(self) -> bool:
        return self.language == "python" and self.lines[0].startswith("--8<--")

    def commands(self) -> list[Command]:
        """Of a `console` block."""
        found: list[Command] = []
        for number, line in enumerate(self.lines, self.line + 1):
            if shell := SHELL.match(line):
                found.append(Command(number, 0, shell[1]))
            elif redis := REDIS.match(line):
                found.append(Command(number, int(redis[1]), redis[2]))
            else:
                assert found, f"{self.page}:{number}: output before any command"
                extend(found[-1], line)
        assert found, f"{self.place}: no command"
        return found


def extend(command: Command, line: str) -> None:
    """A line below a command: more of it, or its output."""
    more = CONTINUED.match(line)
    if (more or command.text.endswith("\\")) and not command.output and not command.port:
        command.text += "\n" + ((more[1] or "") if more else line)
    else:
        command.output.append(line)


@dataclass
class Page:
    """One page, with what its blocks need."""

    name: str
    blocks: list[Block]
    regions: list[str]
    needs: list[str]

    def executed(self, slow: bool = False) -> list[Block]:
        chosen = [b for b in self.blocks if b.language in EXECUTED and not b.reason and not b.included]
        return [b for b in chosen if slow or not b.slow]

    @property
    def is_slow(self) -> bool:
        return any(b.slow for b in self.blocks)


def read_page(path: Path) -> Page:
    text = path.read_text(encoding="utf-8")
    words = {kind: value.split() for kind, value in comments(text)}
    return Page(path.name, list(blocks_of(path.name, text)), words.get("regions", []), words.get("needs", []))


def comments(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        if match := COMMENT.match(line):
            yield match[1], match[2]


def blocks_of(page: str, text: str) -> Iterator[Block]:
    block: Block | None = None
    opening = ""
    said: dict[str, str] = {}
    indent = 0
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if block is not None:
            if fence and fence[2] == opening:
                yield block
                block = None
            else:
                block.lines.append(line[min(indent, len(line) - len(line.lstrip())) :])
        elif fence:
            indent, opening = len(fence[1]), fence[2]
            block = Block(page, number, fence[3], [], said.get("not run", ""), said.get("slow", ""))
            said = {}
        elif comment := COMMENT.match(line):
            said = {comment[1]: comment[2]}
        elif line.strip():
            said = {}
    assert block is None, f"{page}: the last block has no end"


def pages() -> list[Page]:
    notes = sorted((PAGES / "notes").glob("*.md"))
    return [read_page(path) for path in [*sorted(PAGES.glob("*.md")), *notes, ROOT / "README.md"]]
