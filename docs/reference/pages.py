"""Which pages and pictures are generated, and from what."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from docs.reference.command_line import command_line_page
from docs.reference.commands import commands_page
from docs.reference.differences import differences_page
from docs.reference.events import events_page
from docs.reference.options import options_page
from docs.reference.settings import settings_page
from docs.reference.states import states_page
from docs.reference.structure import structure_picture

DOCS = Path(__file__).resolve().parent.parent
PAGES: dict[str, Callable[[], str]] = {
    "command-line.md": command_line_page,
    "commands.md": commands_page,
    "differences.md": differences_page,
    "events.md": events_page,
    "images/structure.svg": structure_picture,
    "settings.md": settings_page,
    "spark-options.md": options_page,
    "states.md": states_page,
}


def write_pages() -> Iterator[Path]:
    for name, make in PAGES.items():
        path = DOCS / name
        path.write_text(make(), encoding="utf-8")
        yield path
