"""The parts of a story: rows that happen one after the other, as in a table with one column for each region.

A cell is text, `COMMAND -> REPLY`, with the reply as `show_reply` formats it. ` effects=N` at its end says how many
effects the command must make for the other regions. At the start of a story every link is held, and only these rows
move anything between regions:

    Sync     the links among these regions carry everything pending, and are held again
    Cut      a link is dropped
    Settle   wait until these regions agree, over the links as they are
    Heal     every link is open, and all regions agree
    Differ   the digests of these two regions are not equal
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Any

from crdtstream.demo.cluster import NAMES

CELL = re.compile(r"(?P<command>.+?) -> (?P<reply>.*?)(?: effects=(?P<effects>\d+))?")


@dataclass(frozen=True, slots=True)
class Step:
    """One command in one region, and its expected reply."""

    region: str
    command: str
    reply: str
    effects: int | None

    @property
    def argv(self) -> list[str]:
        return shlex.split(self.command)


@dataclass(frozen=True, slots=True)
class Sync:
    regions: tuple[str, ...] = NAMES


@dataclass(frozen=True, slots=True)
class Cut:
    one: str
    other: str


@dataclass(frozen=True, slots=True)
class Settle:
    regions: tuple[str, ...] = NAMES


@dataclass(frozen=True, slots=True)
class Heal:
    regions: tuple[str, ...] = NAMES


@dataclass(frozen=True, slots=True)
class Differ:
    one: str
    other: str


Row = tuple[Step, ...] | Sync | Cut | Settle | Heal | Differ


@dataclass(frozen=True, slots=True)
class Story:
    """A title, a lesson, the regions that get a column, and the rows."""

    title: str
    lesson: str
    regions: tuple[str, ...]
    rows: tuple[Row, ...]


def at(everywhere: str = "", **cells: str) -> Row:
    """Create the cells of one moment, by region, or one cell for all three."""
    told = dict.fromkeys(NAMES, everywhere) if everywhere else cells
    return tuple(read_cell(region, told[region]) for region in NAMES if region in told)


def read_cell(region: str, text: str) -> Step:
    read = CELL.fullmatch(text)
    assert read is not None, f"not COMMAND -> REPLY: {text!r}"
    effects = None if read["effects"] is None else int(read["effects"])
    return Step(region, read["command"], read["reply"], effects)


def show_reply(argv: list[str], reply: Any) -> str:
    """Format entries as [their IDs], groups as [their names], and other replies as text."""
    if isinstance(reply, Exception):
        return f"error: {reply}"
    if reply is None:
        return "nothing"
    command = argv[0].upper()
    if command in ("XREAD", "XREADGROUP"):
        return listed(entry[0] for _, entries in reply for entry in entries)
    if command in ("XRANGE", "XREVRANGE", "XPENDING"):
        return listed(entry[0] for entry in reply)
    if [word.upper() for word in argv[:2]] == ["XINFO", "GROUPS"]:
        return listed(group[1] for group in reply)
    return str(reply)


def listed(items: Any) -> str:
    return f"[{', '.join(items)}]"
