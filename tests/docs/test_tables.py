"""The tables of the documentation run as scenarios on pure nodes, and show the replies that come.

A table behind `<!-- scenario: MODE -->` has a column for each region. A cell is *sync*, or commands in backquotes, each
with `→` and its reply where that is shown: IDs, names of groups or consumers, or what `shown` makes of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from simulations.scenario import Scenario
from tests.docs.blocks import PAGES

MARKED = re.compile(r"^<!-- scenario: (\S+) -->\n\n((?:\|.*\n)+)", re.MULTILINE)
COMMAND = re.compile(r"`([^`]+)`(?: → ([^`]*))?")
ID = re.compile(r"\d+-\d+")
NAME = re.compile(r"\[name, (\w+)")
SYNC = "*sync*"

Step = tuple[str, str]


def tables() -> Iterator[tuple[str, str, str]]:
    """Place, ID mode, and the table."""
    for path in sorted(PAGES.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        for match in MARKED.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            yield f"{path.name}:{line}", match[1], match[2]


TABLES = list(tables())


def steps_of(table: str) -> Iterator[Step]:
    """Lines of a scenario, and the reply that is shown for each; empty where none is."""
    _, _, *rows = table.splitlines()
    for row in rows:
        _, *cells = [cell.strip() for cell in row.strip("|").split("|")]
        syncing = [number for number, cell in enumerate(cells, 1) if cell == SYNC]
        if syncing:
            yield "  sync" if len(syncing) == len(cells) else f"  sync {syncing[0]} {syncing[1]}", ""
        for number, cell in enumerate(cells, 1):
            assert cell in ("", SYNC) or COMMAND.match(cell), cell
            for command, reply in COMMAND.findall(cell):
                yield f"  {number}> {command}", reply.strip()


def regions_of(table: str) -> int:
    return table.splitlines()[0].count("Region")


def shown(command: str, reply: list[str], wanted: str) -> str:
    """The reply as tables show it."""
    text = " ".join(reply)
    name = command.split()[0]
    if text.startswith("! "):
        return "error"
    if wanted.startswith("lag "):
        lag: str = re.findall(r"lag, \d+", text)[0]
        return lag.replace(",", "")
    if name in ("XRANGE", "XREAD", "XREADGROUP", "XPENDING", "XINFO"):
        return ", ".join((NAME if name == "XINFO" else ID).findall(text)) or "nothing"
    return text


def differences(mode: str, table: str) -> list[str]:
    steps = list(steps_of(table))
    text = "\n".join([f"regions {regions_of(table)}", f"id-mode {mode}", "", *[line for line, _ in steps], ""])
    scenario = Scenario(text)
    scenario.run()
    came = [line for line in scenario.lines if line.command]
    wanted = [reply for line, reply in steps if "> " in line]
    return [
        f"{line.text.strip()}: shown {reply!r}, came {shown(line.command, line.actual or [], reply)!r}"
        for line, reply in zip(came, wanted, strict=True)
        if (reply and shown(line.command, line.actual or [], reply) != reply)
        or (not reply and "! " in (line.actual or [""])[0])
    ]


@pytest.mark.parametrize(("mode", "table"), [case[1:] for case in TABLES], ids=[case[0] for case in TABLES])
def test_table(mode: str, table: str) -> None:
    assert not differences(mode, table)


def test_the_published_tables_are_there() -> None:
    """Adds, concurrent adds, IDs, removal, reading, groups, both deletions, what is local, redirection."""
    assert len(TABLES) >= 11


def test_a_wrong_reply_is_named() -> None:
    table = "| time | Region 1 |\n|---|---|\n| t1 | `XADD x 110 f v` → 110-2 |\n| t2 | `XADD x 1-1 f v` |\n"
    first, second = differences("strict", table)
    assert first == "1> XADD x 110 f v: shown '110-2', came '110-1'"
    assert second.startswith("1> XADD x 1-1 f v: shown ''")
