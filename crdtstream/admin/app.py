"""`crdtstream admin`: queries one or all regions and shows their replies side by side.

Exit codes, for scripts: 0 all regions replied alike, 1 they differ, 2 wrong usage, or an eviction, a start-over or a
leave was rejected, 3 a region did not answer. `xrange` compares every entry of its range, `xlen` the lengths alone.
`status` has two: 0 all is well, 1 it is not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer
from rich.progress import Progress

from crdtstream.admin.access import (
    AuthorityOption,
    CertificateOption,
    KeyFile,
    PasswordFileOption,
    UserOption,
    node_problem,
    password_of,
)
from crdtstream.admin.changing import evict, leave, start_over
from crdtstream.admin.comparison import (
    AGREE,
    ComparisonRow,
    RegionComparison,
    compare,
    joined,
    named_rows,
    text_of,
)
from crdtstream.admin.differences import diff
from crdtstream.admin.group import AdminGroup, use_profile
from crdtstream.admin.groups import groups
from crdtstream.admin.output import finish, over_shards
from crdtstream.admin.peers import table_of_members, table_of_peers
from crdtstream.admin.ranges import compare_range
from crdtstream.admin.regions import TIMEOUT_S, Counterparts
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
app.command()(evict)
app.command("start-over")(start_over)
app.command()(leave)
app.add_typer(acl, name="acl")

KeyArgument = Annotated[str, typer.Argument(help="Name of the stream.")]
GroupArgument = Annotated[str, typer.Argument(help="Name of the consumer group.")]
EACH = frozenset(
    ("link", "silent-ms", "lag", "durable-lag", "address", "origin", "held-back-bytes", "unlinked-ms", "reason")
)
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
    ask_key(context, key, "XLEN", key)


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
    asked = state(context).regions.of(key)
    found = compare_range(asked, key, start, end, count, compare_max)
    notes = {"compared": found.compared, "differing": found.differing, "complete": found.complete}
    title = f"XRANGE {key} {start} {end}"
    finish(context, title, found.comparison(), found.summary(), notes, shard=asked.shard)


@app.command()
def xinfo(
    context: typer.Context,
    what: Annotated[str, typer.Argument(help="stream, groups or consumers.")],
    key: KeyArgument,
    group: Annotated[str | None, typer.Argument(help="Name of the group, for consumers.")] = None,
) -> None:
    """Show XINFO STREAM, GROUPS or CONSUMERS; fields that are local to a region are not compared."""
    words = [what.upper(), key] + ([group] if group is not None else [])
    ask_key(context, key, "XINFO", *words)


@app.command()
def xpending(context: typer.Context, key: KeyArgument, group: GroupArgument) -> None:
    """Show pending entries; they are local to each region."""
    asked = state(context).regions.of(key)
    answers = [pending_answer(answer) for answer in asked.ask("XPENDING", key, group)]
    found = compare(answers, frozenset({"count", "first", "last", "consumers"}))
    finish(context, f"XPENDING {key} {group}", found, shard=asked.shard)


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
    asked = state(context).regions.counterparts
    answers = {each.shard: each.ask("CRDT.REGIONS") for each in asked}
    members = {} if every else {each.shard: each.ask("CRDT.MEMBERS") for each in asked}
    comparison = joined([(shard, compare(named_rows(told), EACH)) for shard, told in answers.items()])
    finish(context, "CRDT.REGIONS", comparison, table=table_of_peers(answers, members))


@app.command()
def members(
    context: typer.Context,
    every: Annotated[bool, typer.Option("--all", help="Also origins that were evicted or followed by others.")] = False,
) -> None:
    """Show the members of the cluster, a row for each: what each origin lacks, and how much log is kept for it. The
    JSON has all.
    """
    answers = {each.shard: each.ask("CRDT.MEMBERS") for each in state(context).regions.counterparts}
    comparison = joined([(shard, compare(named_rows(told, b"origin"), EACH)) for shard, told in answers.items()])
    finish(context, "CRDT.MEMBERS", comparison, table=table_of_members(answers, every))


@app.command()
def lag(context: typer.Context) -> None:
    """Show how many effects of a column's region a row's region has not applied, and not stored."""
    wanted = ("lag", "durable-lag", "link")
    found = over_shards(context, lambda each: compare(named_rows(each.ask("CRDT.REGIONS")), EACH))
    rows = [row for row in found.rows if row.field.rpartition(" ")[2] in (*wanted, "error")]
    finish(context, "lag", replace(found, rows=rows))


@app.command()
def digest(
    context: typer.Context,
    key: Annotated[str | None, typer.Argument(help="One stream; all streams by default.")] = None,
    each: Annotated[bool, typer.Option("--each", help="Compare stream by stream and show those that differ.")] = False,
) -> None:
    """Compare digests: equal digests mean equal state."""
    if key is not None:
        ask_key(context, key, "CRDT.DIGEST", key)
    elif each:
        walks = [EachWalk(state(context), asked) for asked in state(context).regions.counterparts]
        found = joined([(walk.asked.shard, walk.compare()) for walk in walks])
        compared, complete = sum(walk.compared for walk in walks), all(walk.complete for walk in walks)
        caption = f"{several(compared, 'stream')} compared" + ("" if complete else CUT)
        finish(context, "streams that differ", found, caption, {"compared": compared, "complete": complete})
    else:
        finish(context, "CRDT.DIGEST", over_shards(context, lambda asked: compare(asked.ask("CRDT.DIGEST"))))


class EachWalk:
    """The comparison of all streams of one shard, or of all regions where they have one: how many were compared, and
    whether these are all.
    """

    def __init__(self, settings: AdminSettings, asked: Counterparts) -> None:
        self._settings = settings
        self.asked = asked
        self.compared = 0
        self.complete = True

    def compare(self) -> RegionComparison:
        """Return a row for each stream whose digests differ."""
        rows: list[ComparisonRow] = []
        code = AGREE
        keys, self.complete = self.asked.keys()
        console = screen(stderr=True)
        with Progress(console=console, disable=self._settings.as_json or not console.is_terminal) as progress:
            for first in progress.track(range(0, len(keys), STREAMS_AT_ONCE), description="comparing streams"):
                if self.asked.deadline.is_near():
                    self.complete = False
                    break
                page = keys[first : first + STREAMS_AT_ONCE]
                answers = self.asked.ask_each([("CRDT.DIGEST", name) for name in page])
                for name, found in zip(page, map(compare, answers), strict=True):
                    code = max(code, found.code)
                    rows += [replace(row, field=text_of(name)) for row in found.rows if row.differs]
                self.compared += len(page)
        return RegionComparison(self.asked.names, rows, code)


def ask_key(context: typer.Context, key: str, *words: str | int) -> None:
    """Ask the shard of each region that has the key."""
    asked = state(context).regions.of(key)
    finish(context, " ".join(map(str, words)), compare(asked.ask(*words)), shard=asked.shard)
