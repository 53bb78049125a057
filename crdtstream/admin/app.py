"""`crdtstream admin`: queries one or all regions and shows their replies side by side.

Exit codes, for scripts: 0 all regions replied alike, 1 they differ, 2 wrong usage, or an eviction, a start-over or a
leave was rejected, 3 a region did not answer. `xrange` compares every entry of its range, `xlen` the lengths alone.
`status` has two: 0 all is well, 1 it is not.
"""

from __future__ import annotations

import time
from typing import Annotated

import typer
from rich.progress import Progress

from crdtstream.admin import leaving
from crdtstream.admin.access import (
    AuthorityOption,
    CertificateOption,
    KeyFile,
    PasswordFileOption,
    UserOption,
    node_problem,
    password_of,
)
from crdtstream.admin.comparison import (
    AGREE,
    ComparisonRow,
    RegionComparison,
    compare,
    named_rows,
    text_of,
)
from crdtstream.admin.differences import diff
from crdtstream.admin.group import AdminGroup, use_profile
from crdtstream.admin.groups import groups
from crdtstream.admin.output import REFUSED, finish
from crdtstream.admin.peers import table_of_members, table_of_peers
from crdtstream.admin.ranges import compare_range
from crdtstream.admin.regions import TIMEOUT_S, Regions
from crdtstream.admin.screen import screen
from crdtstream.admin.settings import AdminSettings, state
from crdtstream.admin.users import acl
from crdtstream.admin.watching import status, top
from crdtstream.observing.access import Access
from crdtstream.observing.asking import RegionAnswer
from crdtstream.observing.words import several

app = typer.Typer(
    cls=AdminGroup, no_args_is_help=True, help="Query one or all regions, side by side; differences are marked."
)
app.command()(status)
app.command()(top)
app.command()(groups)
app.command()(diff)
app.add_typer(acl, name="acl")

KeyArgument = Annotated[str, typer.Argument(help="Name of the stream.")]
GroupArgument = Annotated[str, typer.Argument(help="Name of the consumer group.")]
EACH = frozenset(
    ("link", "silent-ms", "lag", "durable-lag", "address", "origin", "held-back-bytes", "unlinked-ms", "reason")
)
POLL_S = 0.2
STREAMS_AT_ONCE = 200
CUT = "; cut short: wait longer with --timeout"


@app.callback(epilog="These options may be given before or after the sub-command.")
def settings(
    context: typer.Context,
    node: Annotated[
        list[str] | None,
        typer.Option(
            envvar="CRDTSTREAM_NODES",
            help="HOST:PORT of a region's Redis port; those that it knows are found. May be repeated.",
            show_default=False,
        ),
    ] = None,
    only: Annotated[bool, typer.Option("--only", help="Ask only the regions named with --node.")] = False,
    timeout_s: Annotated[
        float,
        typer.Option(
            "--timeout",
            help="Seconds for the whole command; for each page of xrange and digest --each.",
            min=0.01,
        ),
    ] = TIMEOUT_S,
    user: UserOption = None,
    password_file: PasswordFileOption = None,
    cacert: AuthorityOption = None,
    cert: CertificateOption = None,
    key: KeyFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    _profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            envvar="CRDTSTREAM_PROFILE",
            help="Profile that gives the options above which are not given, from ~/.config/crdtstream/profiles.toml.",
            is_eager=True,
            callback=use_profile,
        ),
    ] = None,
) -> None:
    """Query one or all regions, side by side; differences are marked."""
    for address in node or []:
        problem = node_problem(address)
        if problem:
            raise typer.BadParameter(problem)
    access = Access(user, password_of(password_file), cacert, cert, key)
    context.obj = AdminSettings(context, node or [], access, timeout_s, only, as_json)


@app.command()
def xlen(context: typer.Context, key: KeyArgument) -> None:
    """Show the number of entries of a stream in each region; `digest KEY` compares the entries."""
    ask(context, f"XLEN {key}", "XLEN", key)


