"""/actions shows forms and asks; /act runs a command, with the visitor's rights, and only by a form of this site."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Sequence

from fastapi import FastAPI, Request, Response
from fastapi.responses import RedirectResponse

from crdtstream.admin.changing import WAITS
from crdtstream.dashboard import asking
from crdtstream.dashboard.actions import ACTIONS, GROUP, KEY, Action, FieldMissing, command_line, filled
from crdtstream.dashboard.addresses import text_in, url
from crdtstream.dashboard.board import Board
from crdtstream.dashboard.nodes import Tag
from crdtstream.dashboard.outcomes import (
    LEAVE,
    LEAVE_STATUS,
    ActionOutcome,
    ShardOutcome,
    absent_outcomes,
    concerned,
    has_left,
    outcome_of,
)
from crdtstream.dashboard.pages.frame import admitted
from crdtstream.dashboard.pages.live import Draw, Drawn, Parameters, key_in, register_live
from crdtstream.dashboard.pages.login import form_of
from crdtstream.dashboard.views import actions as view
from crdtstream.dashboard.visitors import Visitor
from crdtstream.observing.reading import RegionReading, evicted_places

TIMEOUT_S = 10.0
POLL_S = 0.2


def register(board: Board) -> None:
    def page(visitor: Visitor, parameters: Parameters) -> Draw:
        async def draw() -> Drawn:
            done = visitor.outcomes.pop(text_in(parameters, "done"), None)
            if done is not None:
                return (view.outcome(done), view.overview(board.may_act))
            action = ACTIONS.get(text_in(parameters, "action"))
            if action is None or not board.may_act:
                return (view.overview(board.may_act),)
            return (await asked(board, visitor, action, parameters),)

        return draw

    register_live(board, "/actions", "/actions", "Actions", page, 0)


async def asked(board: Board, visitor: Visitor, action: Action, parameters: Parameters) -> Tag:
    """The form, or, once it is filled in, the question."""
    regions = board.regions()
    region = text_in(parameters, "region") or next(iter(regions), "")
    fields = fields_of(action, parameters)
    addresses = board.answering(fields.get(KEY, b""))
    complaint = ""
    if text_in(parameters, "ask"):
        try:
            words = action.words(fields)
        except FieldMissing as error:
            complaint = str(error)
        else:
            return view.question(action, fields, region, visitor.user, visitor.token, words)
    elif action.name == "reset" and region in addresses and not fields["position"]:
        fields["position"] = await present_position(visitor, addresses[region], fields)
    return view.form(action, fields, regions, region, complaint)


def fields_of(action: Action, parameters: Parameters) -> dict[str, bytes]:
    told = {field.name: key_in(parameters, field.name) for field in action.fields}
    return filled(action, {name: value for name, value in told.items() if value})


async def present_position(visitor: Visitor, address: str, fields: dict[str, bytes]) -> bytes:
    """The last-delivered ID of the group, which is what a reset to nowhere would set."""
    (side,) = await asking.read_stream(visitor.ports, {"": address}, fields[KEY])
    return next((row.last_delivered_id.encode() for row in side.groups if row.name == fields[GROUP]), b"")


def register_forms(app: FastAPI, board: Board) -> None:
    async def act(request: Request) -> Response:
        visitor, told = await admitted(board, request), await form_of(request)
        action = ACTIONS.get(text_in(told, "action"))
        if visitor is None or not board.may_act or action is None:
            return RedirectResponse("/actions", 303)
        if not hmac.compare_digest(told.get("token", b""), visitor.token.encode()):
            return Response("this form is not of your session: go back, and load the page again\n", 403)
        region = text_in(told, "region")
        fields = fields_of(action, told)
        name = visitor.keep(await run(board, visitor, region, action, fields))
        return RedirectResponse(f"/actions?done={name}", 303)

    app.post("/act")(act)


async def run(board: Board, visitor: Visitor, region: str, action: Action, fields: dict[str, bytes]) -> ActionOutcome:
    """Run a command in the shard that has its key; one without a key in all shards of the region."""
    words = action.words(fields)
    own = concerned(board.watch.readings, region, words, fields.get(KEY))
    told = await (left(board, visitor, own, words) if words[0] == LEAVE else answered(board, visitor, own, words))
    told += absent_outcomes(own, words, evicted_places(board.watch.readings))
    again = url("/actions", action=action.name, region=region, ask="yes", **fields)
    nobody = ShardOutcome(region, "the region does not answer", True)
    return ActionOutcome(command_line(words), region, tuple(told) or (nobody,), again)


async def answered(
    board: Board, visitor: Visitor, own: Sequence[RegionReading], words: Sequence[bytes]
) -> list[ShardOutcome]:
    answers = await asyncio.gather(*[visitor.ports.ask(each.address, *words, timeout_s=TIMEOUT_S) for each in own])
    gone = evicted_places(board.watch.readings)
    return [outcome_of(one, words, answer, one.place in gone) for one, answer in zip(own, answers, strict=True)]


async def left(
    board: Board, visitor: Visitor, own: Sequence[RegionReading], words: Sequence[bytes]
) -> list[ShardOutcome]:
    """One shard goes last, once the others have left: a region whose shards are all down or gone would end before."""
    last = next((each for each in own if each.answers), None)
    others = [each for each in own if each is not last]
    told = await answered(board, visitor, others, words)
    ends_s = time.monotonic() + TIMEOUT_S
    # One that has left ends a moment before the others are known to say so.
    while all(not each.is_error for each in told) and not all(has_left(each) for each in told):
        if time.monotonic() > ends_s:
            break
        await asyncio.sleep(POLL_S)
        later = await answered(board, visitor, others, LEAVE_STATUS)
        told = [one if new.is_error else new for one, new in zip(told, later, strict=True)]
    if last is None:
        return told
    if all(has_left(each) for each in told):
        return [*await answered(board, visitor, [last], words), *told]
    return [ShardOutcome(last.label, WAITS, True), *told]
