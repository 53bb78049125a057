"""The overview: do the regions agree, and who is behind?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from crdtstream.dashboard.addresses import url
from crdtstream.dashboard.alerts import CRITICAL, Alert
from crdtstream.dashboard.decoding import shown
from crdtstream.dashboard.drawing import drawing
from crdtstream.dashboard.model import AGREE, BEHIND, DIFFER, DigestRound, Headline, Place
from crdtstream.dashboard.nodes import Tag, badge, figure, link, meter, node, panel, remark, table
from crdtstream.observing.certificates import end_text, first_end_s, is_soon
from crdtstream.observing.info import RegionReport
from crdtstream.observing.lagging import LaggingGroup
from crdtstream.observing.links import RegionLink
from crdtstream.observing.reading import RegionReading, labelled
from crdtstream.observing.unread import MARKED_MAX
from crdtstream.observing.words import NOTHING, age_ms, count, duration, percent, several, size

MARKS = {AGREE: "✓", BEHIND: "…", DIFFER: "✕"}
KINDS = {AGREE: "good", BEHIND: "warn", DIFFER: "bad"}
DIGEST_SHOWN = 8
REGION_HEADS = (
    "region",
    "state",
    "digest",
    "behind",
    "keys",
    "memory",
    "disk",
    "restarts",
    "clients",
    "commands/s",
    "certificate",
)


def banner(verdict: Headline) -> Tag:
    kind = KINDS.get(verdict.kind, "dim")
    told = [node("li", "", text) for text in verdict.details]
    return node(
        "section",
        f"banner {kind}",
        node("span", "mark", MARKS.get(verdict.kind, "?"), aria_hidden="true"),
        node("div", "", node("h1", "", verdict.headline), node("ul", "", *told) if told else None),
        role="status",
    )


def picture(places: Sequence[Place], links: Sequence[RegionLink]) -> Tag:
    down = [each for each in links if not each.is_up]
    names = {place.region: place.name for place in places}
    return panel(
        "Regions and links", drawing(places, links), down_links(down, links, names) if down else None, classes="wide"
    )


def down_links(down: Sequence[RegionLink], links: Sequence[RegionLink], names: dict[int, str]) -> Tag:
    """A row for each link; one row for a region that has lost several links and has none left."""
    left = list(down)
    rows: list[tuple[Tag | str, ...]] = []
    for region in names:
        own = [each for each in left if region in (each.one, each.other)]
        all_of_it = [each for each in links if region in (each.one, each.other)]
        if len(own) == len(all_of_it) > 2:
            rows.append(down_row(f"{names[region]} and all {len(own)} others", own))
            left = [each for each in left if each not in own]
    rows += [
        down_row(f"{labelled(names[each.one], each.shard)} and {labelled(names[each.other], each.shard)}", [each])
        for each in left
    ]
    return table(("link is down", "for", "lag, effects", "lag, time", "why"), rows)


def down_row(text: str, down: Sequence[RegionLink]) -> tuple[Tag | str, ...]:
    unlinked_ms = max(each.unlinked_ms for each in down)
    reasons = list(dict.fromkeys(each.reason for each in down if each.reason))
    more = f" (and {several(len(reasons) - 1, 'other reason')})" if len(reasons) > 1 else ""
    return (
        text,
        figure(duration(unlinked_ms) if unlinked_ms >= 0 else NOTHING),
        figure(count(max(each.lag for each in down))),
        figure(duration(max(each.lag_ms for each in down))),
        node("td", "reason", f"{reasons[0]}{more}" if reasons else ""),
    )


def regions(
    readings: Sequence[RegionReading], places: Sequence[Place], rounds: Mapping[int, DigestRound], now_s: float
) -> Tag:
    """A row for each region, or for each of its shards; `rounds` are the digests of each shard."""
    late = {(place.region, place.shard): place for place in places}
    rows = [
        region_row(
            each, late.get((each.region, each.shard if each.shards > 1 else None)), digest_in(rounds, each), now_s
        )
        for each in readings
    ]
    return panel("Regions", table(REGION_HEADS, rows), classes="wide")


def digest_in(rounds: Mapping[int, DigestRound], reading: RegionReading) -> str:
    found = rounds.get(reading.shard)
    return "" if found is None else found.digests.get(reading.region, "")


def region_row(reading: RegionReading, place: Place | None, digest: str, now_s: float) -> tuple[Tag | str, ...]:
    report = reading.report
    if report is None or place is None:
        return (reading.label, badge("no answer", "bad"), node("td", "reason", reading.error, colspan=9))
    return (
        node("td", "", node("span", "", node("strong", "", report.name), node("span", "dim", number_of(reading)))),
        region_badge(reading, report),
        node("td", "code", digest[:DIGEST_SHOWN] or NOTHING, title=digest or "not told yet"),
        figure(f"{count(place.lag)} · {duration(place.lag_ms)}" if place.lag else "0"),
        figure(count(report.keys)),
        node("td", "", memory(report)),
        node("td", "", disk(report)),
        figure(restarts(reading)),
        figure(count(report.clients)),
        figure(count(report.commands_per_s)),
        certificate(report, now_s),
    )


def number_of(reading: RegionReading) -> str:
    return f" {reading.region}" if reading.shards == 1 else f" {reading.region} · shard {reading.shard}"


def region_badge(reading: RegionReading, report: RegionReport) -> Tag:
    if reading.error:
        return node("td", "", badge("no answer", "bad"), node("span", "dim", f" {reading.error}"))
    if report.loading:
        return node("td", "", badge("loading", "bad"), node("span", "dim", f" {report.loading}"))
    if report.disk_full or report.memory_short:
        return badge("refuses writes", "bad")
    return badge("serves", "good") if report.admitted else badge("not admitted", "warn")


def memory(report: RegionReport) -> Tag:
    limit = report.memory_limit_bytes
    if limit:
        return meter(report.memory_bytes, limit, f"{size(report.memory_bytes)} of {size(limit)}")
    return meter(report.memory_bytes, report.system_bytes, f"{size(report.memory_bytes)}, no limit")


def disk(report: RegionReport) -> Tag:
    """How much has to be free, for writes to go on or for the disk not to be nearly full, of what is."""
    told = f"{size(report.disk_free_bytes)} free, log {size(report.log_bytes)}"
    if report.disk_needed_bytes:
        told += f", needs {percent(report.disk_needed_bytes, report.disk_free_bytes)}"
    return meter(report.disk_needed_bytes or report.disk_low_bytes, report.disk_free_bytes, told)


def certificate(report: RegionReport, now_s: float) -> Tag | str:
    """The end of the first to end; all of them stand in its title."""
    first_s = first_end_s(report.certificates)
    if first_s is None:
        return "no TLS"
    ends = [f"{port}: {end_text(end_s, now_s)}" for port, end_s in report.certificates.items()]
    text = end_text(first_s, now_s)
    shown_as = badge(text, "warn" if first_s > now_s else "bad") if is_soon(first_s, now_s) else text
    return node("td", "", shown_as, title="; ".join(ends))


def restarts(reading: RegionReading) -> str:
    assert reading.report is not None
    own = [row.incarnation for row in reading.origins if row.origin == reading.report.origin]
    up = duration(1000 * reading.report.uptime_s)
    return f"{own[0]} · up {up}" if own else f"up {up}"


def lagging(groups: Sequence[LaggingGroup], is_complete: bool, now_ms: int, crowded: Sequence[str] = ()) -> Tag:
    """`crowded` are the regions in which more groups lag than are watched."""
    rows = [
        (
            link(shown(each.group), url("/group", key=each.key, group=each.group)),
            link(shown(each.key), url("/stream", key=each.key)),
            f"{each.region} and others" if each.in_others else each.region,
            figure(count(each.lag)),
            figure(late_text(each.oldest_id, now_ms)),
            figure(count(each.pending)),
        )
        for each in groups
    ]
    told = [] if is_complete else [remark("The streams are still being visited; more may follow.")]
    told += [unwatched(crowded)] if crowded else []
    if not rows:
        return panel("Groups that lag most", *(told or [remark("Every group has delivered all there is.")]))
    heads = ("group", "stream", "in", "lag, entries", "lag, time", "pending")
    return panel("Groups that lag most", table(heads, rows), *told)


def unwatched(crowded: Sequence[str]) -> Tag:
    where = " and ".join(crowded)
    return remark(f"In {where}, more than {MARKED_MAX:,} groups lag: GroupNotRead does not watch the others.")


def late_text(entry_id: str, now_ms: int) -> str:
    late_ms = age_ms(entry_id, now_ms)
    return NOTHING if late_ms is None else duration(late_ms)


def alarms(found: Sequence[Alert], site: str, prometheus_error: str = "") -> Tag:
    """`site` is the address of the documentation."""
    told = remark(f"Prometheus does not say which fire: {prometheus_error}") if prometheus_error else None
    if not found:
        return panel("Alerts", remark("No alert would fire now."), told)
    rows = [
        (
            badge(each.severity, "bad" if each.severity == CRITICAL else "warn"),
            node("strong", "", each.rule),
            each.text,
            node("a", "", each.page.partition("#")[2].replace("-", " "), href=site + each.page, rel="noreferrer"),
        )
        for each in found
    ]
    return panel("Alerts that would fire now", table(("", "rule", "because", "what to do"), rows), told)