@app.command()
def xrange(
    context: typer.Context,
    key: KeyArgument,
    start: Annotated[str, typer.Argument(help="First ID, '-' for the beginning.")] = "-",
    end: Annotated[str, typer.Argument(help="Last ID, '+' for the end.")] = "+",
    count: Annotated[
        int, typer.Option(help="Entries that are shown at most, and as many further ones that differ.", min=1)
    ] = 20,
    compare_max: Annotated[
        int, typer.Option(help="Entries that are compared at most; 0 compares the whole range.", min=0)
    ] = 0,
) -> None:
    """Compare the entries of a range, and show the first ones and those that differ, one row for each ID."""
    found = compare_range(state(context).regions, key, start, end, count, compare_max)
    notes = {"compared": found.compared, "differing": found.differing, "complete": found.complete}
    finish(context, f"XRANGE {key} {start} {end}", found.comparison(), found.summary(), notes)


@app.command()
def xinfo(
    context: typer.Context,
    what: Annotated[str, typer.Argument(help="stream, groups or consumers.")],
    key: KeyArgument,
    group: Annotated[str | None, typer.Argument(help="Name of the group, for consumers.")] = None,
) -> None:
    """Show XINFO STREAM, GROUPS or CONSUMERS; fields that are local to a region are not compared."""
    words = [what.upper(), key] + ([group] if group is not None else [])
    ask(context, "XINFO " + " ".join(words), "XINFO", *words)


@app.command()
def xpending(context: typer.Context, key: KeyArgument, group: GroupArgument) -> None:
    """Show pending entries; they are local to each region."""
    found = state(context).regions.ask("XPENDING", key, group)
    answers = [pending_answer(answer) for answer in found]
    finish(context, f"XPENDING {key} {group}", compare(answers, frozenset({"count", "first", "last", "consumers"})))


def pending_answer(answer: RegionAnswer) -> RegionAnswer:
    if answer.error or not isinstance(answer.value, list):
        return answer
    names = (b"count", b"first", b"last", b"consumers")
    return RegionAnswer(answer.region, [part for pair in zip(names, answer.value, strict=True) for part in pair])


@app.command()
def regions(
    context: typer.Context,
    every: Annotated[bool, typer.Option("--all", help="Also the links to regions that were evicted.")] = False,
) -> None:
    """Show the links of each region, a row for each: linked peers and what they lack, unlinked ones with time and
    reason. The JSON has all.
    """
    answers = state(context).regions.ask("CRDT.REGIONS")
    members = [] if every else state(context).regions.ask("CRDT.MEMBERS")
    comparison = compare(named_rows(answers), EACH)
    finish(context, "CRDT.REGIONS", comparison, table=table_of_peers(answers, members))


@app.command()
def members(
    context: typer.Context,
    every: Annotated[bool, typer.Option("--all", help="Also origins that were evicted or followed by others.")] = False,
) -> None:
    """Show the members of the cluster, a row for each: what each origin lacks, and how much log is kept for it. The
    JSON has all.
    """
    answers = state(context).regions.ask("CRDT.MEMBERS")
    comparison = compare(named_rows(answers, b"origin"), EACH)
    finish(context, "CRDT.MEMBERS", comparison, table=table_of_members(answers, every))


@app.command()
def evict(
    context: typer.Context,
    region: Annotated[str, typer.Argument(help="Name or number of a region, or one origin as REGION.INCARNATION.")],
    force: Annotated[bool, typer.Option("--force", help="Even if the region is linked now.")] = False,
) -> None:
    """End a region's membership for ever. The first region given with --node performs it and informs the others.

    Shows each evicted origin with the last of its effects that counts for groups.
    """
    words = ["CRDT.EVICT", region] + (["FORCE"] if force else [])
    answer = state(context).first.ask_first(*words)
    comparison = compare([answer])
    refused = REFUSED if answer.error and not answer.unreachable else comparison.code
    finish(context, " ".join(words), RegionComparison(comparison.regions, comparison.rows, refused))


@app.command("start-over")
def start_over(
    context: typer.Context,
    source: Annotated[str, typer.Option("--from", help="Name or number of the region whose state replaces this one.")],
) -> None:
    """Replace the state of the first region given with --node by another region's, and hand over what only it had.

    Clients get -LOADING meanwhile. When this returns, the region's origin has ended and it continues as another one.
    """
    words = ["CRDT.STARTOVER", source]
    regions = state(context).first
    done = int(regions.fields_of_first().get("start_overs", "0"))
    answer = regions.ask_first(*words)
    answer = answer if answer.error else started_over(regions, done)
    comparison = compare([answer])
    refused = REFUSED if answer.error and not answer.unreachable else comparison.code
    finish(context, " ".join(words), RegionComparison(comparison.regions, comparison.rows, refused))


