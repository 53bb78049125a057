"""The demo's output: tables for 100 columns, with colour on a terminal."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from crdtstream.demo.cluster import NAMES, Cluster
from crdtstream.demo.player import Outcome, ToldLine
from crdtstream.demo.proof import Proof
from crdtstream.demo.story import Story

WIDTH = 100
MARGIN = 7  # of a story's table: its left edge and the column of moments
MARGIN_CELL = 3


def make_console() -> Console:
    """Create a console of at most WIDTH columns on a terminal, and of WIDTH columns otherwise."""
    console = Console(highlight=False, markup=False)
    console.width = min(console.width, WIDTH) if console.is_terminal else WIDTH
    return console


def make_table(expand: bool = True) -> Table:
    return Table(box=box.ROUNDED, border_style="dim", header_style="bold", expand=expand)


def show_heading(console: Console, text: str) -> None:
    console.print()
    console.print(text, style="bold cyan")


def show_regions(console: Console, cluster: Cluster) -> None:
    what = "a process" if cluster.shards == 1 else f"{cluster.shards} shards, which are processes,"
    show_heading(console, f"Three regions on this machine, each {what} with its own data directory")
    table = make_table(expand=False)
    for heading in ("region", "number", "Redis port", "replication port", "process", "data directory"):
        table.add_column(heading)
    for region in cluster.regions.values():
        ports = [ports_of(first, cluster.shards) for first in (region.port, region.replication_port)]
        table.add_row(region.name, str(region.number), *ports, str(region.pid), str(region.data))
    console.print(table)
    console.print(
        "Each pair is linked through a switch inside the demo. In the stories time runs downwards, and nothing"
        " travels between regions except where a row says so.",
    )


def ports_of(first: int, shards: int) -> str:
    return str(first) if shards == 1 else f"{first} to {first + shards - 1}"


def show_story(console: Console, number: int, story: Story, outcomes: list[Outcome]) -> None:
    show_heading(console, f"{number}. {story.title}")
    console.print(story.lesson)
    table = make_table()
    table.add_column("", no_wrap=True, min_width=3)
    for name in story.names:
        table.add_column(f"{name} (region {NAMES.index(name) + 1})", ratio=1)
    room = (console.width - MARGIN) // len(story.names) - MARGIN_CELL
    for outcome in outcomes:
        table.add_row(outcome.moment, *[show_cell(outcome.cells.get(name), room) for name in story.names])
    console.print(table)


def show_cell(told: ToldLine | None, room: int) -> Text:
    """Put the reply below its command if both do not fit on one line."""
    if told is None:
        return Text("")
    if not told.command:
        return Text(f"--- {told.text} ---", style="yellow")
    gap = " " if len(told.command) + len(told.text) + 4 <= room else "\n"
    return Text.assemble(told.command, gap, ("-> ", "dim"), (told.text, "green" if told.holds else "bold red"))


def show_proofs(console: Console, proofs: dict[str, list[Proof]]) -> None:
    show_heading(console, "Every link is open: is every key the same in all three regions?")
    table = make_table(expand=False)
    for heading in ("key", "XRANGE", "XINFO GROUPS", "CRDT.DIGEST", "in all three"):
        table.add_column(heading)
    for key, row in proofs.items():
        cells = [Text()] * (3 - len(row)) + [show_proof(proof) for proof in row]
        holds = all(proof.holds for proof in row)
        verdict = Text("equal", "green") if holds else Text("DIFFERENT", "bold red")
        table.add_row(key, *cells, verdict)
    console.print(table)


def show_proof(proof: Proof) -> Text:
    return Text(proof.brief) if proof.holds else Text("DIFFERENT", style="bold red")


def show_verdict(console: Console, complaints: list[str], told: int) -> None:
    show_result(console, complaints, f"{told} stories as told, and all regions converged.")


def show_result(console: Console, complaints: list[str], held: str) -> None:
    console.print()
    if complaints:
        console.print("Did not hold:", style="bold red")
        for complaint in complaints:
            console.print(f"  {complaint}", style="red", soft_wrap=True)
    else:
        console.print(f"All held: {held}", style="bold green")


def show_invitation(console: Console, cluster: Cluster, dashboard: str) -> None:
    # A client of a region of several shards follows redirections.
    ports = [cluster.regions[name].port for name in NAMES]
    east, west, north = ports if cluster.shards == 1 else [f"{port} -c" for port in ports]
    show_heading(console, "The regions stay up. In another terminal:")
    for line in (
        f"redis-cli -p {east} XRANGE payments - +            the same in each region",
        f"redis-cli -p {west} XRANGE payments - +",
        f"redis-cli -p {north} XINFO GROUPS payments",
        f"redis-cli -p {east} XADD payments '*' sum 12       and ask another region for it",
        f"redis-cli -p {west} CRDT.REGIONS                   links and lag, seen from west",
        f"redis-cli -p {north} CRDT.DIGEST                    equal digests: equal state",
    ):
        console.print(f"  {line}")
    beside = dashboard or "pip install 'crdtstream[dashboard]'"
    console.print(f"  {beside:<46} the dashboard: do they agree, and who is behind?")
    console.print("Ctrl-C stops them and removes their data.")
