"""`crdtstream admin evict`, `start-over` and `leave`: what ends a membership or replaces a state, in all shards of the
first region given with --node.

Each shard has a result of its own, and where one fails the others are shown beside it. All of these may be repeated,
which does what is left: a shard that is done says so. Leaving shards are asked at once, but for the one whose address
was given: it goes last, so that the same command finds the region until all have left.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Annotated

import typer

from crdtstream.admin import leaving
from crdtstream.admin.comparison import RegionComparison, compare, joined
from crdtstream.admin.output import REFUSED, finish
from crdtstream.admin.regions import Counterparts
from crdtstream.admin.screen import screen
from crdtstream.admin.settings import AdminSettings, state
from crdtstream.observing.asking import RegionAnswer
from crdtstream.observing.rows import link_rows, origin_rows

POLL_S = 0.2
# What a repetition takes for done.
LATELY_S = 3600
WAITS = "it has not been asked to leave: it goes last, once the other shards have left"
AGAIN = "Repeat the command once what is wrong is mended: shards that are done say so, and are left alone."

# By shard; None where the region has one.
ShardAnswers = dict[int | None, RegionAnswer]


def finish_all(context: typer.Context, title: str, answers: ShardAnswers) -> None:
    """Show what each shard answered."""
    found = joined([(shard, result_of(answers[shard])) for shard in sorted(answers, key=lambda shard: shard or 0)])
    failed = any(answer.error for answer in answers.values())
    finish(context, title, found, AGAIN if failed and None not in answers else "")


def result_of(answer: RegionAnswer) -> RegionComparison:
    found = compare([answer])
    refused = REFUSED if answer.error and not answer.unreachable else found.code
    return RegionComparison(found.regions, found.rows, refused)


def done(answer: RegionAnswer, text: str) -> RegionAnswer:
    """The answer of a shard where nothing is left to do."""
    return RegionAnswer(answer.region, [b"state", text.encode()])


# Evicting


def evict(
    context: typer.Context,
    region: Annotated[str, typer.Argument(help="Name or number of a region, or one origin as REGION.INCARNATION.")],
    force: Annotated[bool, typer.Option("--force", help="Even if the region is linked now.")] = False,
) -> None:
    """End a region's membership for ever. The first region given with --node performs it and informs the others.

    Shows each evicted origin with the last of its effects that counts for groups.
    """
    words = ["CRDT.EVICT", region] + (["FORCE"] if force else [])
    shards = state(context).first.of_first
    answers = {each.shard: evicted_at(each, words) for each in knowing(shards, region)}
    finish_all(context, " ".join(words), answers)


def knowing(shards: list[Counterparts], region: str) -> list[Counterparts]:
    """An origin is known to one shard, a region to all."""
    if "." not in region or len(shards) == 1:
        return shards
    found = [each for each in shards if knows(each.ask_first("CRDT.MEMBERS"), region)]
    return found or shards[:1]


def knows(answer: RegionAnswer, origin: str) -> bool:
    return not answer.error and any(row.origin == origin for row in origin_rows(answer.value))


def evicted_at(shard: Counterparts, words: list[str]) -> RegionAnswer:
    answer = shard.ask_first(*words)
    if shard.shard is not None and answer.error.endswith("is already evicted"):
        return done(answer, "evicted before")
    return answer


# Starting over


def start_over(
    context: typer.Context,
    source: Annotated[str, typer.Option("--from", help="Name or number of the region whose state replaces this one.")],
    again: Annotated[
        bool, typer.Option("--again", help="Also shards that have started over from that region within the last hour.")
    ] = False,
) -> None:
    """Replace the state of the first region given with --node by another region's, and hand over what only it had.

    Clients get -LOADING meanwhile; shards start over one after the other. When this returns, the region's origin has
    ended and it continues as another one.
    """
    shards = state(context).first.of_first
    answers = {each.shard: start_over_at(each, source, again) for each in shards}
    finish_all(context, f"CRDT.STARTOVER {source}", answers)


def start_over_at(shard: Counterparts, source: str, again: bool) -> RegionAnswer:
    shard.deadline.renew()
    fields = shard.fields_of_first()
    links = shard.ask_first("CRDT.REGIONS")
    if shard.shard is not None and not links.error and not again:
        numbers = [str(row.region) for row in link_rows(links.value) if source in (row.name, str(row.region))]
        if fields.get("start_over_last_region") in numbers and is_lately(fields):
            return done(links, "started over within the last hour: --again does it once more")
    if shard.shard is None or not fields.get("start_over"):
        answer = shard.ask_first("CRDT.STARTOVER", source)
        if answer.error:
            return answer
    return started_over(shard, int(fields.get("start_overs", "0")))


def is_lately(fields: Mapping[str, str]) -> bool:
    return int(fields["server_time_usec"]) / 1e6 - int(fields["start_over_last_time"]) < LATELY_S


def started_over(shard: Counterparts, before: int) -> RegionAnswer:
    """Wait for the end; return the new origin, or an error if the start-over was abandoned."""
    while True:
        shard.deadline.renew()
        fields = shard.fields_of_first()
        name = fields.get("region_name", "")
        if not fields:
            return RegionAnswer(shard.names[0], error="the region no longer answers: see its log", unreachable=True)
        if int(fields["start_overs"]) > before:
            return RegionAnswer(name, [b"origin", fields["origin"].encode(), b"left", fields["start_over"].encode()])
        if not fields["start_over"]:
            return RegionAnswer(name, error="the start-over was abandoned: see the log of the region for the reason")
        time.sleep(POLL_S)


# Leaving


def leave(
    context: typer.Context,
    abort: Annotated[
        bool, typer.Option("--abort", help="Stay after all; possible until a peer has been asked.")
    ] = False,
) -> None:
    """Take the first region given with --node out of the cluster: the others take all it has, and its process ends.

    It refuses writes meanwhile. This may be interrupted and repeated; the region goes on by itself. Of several shards
    the one whose address was given leaves last.
    """
    settings = state(context)
    answers = abort_all(settings.first.of_first) if abort else leave_all(settings)
    finish_all(context, "CRDT.LEAVE ABORT" if abort else "CRDT.LEAVE", answers)


def abort_all(shards: list[Counterparts]) -> ShardAnswers:
    """Have all shards stay; those that were not leaving are no failure where another one was."""
    answers = {each.shard: each.ask_first("CRDT.LEAVE", "ABORT") for each in shards}
    if all(answer.error for answer in answers.values()):
        return answers
    return {
        shard: done(answer, "staying") if answer.error.endswith("is not leaving") else answer
        for shard, answer in answers.items()
    }


def leave_all(settings: AdminSettings) -> ShardAnswers:
    """Have all shards leave, the one that was named last, which keeps the others within reach of a repetition."""
    regions = settings.first
    last = regions.named.shard if regions.shards > 1 else None
    console = screen(stderr=True)
    answers = leaving.leave([each for each in regions.of_first if each.shard != last], console)
    if any(answer.unreachable for answer in answers.values()):
        answers |= left_before(settings, answers)
    named = [each for each in regions.of_first if each.shard == last]
    if any(answer.error for answer in answers.values()):
        return answers | {each.shard: RegionAnswer(each.names[0], error=WAITS) for each in named}
    return answers | leaving.leave(named, console)


def left_before(settings: AdminSettings, answers: ShardAnswers) -> ShardAnswers:
    """The shards that do not answer because they have left, as their counterparts know."""
    own = settings.first.named.region
    gone = {shard for region, shard in settings.everywhere.gone if region == own}
    return {
        shard: done(answer, "left before") for shard, answer in answers.items() if answer.unreachable and shard in gone
    }
