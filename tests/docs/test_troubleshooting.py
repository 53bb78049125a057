"""The page *Troubleshooting* has every error text of the code, and no other; so it has the events to look at."""

from __future__ import annotations

import re

import pytest

from tests.docs.blocks import PAGES
from tests.docs.error_texts import WARNINGS, error_texts

PAGE = PAGES / "troubleshooting.md"
CODE_SPAN = re.compile(r"(`+) ?(.+?) ?\1(?!`)")
# Found like error texts, and shown to no user.
UNSHOWN = {
    "… blocks have to be read from disk first": "never shown: the request runs again once they were read",
    "crdtstream: …": "what stands before a text of `serve`",
    "crdtstream spark: …": "what stands before a text of `spark`",
    "unexpected … in: …": "a fault in the syntax of a command in the code, found by tests",
    "… is missing in: …": "the same",
    "[ ] must hold one argument, not …, in: …": "the same",
    "… is not an argument": "the same",
    "region … is outside 1..…": "a fault of the program: settings were checked",
    "entry … or its counter is not above the tree's last, …": "a fault of the program: `screening` was to find it",
    "salt … is outside 1..…": "a fault of the program",
    "line …: the demo has no step …": "a fault in a story of the demo, found by tests",
    "line …: the demo names no shard: clients find that of a key, and a step concerns all": "the same",
    "…: its regions have … shards: give --shards …": "the same",
    "it is not UTF-8": "part of the text about a password file",
    "stream pool": "part of the text `Unknown … ….`",
    "unknown group": "a code between regions; the text is beside it",
    "unknown stream": "the same",
}


def first_cells(heading: str) -> list[str]:
    """The first column of every table whose first heading is this one."""
    cells: list[str] = []
    inside = False
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        row = re.split(r"(?<!\\)\|", line)[1:-1] if line.startswith("|") else []
        if row and row[0].strip() == heading:
            inside = True
        elif not row:
            inside = False
        elif inside and not set(line) <= set("|-"):
            cells.append(row[0].strip())
    return cells


def texts_of_page() -> list[str]:
    """The texts of the tables and of the lists."""
    lists = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("- `")]
    spans = [span[2] for cell in [*first_cells("text"), *lists] for span in CODE_SPAN.finditer(cell)]
    return [span.replace(r"\|", "|") for span in spans]


def test_every_error_text_has_a_row() -> None:
    absent = error_texts().keys() - set(texts_of_page()) - UNSHOWN.keys()
    rows = [
        f"{error_texts()[text]}: | `{text.replace('|', chr(92) + '|')}` | cause | cure |" for text in sorted(absent)
    ]
    assert not rows, "add to docs/troubleshooting.md, in the section where the text appears:\n" + "\n".join(rows)


def test_every_row_is_a_text_of_the_code() -> None:
    stale = sorted(set(texts_of_page()) - error_texts().keys())
    assert not stale, "docs/troubleshooting.md has texts that the code no longer has:\n" + "\n".join(stale)


def test_no_text_has_two_rows() -> None:
    texts = texts_of_page()
    assert sorted(texts) == sorted(set(texts))


def test_what_is_not_shown_exists() -> None:
    assert UNSHOWN.keys() <= error_texts().keys()
    assert not UNSHOWN.keys() & set(texts_of_page())


def test_every_event_to_look_at_has_a_row() -> None:
    assert sorted(first_cells("event")) == sorted(f"`{name}`" for name in WARNINGS)


def test_every_row_has_a_cause_and_a_cure() -> None:
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        row = re.split(r"(?<!\\)\|", line)[1:-1] if line.startswith("| `") else []
        assert all(cell.strip() for cell in row), line


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("ERR MULTI calls can not be nested", id="raised"),
        pytest.param("NOAUTH Authentication required.", id="a constant of another module"),
        pytest.param("region … is not leaving", id="returned as a reason"),
        pytest.param("cannot … …: …", id="made by a function that returns an error"),
        pytest.param("column … has … bytes, but … rows need …", id="with what is known at run time only"),
        pytest.param("the region stops", id="a reason that may be absent"),
        pytest.param("client … (…) sent a wrong user or password", id="the text of an event"),
        pytest.param(
            "the reply of the home region has … bytes, and the link takes …: raise message_bytes_max", id="a row"
        ),
    ],
)
def test_a_text_is_collected(text: str) -> None:
    assert text in error_texts()


def test_the_words_of_an_exception_class_are_collected() -> None:
    assert any(text.startswith("… is damaged at byte …: …. Do not edit the file.") for text in error_texts())
