"""Lists and numbers of the documentation that the code has too."""

from __future__ import annotations

import re

from packaging.version import Version

from crdtstream import __version__
from crdtstream.protocols import codec, manifest, state_rows
from crdtstream.region.node import Ready
from crdtstream.replication.links import greeting
from crdtstream.spark.offsets import PACKED_VERSION
from crdtstream.storage import backup, sections, segment
from nemesis.faults import FAULTS
from nemesis.mistakes import MISTAKES
from simulations.checkers import all_checkers
from tests.core.test_effects import EFFECTS
from tests.docs.blocks import PAGES
from tests.tidy import LAYERS, ROOT

# The package itself, its settings, the events of its log, and `python -m crdtstream`.
UNLISTED = ("crdtstream", "config", "setting_rows", "known_settings", "events", "flags", "__main__")


def rows_of(page: str, heading: str) -> list[list[str]]:
    """The cells of the first table behind a heading."""
    text = (PAGES / page).read_text(encoding="utf-8")
    _, _, behind = text.partition(f"\n{heading}\n")
    table = re.search(r"(?:^\|.*\n)+", behind, re.MULTILINE)
    assert table, f"{page}: no table behind {heading}"
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table[0].splitlines()[2:]]


def words_of(rows: list[list[str]]) -> list[str]:
    """What stands in backquotes in the first column."""
    return [word for row in rows for word in re.findall(r"`([^`]+)`", row[0])]


def test_the_figures_of_the_readme_are_those_of_the_performance_page() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n## Figures\n")[2].partition("\n## ")[0]
    told = [row[:4] for row in cells_of(lines) if len(row) == 4]
    measured = [row[:4] for row in cells_of((PAGES / "performance.md").read_text(encoding="utf-8"))]
    assert len(told) > 10
    assert not [row for row in told if row not in measured]


def cells_of(text: str) -> list[list[str]]:
    """The rows of every table, without headings and rules."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:2] == "| "]
    return [row for row in rows if row[0]]


def test_performance_is_a_page_and_not_a_diary() -> None:
    assert len((PAGES / "performance.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_decisions_are_records() -> None:
    _, *records = (PAGES / "decisions.md").read_text(encoding="utf-8").split("\n### ")
    wanted = ["Context", "Decision", "Consequence"]
    assert len(records) > 40
    assert not [record for record in records if re.findall(r"\*\*(\w+)\.\*\*", record) != wanted]


def test_every_note_is_linked_from_a_page() -> None:
    pages = [path.read_text(encoding="utf-8") for path in PAGES.glob("*.md")]
    notes = [path.name for path in (PAGES / "notes").glob("*.md")]
    assert notes
    assert not [note for note in notes if not any(f"(notes/{note}" in page for page in pages)]


def test_checkers_of_the_simulator() -> None:
    assert sorted(words_of(rows_of("simulation.md", "## What is checked"))) == sorted(c.name for c in all_checkers())


def test_faults_and_mistakes() -> None:
    assert sorted(words_of(rows_of("faults.md", "### Faults"))) == sorted(FAULTS)
    assert sorted(words_of(rows_of("faults.md", "## Mistakes and restarts"))) == sorted(MISTAKES)


def test_unreleased_code_does_not_call_itself_a_release() -> None:
    """It may write what the release cannot read."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    found = re.search(r"^## \[Unreleased\]\n(.*?)^## \[(\d+\.\d+\.\d+)\]", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    ours, newest = Version(__version__), Version(found[2])
    assert ours == newest or (ours.is_devrelease and ours > newest)
    assert not (found[1].strip() and ours == newest), "changes are unreleased: give __version__ the next one with .dev0"


def test_a_change_is_a_line_or_two() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    unreleased = text.partition("\n## [Unreleased]\n")[2].partition("\n## [")[0]
    changes = re.findall(r"^- .*(?:\n  .*)*", unreleased, re.MULTILINE)
    assert not [change for change in changes if change.count("\n") > 1]
    assert not [line for line in unreleased.splitlines() if len(line) > 120]


def test_versions_of_formats() -> None:
    rows = rows_of("formats.md", "## Versions")
    assert all(read.split(", ")[-1] == written for _, written, read in rows), "what is written is read"
    assert [read for name, _, read in rows if name == "batches and records"] == [
        ", ".join(map(str, range(codec.OLDEST_FORMAT, codec.FORMAT_VERSION + 1)))
    ]
    assert {name: int(written) for name, written, _ in rows} == {
        "segments of the log": segment.FORMAT_VERSION,
        "batches and records": codec.FORMAT_VERSION,
        "sections of a checkpoint": sections.FORMAT_VERSION,
        "rows of a state": state_rows.FORMAT_VERSION,
        "manifest": manifest.FORMAT_VERSION,
        "description of a backup": backup.VERSION,
        "offsets of Spark": PACKED_VERSION,
    }


def test_versions_of_the_protocol() -> None:
    spoken = [int(row[0]) for row in rows_of("wire-protocol.md", "## Versions")]
    assert spoken == [*range(greeting.OLDEST_PROTOCOL, greeting.PROTOCOL_VERSION + 1)]


def test_kinds_of_records() -> None:
    told = {
        name.upper().replace(" ", "_"): int(kind) for kind, name, _ in rows_of("formats.md", "### Kinds of records")
    }
    assert told == {name: getattr(codec, name) for name in codec.__all__ if name.isupper() and name != "FORMAT_VERSION"}


def test_effects() -> None:
    told = [row[1].strip("`") for row in rows_of("formats.md", "## Batches")]
    assert sorted(told) == sorted(kind.__name__ for kind in EFFECTS)


def test_layers() -> None:
    ranks = {part: rank for rank, row in enumerate(LAYERS) for part in row if part not in UNLISTED}
    told = [re.findall(r"`(\w+)`", row[1]) for row in rows_of("architecture.md", "## Layers")]
    assert sorted(part for row in told for part in row) == sorted(ranks)
    order = [min(ranks[part] for part in row) for row in told]
    assert order == sorted(order), "a layer is listed above what it imports"


def test_paths_of_the_first_hour() -> None:
    """A word with a slash is a path, in backquotes and in blocks alike."""
    text = (PAGES / "reading-the-code.md").read_text(encoding="utf-8")
    spans = re.findall(r"`([^`\n]+)`", text) + re.findall(r"^\.venv.*", text, re.MULTILINE)
    paths = {word for span in spans for word in span.split() if "/" in word and not word.startswith(".venv/")}
    assert len(paths) > 100
    assert not sorted(path for path in paths if not (ROOT / path).exists())


def test_the_fields_of_ready() -> None:
    text = (PAGES / "architecture.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^Ready\.(\w+)", text, re.MULTILINE)) == sorted(Ready.__slots__)


def test_alerts() -> None:
    rules = (ROOT / "deploy" / "prometheus" / "alerts.yml").read_text(encoding="utf-8")
    assert words_of(rows_of("operations.md", "### Alerts")) == re.findall(r"- alert: (\w+)", rules)
