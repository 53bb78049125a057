"""Generated pages are those that the code makes now, and every command and setting is in them."""

from __future__ import annotations

import pytest

from crdtstream.commands.table import COMMANDS
from crdtstream.settings.table import KNOWN
from docs.reference.commands import syntax
from docs.reference.pages import DOCS, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_page_is_fresh(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name](), "run `python -m docs.reference`"


def test_every_setting_is_in_the_page() -> None:
    text = (DOCS / "settings.md").read_text(encoding="utf-8")
    for known in KNOWN.values():
        assert f"| `{known.key}` |" in text, known.key


def test_every_command_is_in_the_page() -> None:
    lines = (DOCS / "commands.md").read_text(encoding="utf-8").splitlines()
    for command in COMMANDS:
        assert f"### {command.name.upper()}" in lines
        for child in (command.subcommands or {}).values():
            assert f"#### {child.name.upper().replace('|', ' ')}" in lines


@pytest.mark.parametrize(
    ("argument", "text"),
    [
        ({b"type": b"key", b"display_text": b"key"}, "key"),
        ({b"type": b"integer", b"display_text": b"count", b"token": b"COUNT", b"flags": ["optional"]}, "[COUNT count]"),
        ({b"type": b"string", b"display_text": b"id", b"flags": ["multiple"]}, "id [id ...]"),
        ({b"type": b"pure-token", b"token": b"NOACK", b"flags": ["optional"]}, "[NOACK]"),
    ],
)
def test_syntax(argument: dict[bytes, object], text: str) -> None:
    assert syntax(argument) == text
