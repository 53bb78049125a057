"""Replies of several regions as one table: a row for each field, a column for each region, differences marked. Pure.

A map-like reply becomes a field for each pair, a list of entries or rows a field for each element named by its ID, and
any other reply a single field. Fields with local state (consumers, pending, idle times) never count as different.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from crdtstream.observing.asking import RegionAnswer

AGREE = 0
DIFFER = 1
UNREACHABLE = 3

LOCAL = frozenset(
    (
        "consumers",
        "pending",
        "entries-read",
        "lag",
        "idle",
        "inactive",
        "last-delivered-id",
        "pel-count",
        "radix-tree-keys",
        "radix-tree-nodes",
    )
)
MISSING = "-"
# The field that says why regions have not replied.
ERROR = "error"


# Numbers stay numbers, for programs.
Cell = str | int


@dataclass(frozen=True)
class ComparisonRow:
    """One field in every region; `differs` is always false for a local field. `shard` is whose field it is, None where
    regions have one shard, or the table is about one key.
    """

    field: str
    cells: list[Cell]
    differs: bool
    shard: int | None = None


@dataclass(frozen=True)
class RegionComparison:
    """A table of replies and the resulting exit code."""

    regions: list[str]
    rows: list[ComparisonRow]
    code: int


def joined(found: Sequence[tuple[int | None, RegionComparison]]) -> RegionComparison:
    """The comparisons of all shards as one, with the gravest code; a region that has no such shard has empty cells."""
    names = list(dict.fromkeys(name for _, each in found for name in each.regions))
    rows = [
        replace(
            row, cells=[dict(zip(each.regions, row.cells, strict=True)).get(name, "") for name in names], shard=shard
        )
        for shard, each in found
        for row in each.rows
    ]
    return RegionComparison(names, rows, max(each.code for _, each in found))


def text_of(value: Any) -> str:
    """Format a reply as one line."""
    if value is None:
        return "nil"
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, list):
        return " ".join(text_of(item) for item in value)
    return str(value)


def cell_of(value: Any) -> Cell:
    return value if isinstance(value, int) else text_of(value)


def fields_of(value: Any) -> dict[str, Cell]:
    """Return the fields of a reply, name -> text or number; see the module docstring."""
    if not isinstance(value, list):
        return {"value": cell_of(value)}
    if value and all(isinstance(item, list) for item in value):
        return _named_elements(value)
    if len(value) % 2 == 0 and all(isinstance(name, bytes) for name in value[::2]):
        return {text_of(name): cell_of(item) for name, item in zip(value[::2], value[1::2], strict=True)}
    return {str(index): cell_of(item) for index, item in enumerate(value, 1)}


def _named_elements(elements: list[list[Any]]) -> dict[str, Cell]:
    """Name entries by ID, and maps by their name and field; further elements with the same name get an apostrophe."""
    fields: dict[str, Cell] = {}
    for element in elements:
        if element and element[0] in (b"name", b"region"):
            inner = fields_of(element)
            name = str(inner.pop(text_of(element[0])))
            fields.update({f"{name} {field}": text for field, text in inner.items()})
        else:
            name = text_of(element[0]) if element else ""
            while name in fields:
                name += "'"
            fields[name] = text_of(element[1:])
    return fields


def named_rows(answers: list[RegionAnswer], field: bytes = b"name") -> list[RegionAnswer]:
    """Put the region's name in front of each row, where rows are maps about regions.

    A region that was never linked to another knows only its number or address; a third region may know its name.
    """
    names = {row[b"region"]: row[field] for answer in answers for row in _maps(answer) if row.get(field)}
    return [
        RegionAnswer(answer.region, [_named(row, field, names) for row in rows]) if rows else answer
        for answer, rows in ((answer, _maps(answer)) for answer in answers)
    ]


def _maps(answer: RegionAnswer) -> list[dict[bytes, Any]]:
    if answer.error or not isinstance(answer.value, list):
        return []
    return [dict(zip(row[::2], row[1::2], strict=True)) for row in answer.value]


def _named(row: dict[bytes, Any], field: bytes, names: dict[Any, bytes]) -> list[Any]:
    name = row.pop(field) or names.get(row[b"region"]) or row.get(b"address") or b"region %d" % row[b"region"]
    # Another name in the row is that of the region, where rows are about origins.
    told = {b"region-name" if key == b"name" else key: value for key, value in row.items()}
    return [b"name", name, *(part for pair in told.items() for part in pair)]


def compare(answers: list[RegionAnswer], local: frozenset[str] = LOCAL) -> RegionComparison:
    """Compare replies side by side; a region that did not answer is a column with its error."""
    fields: list[dict[str, Cell]] = [{} if answer.error else fields_of(answer.value) for answer in answers]
    names = list(dict.fromkeys(name for known in fields for name in known))
    rows = [_row(name, answers, fields, local) for name in names]
    if any(answer.error for answer in answers):
        rows.insert(0, _error_row(answers))
    return RegionComparison([answer.region for answer in answers], rows, _code(answers, rows))


def _row(name: str, answers: list[RegionAnswer], fields: list[dict[str, Cell]], local: frozenset[str]) -> ComparisonRow:
    cells = [known.get(name, MISSING) for known in fields]
    compared = [cell for cell, answer in zip(cells, answers, strict=True) if not answer.unreachable]
    return ComparisonRow(name, cells, name.rpartition(" ")[2] not in local and len(set(compared)) > 1)


def _error_row(answers: list[RegionAnswer]) -> ComparisonRow:
    cells: list[Cell] = [answer.error for answer in answers]
    answered = [answer.error for answer in answers if not answer.unreachable]
    return ComparisonRow(ERROR, cells, len(set(answered)) > 1)


def _code(answers: list[RegionAnswer], rows: list[ComparisonRow]) -> int:
    if any(answer.unreachable for answer in answers):
        return UNREACHABLE
    return DIFFER if any(row.differs for row in rows) else AGREE
