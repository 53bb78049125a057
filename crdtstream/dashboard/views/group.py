"""One group: how far it is in each region, who holds what, and what a consumer would get if it moved."""

from __future__ import annotations

from collections.abc import Sequence

from crdtstream.dashboard.addresses import url
from crdtstream.dashboard.decoding import shown
from crdtstream.dashboard.inspection import (
    GroupSide,
    by_age,
    by_deliveries,
    holdings,
    most_delivered,
)
from crdtstream.dashboard.nodes import Tag, figure, link, node, panel, remark, table
from crdtstream.dashboard.views.entries import entry_card
from crdtstream.observing.words import NOTHING, age_ms, count, duration, several

OFTEN_SHOWN = 5


def head(key: bytes, group: bytes, may_act: bool) -> Tag:
    crumbs = node(
        "p", "crumbs", link("Streams", "/streams"), " / ", link(shown(key), url("/stream", key=key)), " / group"
    )
    acts = [
        link(title, url("/actions", action=action, key=key, group=group), "button")
        for action, title in (("reset", "Reset"), ("ack", "Acknowledge"), ("claim", "Claim"), ("destroy", "Destroy"))
    ]
    return node("div", "", crumbs, node("h1", "", shown(group)), node("div", "buttons", *acts) if may_act else None)


def summary(sides: Sequence[GroupSide], now_ms: int) -> Tag:
    rows = [
        (
            node("strong", "", side.region),
            figure(count(side.lag)),
            figure(lag_text(side, now_ms)),
            figure(count(side.pending_count)),
            figure(count(len(side.consumers))),
        )
        for side in sides
        if not side.error
    ]
    missing = [remark(f"{side.region}: {side.error}") for side in sides if side.error]
    heads = ("region", "lag, entries", "lag, time", "pending", "consumers")
    return panel("How far behind", *missing, table(heads, rows))


def lag_text(side: GroupSide, now_ms: int) -> str:
    """The age of the first entry that is not delivered there yet."""
    if not side.coming:
        return "0 s"
    late_ms = age_ms(side.coming[0].entry_id, now_ms)
    return NOTHING if late_ms is None else duration(late_ms)


def positions(sides: Sequence[GroupSide]) -> Tag:
    """Last delivered, and ack frontier, by origin and region."""
    rows: list[tuple[Tag | str, ...]] = []
    for origin in sorted({part.origin for side in sides for part in side.parts}):
        for side in sides:
            part = next((each for each in side.parts if each.origin == origin), None)
            if part is not None:
                rows.append(
                    (
                        node("td", "code", origin),
                        side.region,
                        node("td", "code", part.delivered),
                        node("td", "code", part.frontier),
                        figure(count(part.lag)),
                        figure(count(part.pending)),
                        figure(count(part.runs)),
                    )
                )
    heads = ("origin", "in", "last delivered", "ack frontier", "lag", "pending", "runs")
    return panel("By origin", table(heads, rows), classes="wide")


def moving(key: bytes, sides: Sequence[GroupSide], chosen: str, group: bytes) -> Tag:
    """What a consumer gets in the chosen region now: all that is neither delivered there nor acknowledged anywhere."""
    tabs = [
        node(
            "a",
            "here" if side.region == chosen else "",
            f"{side.region}: {count(side.lag)}",
            href=url("/group", key=key, group=group, to=side.region),
        )
        for side in sides
        if not side.error
    ]
    side = next((each for each in sides if each.region == chosen and not each.error), None)
    body: list[Tag] = []
    if side is None:
        body.append(remark("No region answers."))
    elif not side.lag:
        body.append(remark(f"Nothing: all there is was delivered in {chosen}, or acknowledged."))
    else:
        shown_count = len(side.coming)
        rest = f"; the first {shown_count} of them" if side.lag > shown_count else ""
        body.append(remark(f"{several(side.lag, 'entry', 'entries')}{rest}:"))
        body += [entry_card(entry) for entry in side.coming]
    return panel("What a consumer would get if it moved there now", node("nav", "tabs", *tabs), *body, classes="wide")


def pending(sides: Sequence[GroupSide]) -> Tag:
    rows = [
        (
            side.region,
            node("td", "break", shown(each.consumer)),
            figure(count(each.count)),
            figure(duration(each.oldest_ms) if each.count else NOTHING),
            figure(count(each.deliveries_max) if each.count else NOTHING),
            figure(duration(each.idle_ms)),
        )
        for side in sides
        for each in holdings(side)
    ]
    if not rows:
        return panel("Consumers", remark("No consumer has read yet."), classes="wide")
    heads = ("in", "consumer", "pending", "oldest", "deliveries, most", "seen before")
    return panel("Consumers", table(heads, rows), classes="wide")


def ages(sides: Sequence[GroupSide]) -> Tag:
    told = [(side.region, by_age(side.pending)) for side in sides if not side.error]
    names = list(told[0][1]) if told else []
    rows: list[tuple[Tag | str, ...]] = [
        (region, *[figure(count(found[name])) for name in names]) for region, found in told
    ]
    return panel("Pending by age", table(("in", *names), rows))


def deliveries(sides: Sequence[GroupSide]) -> Tag:
    counted = [(side.region, by_deliveries(side.pending)) for side in sides if side.pending]
    rows: list[tuple[Tag | str, ...]] = [
        (region, ", ".join(f"{count(number)} delivered {several(times, 'time')}" for times, number in found.items()))
        for region, found in counted
    ]
    often: list[tuple[Tag | str, ...]] = [
        (
            side.region,
            node("td", "code", each.entry_id),
            node("td", "break", shown(each.consumer)),
            figure(count(each.deliveries)),
        )
        for side in sides
        for each in most_delivered(side.pending, OFTEN_SHOWN)
    ]
    body = table(("in", "entries"), rows) if rows else remark("Nothing is pending.")
    repeated = table(("in", "delivered most often", "consumer", "deliveries"), often) if often else None
    return panel("Deliveries of pending entries", body, repeated)
