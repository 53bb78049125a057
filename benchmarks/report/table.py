"""Results as a table for people and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from benchmarks.report.figures import Result, Side

SIDES = ("ours", "Redis", "ratio")
COLUMNS = ("", *SIDES, *(f"CPU {side}" for side in SIDES), *(f"instr. {side}" for side in SIDES), "target", "reached")
NOTE = (
    "CPU in µs of the server and instr., its instructions in user mode, for each operation; "
    "* the load generator was busier than the server"
)


def make_table(results: Sequence[Result], machine: dict[str, str]) -> Table:
    table = Table(title="crdtstream beside Redis", caption=caption(machine), caption_justify="left")
    for column in COLUMNS:
        table.add_column(column, justify="left" if not column else "right")
    for result in results:
        table.add_row(*cells(result))
    return table


def cells(result: Result) -> list[str | Text]:
    """Return the cells in the order of `COLUMNS`; missing figures are empty."""
    return [
        result.title,
        f"{value_text(result.ours)} {result.unit}",
        "" if result.redis is None else value_text(result.redis),
        ratio_text(result.ratio),
        cpu_text(result.ours),
        cpu_text(result.redis),
        ratio_text(result.cpu_ratio),
        instructions_text(result.ours),
        instructions_text(result.redis),
        ratio_text(result.instruction_ratio),
        "" if result.target is None else str(result.target),
        reached_text(result.reached),
    ]


def value_text(side: Side) -> str:
    return number_text(side.value) + ("*" if side.driver_bound else "")


def number_text(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def ratio_text(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


def cpu_text(side: Side | None) -> str:
    return "" if side is None or side.cpu_us is None else number_text(side.cpu_us)


def instructions_text(side: Side | None) -> str:
    return "" if side is None or side.instructions is None else number_text(side.instructions)


def reached_text(reached: bool | None) -> str | Text:
    if reached is None:
        return ""
    return Text("yes", "green") if reached else Text("no", "red")


def caption(machine: dict[str, str]) -> str:
    return "\n".join([*(f"{key}: {value}" for key, value in machine.items()), NOTE])


def make_json(results: Sequence[Result], machine: dict[str, str], failures: dict[str, str]) -> str:
    rows = [row_object(result) for result in results]
    return json.dumps({"machine": machine, "rows": rows, "failures": failures}, indent=2)


def row_object(result: Result) -> dict[str, object]:
    return {
        "name": result.name,
        "title": result.title,
        "unit": result.unit,
        "ours": side_object(result.ours),
        "redis": None if result.redis is None else side_object(result.redis),
        "ratio": result.ratio,
        "cpu_ratio": result.cpu_ratio,
        "instruction_ratio": result.instruction_ratio,
        "target": None if result.target is None else {"sense": result.target.sense, "bound": result.target.bound},
        "reached": result.reached,
        "details": result.details,
    }


def side_object(side: Side) -> dict[str, object]:
    return {
        "value": side.value,
        "cpu_us": side.cpu_us,
        "low": side.low,
        "high": side.high,
        "driver_bound": side.driver_bound,
        "instructions": side.instructions,
    }
