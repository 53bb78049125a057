"""`crdtstream size`: asks for a workload, shows what a region needs for it. The arithmetic is in `cli/sizing.py`.

Exit codes: 0 done, 2 a value that no region can have, with what to give instead.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from crdtstream.admin.screen import screen
from crdtstream.cli.sizing import MIB, Size, SizingError, Workload, size_of

WRONG_USAGE = 2
# A region is one process on one core; beyond this part of it, latencies grow.
CORE_BUSY = 0.7
UNITS_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")

RateOption = Annotated[
    float, typer.Option("--entries-per-second", help="Entries that clients add in all regions together.")
]
EntryBytes = Annotated[int, typer.Option("--entry-bytes", help="Bytes of an entry: names and values of its fields.")]
RetentionOption = Annotated[
    str, typer.Option(help="How long entries are kept before a trim removes them, as 90m, 36h or 7d.")
]
Outage = Annotated[str, typer.Option(help="The longest absence of a region for which the others keep their logs.")]
PackedPart = Annotated[
    float,
    typer.Option(help="What compression leaves of an entry: 0.55 to 0.75 of text, 0.3 of readings, 1 of random bytes."),
]
PipelineOption = Annotated[int, typer.Option(help="Entries that a client sends before it waits: 1, 16 or 128.")]
ReadCount = Annotated[int, typer.Option(help="Entries that a consumer reads and acknowledges at once: 1 or 100.")]


def size(
    entries_per_second: RateOption,
    entry_bytes: EntryBytes,
    regions: Annotated[int, typer.Option(help="Regions of the cluster.")] = 3,
    retention: RetentionOption = "1d",
    fields: Annotated[int, typer.Option(help="Fields of an entry.")] = 1,
    streams: Annotated[int, typer.Option(help="Streams that the entries go to.")] = 1,
    groups: Annotated[int, typer.Option(help="Groups that read each entry.")] = 1,
    pending_entries: Annotated[
        int, typer.Option(help="Entries of a group that are read and not acknowledged.")
    ] = 1_000,
    outage: Outage = "1d",
    packed_part: PackedPart = 0.75,
    pipeline: PipelineOption = 16,
    read_count: ReadCount = 100,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
) -> None:
    """Estimate the memory, disk, network and CPU that each region needs for a workload."""
    try:
        load = Workload(
            entries_per_second=entries_per_second,
            entry_bytes=entry_bytes,
            regions=regions,
            retention_seconds=seconds_of("retention", retention),
            fields=fields,
            streams=streams,
            groups=groups,
            pending_entries=pending_entries,
            packed_part=packed_part,
            outage_seconds=seconds_of("outage", outage),
            pipeline=pipeline,
            read_count=read_count,
        )
        needed = size_of(load)
    except SizingError as error:
        screen(stderr=True).print(f"crdtstream size: {error}")
        raise typer.Exit(WRONG_USAGE) from error
    if as_json:
        typer.echo(json.dumps({"workload": asdict(load), "region": asdict(needed), "advice": advice_on(load, needed)}))
    else:
        show(load, needed)


def seconds_of(name: str, text: str) -> float:
    found = DURATION.fullmatch(text)
    if found is None:
        raise SizingError(f"--{name} is {text!r}: give a number and a unit of s, m, h, d or w, such as 36h")
    return float(found[1]) * UNITS_S[found[2]]


def show(load: Workload, needed: Size) -> None:
    table = Table(
        "each region needs", "", "because", title=f"{load.regions} regions, {needed.entries_retained:,} entries"
    )
    table.columns[1].justify = "right"
    for row in rows_of(load, needed):
        table.add_row(*row)
    output = screen()
    output.print(table)
    for line in advice_on(load, needed):
        output.print(line)


def rows_of(load: Workload, needed: Size) -> list[tuple[str, str, str]]:
    sent, received = needed.network_sent_bytes_per_second_max, needed.network_received_bytes_per_second_max
    return [
        ("memory at rest", shown(needed.memory_at_rest_bytes), "full blocks are packed, as in an idle region"),
        ("memory under load", shown(needed.memory_hot_bytes), "nothing is packed, as in a region that is never idle"),
        (
            "memory_bytes_max",
            shown(needed.memory_bytes_max),
            "a quarter more, open blocks, windows of peers",
        ),
        ("memory of the machine", shown(needed.machine_memory_bytes), "a quarter more, for the system and page cache"),
        ("log", f"{shown(needed.log_bytes_per_second)}/s", "entries as they are served, to disk"),
        ("checkpoint", shown(needed.checkpoint_bytes), "two of them while the next one is written"),
        ("state transfer", shown(needed.state_transfer_bytes), "lies in the log, unpacked, until the next checkpoint"),
        (
            "log of an outage",
            shown(needed.outage_log_bytes),
            f"kept for a region that is away for {load.outage_seconds:,.0f} s",
        ),
        ("disk", shown(needed.disk_bytes), "these, log before a checkpoint, reserve, a fifth more"),
        ("network, sent at most", f"{shown(sent)}/s", "this region takes all writes; to all peers together"),
        ("network, received at most", f"{shown(received)}/s", "other regions take all writes"),
        ("CPU, at most", f"{needed.cpu_cores_max:.2f} cores", "this region takes all writes and serves all groups"),
        ("CPU, receiving", f"{needed.cpu_cores_receiving:.2f} cores", "other regions do"),
    ]


def advice_on(load: Workload, needed: Size) -> list[str]:
    limit_mib, disk = -(-needed.memory_bytes_max // MIB), shown(needed.disk_bytes)
    lines = [f"Set memory_bytes_max to {limit_mib}mb, and give the data directory a volume of {disk}."]
    if needed.cpu_cores_max > CORE_BUSY:
        lines.append(
            f"A region is one process on one core, of which {needed.cpu_cores_max:.2f} would be busy; plan for "
            f"{CORE_BUSY} at most. Send longer pipelines, read with a larger COUNT, spread writes and groups over the "
            "regions, or divide the streams among several clusters."
        )
    if load.regions == 1:
        lines.append("One region alone sends nothing, and keeps no log for peers.")
    return lines


def shown(count: int) -> str:
    size, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB", "PB"):
        if size < 1_000:
            break
        size, unit = size / 1_000, larger
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
