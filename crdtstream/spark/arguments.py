"""Arguments of the commands that run jobs: what several of them take, and what it means."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

Master = Annotated[str, typer.Option(help="Spark's master; spark-submit sets its own.", show_default="local[2,4]")]
Endpoints = Annotated[str, typer.Option(help="HOST:PORT of the bulk port of each region, separated by commas.")]
StreamsOption = Annotated[str, typer.Option(help="Streams by name, separated by commas.")]
Pattern = Annotated[str, typer.Option(help="Streams by pattern, as in KEYS.")]
AsCsv = Annotated[str, typer.Option("--csv", help="All rows as CSV into this file; - is standard output.")]
AsJson = Annotated[str, typer.Option("--json", help="Everything as JSON into this file; - is standard output.")]
Catalog = Annotated[
    str, typer.Option(help="Of an Iceberg table: a catalogue of pyiceberg's settings, instead of a file at the table.")
]
StoreOption = Annotated[
    list[str] | None,
    typer.Option(
        "--store-option", help="Of a table in an object store: NAME=VALUE such as AWS_REGION=...; may be repeated."
    ),
]
KeepRemoved = Annotated[
    bool, typer.Option(help="A table keeps what is removed from the streams; otherwise the job deletes it at its end.")
]
MetricsPort = Annotated[
    int, typer.Option(help="Prometheus metrics of the job on this port of loopback; 0 for none.", min=0, max=65535)
]
Extra = Annotated[list[str] | None, typer.Option("--option", help="Data source option NAME=VALUE; may be repeated.")]


def options_of(endpoints: str, streams: str = "", pattern: str = "", option: list[str] | None = None) -> dict[str, str]:
    """Return the options for the data source, which validates them itself."""
    options = {"endpoints": endpoints, "streams": streams, "streamsPattern": pattern}
    options |= pairs_of("--option", option)
    return {name: value for name, value in options.items() if value}


def pairs_of(parameter: str, given: list[str] | None) -> dict[str, str]:
    pairs = {}
    for each in given or []:
        name, equals, value = each.partition("=")
        if not equals:
            raise typer.BadParameter(f"{each!r} has no value: write {parameter} NAME=VALUE")
        pairs[name] = value
    return pairs


def moment(name: str, text: str) -> datetime | None:
    if not text:
        return None
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{name} is {text!r}: write a time such as 2026-11-22T14:00") from None
    return given if given.tzinfo else given.replace(tzinfo=UTC)
