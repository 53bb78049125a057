"""The stories of the demo: scenario texts in `stories/`, and their replies in the words of its tables.

Each story has its own key and ends with every group read by the same consumer in all its regions, so that after all
stories `XRANGE` and `XINFO GROUPS` of every key are the same everywhere. The simulator plays the same texts.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from crdtstream.demo.cluster import NAMES
from crdtstream.scenarios.reply import ReplyError, Value
from crdtstream.scenarios.text import ScenarioText

FOLDER = Path(__file__).with_name("stories")
KEYS = ("orders", "cart", "mail", "news", "ticks", "jobs", "payments", "tasks", "repairs", "{repairs}.scrap")


class Story(ScenarioText):
    """A scenario with a title and a lesson, whose moments are the rows of a table with a column for each region."""

    @property
    def title(self) -> str:
        return self.notes[0]

    @property
    def lesson(self) -> str:
        return " ".join(self.notes[1:])

    @property
    def names(self) -> tuple[str, ...]:
        return NAMES[: self.regions]


def all_stories() -> tuple[Story, ...]:
    return tuple(Story(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.txt")))


def brief_reply(argv: list[str], reply: Value) -> str:
    """Format entries as [their IDs], groups as [their names], and other replies as text."""
    if isinstance(reply, ReplyError):
        return f"error: {reply.text.removeprefix('ERR ')}"
    if reply is None:
        return "nothing"
    items: Any = reply
    command = argv[0].upper()
    if command in ("XREAD", "XREADGROUP"):
        return listed(entry[0] for _, entries in items for entry in entries)
    if command in ("XRANGE", "XREVRANGE", "XPENDING", "XCLAIM"):
        return listed(entry[0] for entry in items)
    if [word.upper() for word in argv[:2]] == ["XINFO", "GROUPS"]:
        return listed(group[1] for group in items)
    return str(reply)


def listed(items: Iterable[str]) -> str:
    return f"[{', '.join(items)}]"