def started_over(regions: Regions, done: int) -> RegionAnswer:
    """Wait for the end; return the new origin, or an error if the start-over was abandoned."""
    while True:
        regions.deadline.renew()
        fields = regions.fields_of_first()
        name = fields.get("region_name", "")
        if not fields:
            return RegionAnswer(name, error="the region no longer answers: see its log", unreachable=True)
        if int(fields["start_overs"]) > done:
            return RegionAnswer(name, [b"origin", fields["origin"].encode(), b"left", fields["start_over"].encode()])
        if not fields["start_over"]:
            return RegionAnswer(name, error="the start-over was abandoned: see the log of the region for the reason")
        time.sleep(POLL_S)


@app.command()
def leave(
    context: typer.Context,
    abort: Annotated[
        bool, typer.Option("--abort", help="Stay after all; possible until a peer has been asked.")
    ] = False,
) -> None:
    """Take the first region given with --node out of the cluster: the others take all it has, and its process ends.

    It refuses writes meanwhile. This may be interrupted and repeated; the region goes on by itself.
    """
    settings = state(context)
    if abort:
        answer = settings.first.ask_first("CRDT.LEAVE", "ABORT")
    else:
        answer = leaving.leave(settings.first, screen(stderr=True))
    comparison = compare([answer])
    refused = REFUSED if answer.error and not answer.unreachable else comparison.code
    title = "CRDT.LEAVE ABORT" if abort else "CRDT.LEAVE"
    finish(context, title, RegionComparison(comparison.regions, comparison.rows, refused))


@app.command()
def lag(context: typer.Context) -> None:
    """Show how many effects of a column's region a row's region has not applied, and not stored."""
    wanted = ("lag", "durable-lag", "link")
    comparison = compare(links(context), EACH)
    rows = [row for row in comparison.rows if row.field.rpartition(" ")[2] in (*wanted, "error")]
    finish(context, "lag", RegionComparison(comparison.regions, rows, comparison.code))


def links(context: typer.Context) -> list[RegionAnswer]:
    """CRDT.REGIONS with each row labelled by its region's name."""
    return named_rows(state(context).regions.ask("CRDT.REGIONS"))


@app.command()
def digest(
    context: typer.Context,
    key: Annotated[str | None, typer.Argument(help="One stream; all streams by default.")] = None,
    each: Annotated[bool, typer.Option("--each", help="Compare stream by stream and show those that differ.")] = False,
) -> None:
    """Compare digests: equal digests mean equal state."""
    if key is not None:
        ask(context, f"CRDT.DIGEST {key}", "CRDT.DIGEST", key)
    elif each:
        comparison, compared, complete = compare_each(state(context))
        caption = f"{several(compared, 'stream')} compared" + ("" if complete else CUT)
        finish(context, "streams that differ", comparison, caption, {"compared": compared, "complete": complete})
    else:
        ask(context, "CRDT.DIGEST", "CRDT.DIGEST")


def compare_each(settings: AdminSettings) -> tuple[RegionComparison, int, bool]:
    """Return a row for each stream whose digests differ, how many streams were compared, and whether these are all."""
    rows: list[ComparisonRow] = []
    code, compared = AGREE, 0
    regions = settings.regions
    keys, complete = regions.keys()
    console = screen(stderr=True)
    with Progress(console=console, disable=settings.as_json or not console.is_terminal) as progress:
        for first in progress.track(range(0, len(keys), STREAMS_AT_ONCE), description="comparing streams"):
            if regions.deadline.is_near():
                complete = False
                break
            page = keys[first : first + STREAMS_AT_ONCE]
            for name, answers in zip(page, regions.ask_each([("CRDT.DIGEST", name) for name in page]), strict=True):
                found = compare(answers)
                code = max(code, found.code)
                rows += [ComparisonRow(text_of(name), row.cells, row.differs) for row in found.rows if row.differs]
            compared += len(page)
    return RegionComparison(regions.names, rows, code), compared, complete


def ask(context: typer.Context, title: str, *words: str | int) -> None:
    finish(context, title, compare(state(context).regions.ask(*words)))
