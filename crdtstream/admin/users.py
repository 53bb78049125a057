"""`crdtstream admin acl`: users, which each region has of its own, compared and copied.

Hashes of passwords are shown by their beginnings.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Annotated

import typer

from crdtstream.admin.comparison import ERROR, ComparisonRow, RegionComparison, compare
from crdtstream.admin.output import REFUSED, finish, over_shards
from crdtstream.admin.regions import Counterparts
from crdtstream.admin.settings import state
from crdtstream.observing.asking import RegionAnswer

acl = typer.Typer(no_args_is_help=True, help="Compare and copy the users of all regions.")

UNKNOWN_SHARD = "the region to copy from has no such shard within reach: name one of its shards with --node"
DEFAULT_USER = "default"
# A selector is one rule, with what it holds.
RULE = re.compile(r"\([^)]*\)|\S+")
HASH = re.compile(r"#([0-9a-f]{8})[0-9a-f]{56}")


@acl.command("diff")
def diff_users(context: typer.Context) -> None:
    """Show the users that differ between regions."""

    def compared(asked: Counterparts) -> RegionComparison:
        return compare([users_answer(answer) for answer in asked.ask("ACL", "LIST")], frozenset())

    found = over_shards(context, compared)
    rows = [row for row in found.rows if row.differs or row.field == ERROR]
    finish(context, "ACL LIST", replace(found, rows=rows))


@acl.command("copy")
def copy_users(
    context: typer.Context,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="USER", help="Users; all but 'default' unless given.")
    ] = None,
    source: Annotated[
        str | None, typer.Option("--from", help="Name of the region to copy from; the first --node unless given.")
    ] = None,
    save: Annotated[bool, typer.Option("--save", help="Have the other regions write their --aclfile, too.")] = False,
) -> None:
    """Give the other regions the users of one region, with passwords and rights; users that only they have stay."""
    regions = state(context).regions
    chosen = source or regions.names[0]
    if chosen not in regions.names:
        raise typer.BadParameter(f"no region is named {chosen!r}: choose one of {', '.join(regions.names)}")
    for asked in regions.counterparts:
        users = users_of(asked.ask_one(chosen, "ACL", "LIST")) if chosen in asked.names else {}
        missing = sorted(set(names or ()) - users.keys()) if users else []
        if missing:
            raise typer.BadParameter(f"{chosen} has no user {missing[0]!r}: choose one of {', '.join(users)}")
    found = over_shards(context, lambda asked: copied(asked, chosen, names, save))
    finish(context, f"copy users of {chosen}", found)


def copied(asked: Counterparts, chosen: str, names: list[str] | None, save: bool) -> RegionComparison:
    """Copy the users of one shard of the source, or of the region where it has one, to its counterparts."""
    if chosen not in asked.names:
        return compare([RegionAnswer(name, error=UNKNOWN_SHARD, unreachable=True) for name in asked.names])
    listed = asked.ask_one(chosen, "ACL", "LIST")
    users = users_of(listed)
    wanted = names or [name for name in users if name != DEFAULT_USER]
    commands = [["ACL", "SETUSER", name, "reset", *RULE.findall(users[name])] for name in wanted if name in users]
    commands += [["ACL", "SAVE"]] if save else []
    results = {region: RegionAnswer(region, []) for region in asked.names}
    results[chosen] = listed if listed.error else results[chosen]
    for words in commands:
        for answer in asked.ask_others(chosen, *words):
            if answer.error and not results[answer.region].error:
                results[answer.region] = answer
    told = compare(list(results.values()))
    rows = [
        ComparisonRow(name, [cell_of(answer, answer.region == chosen) for answer in results.values()], False)
        for name in wanted
    ]
    refused = any(answer.error and not answer.unreachable for answer in results.values())
    return RegionComparison(told.regions, [*told.rows, *rows], REFUSED if refused else told.code)


def cell_of(answer: RegionAnswer, is_source: bool) -> str:
    if answer.error:
        return "-"
    return "source" if is_source else "copied"


def users_of(answer: RegionAnswer) -> dict[str, str]:
    """The rules of each user, by name, from ACL LIST."""
    if answer.error:
        return {}
    lines = [line.decode("utf-8", "surrogateescape") for line in answer.value]
    return {name: rules for _, name, rules in (line.split(" ", 2) for line in lines)}


def users_answer(answer: RegionAnswer) -> RegionAnswer:
    users = {name: HASH.sub(r"#\1…", rules) for name, rules in users_of(answer).items()}
    told = [part.encode("utf-8", "surrogateescape") for pair in users.items() for part in pair]
    return answer if answer.error else RegionAnswer(answer.region, told)
