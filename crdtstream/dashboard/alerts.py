"""Which alert rules would fire now, from what regions say at their Redis ports, and said in the last hour. Pure.

The names, conditions and texts follow deploy/prometheus/alerts.yml. Rules on times of syncs and turns, on refusals and
on events of the log need the metrics: only Prometheus knows whether they hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from crdtstream.dashboard.decoding import shown as decoded
from crdtstream.dashboard.model import Place
from crdtstream.dashboard.site import page_of
from crdtstream.dashboard.trends import RegionTrends, Trends
from crdtstream.observing.certificates import ending
from crdtstream.observing.info import RegionReport
from crdtstream.observing.links import RegionLink
from crdtstream.observing.reading import RegionReading, labelled
from crdtstream.observing.rows import LinkRow
from crdtstream.observing.unread import UnreadGroups
from crdtstream.observing.words import duration, percent, several, size

METRIC_RULES = frozenset(("SyncsSlow", "LoopLate", "LinksRefused", "ProgramFault", "BlocksHeldInMemory"))
CRITICAL, WARNING = "critical", "warning"
UNLINKED_MS = 120_000
LAG_MS = 30_000
LACKING_MS = 60_000
NOT_ADMITTED_S = 600
USED_MAX = 0.9
HELD_MAX = 0.5


@dataclass(frozen=True)
class Alert:
    """A rule that holds now."""

    rule: str
    severity: str
    text: str

    @property
    def page(self) -> str:
        """Where its cure is, below the address of the documentation."""
        return page_of(self.rule)


@dataclass(frozen=True)
class AlertTime:
    """Now, in seconds of a steady clock and since 1970."""

    steady_s: float
    now_s: float


def alerts(
    readings: Sequence[RegionReading],
    shown: Sequence[Place],
    links: Sequence[RegionLink],
    trends: Trends,
    moment: AlertTime,
) -> list[Alert]:
    """Those that hold, without `METRIC_RULES`."""
    names = {place.region: place.name for place in shown}
    found: list[Alert] = []
    for reading in readings:
        found += of_region(reading, moment.now_s)
        found += of_trends(reading.label, trends.of(*reading.place), moment.steady_s)
    found += of_unread(trends.unread)
    found += [of_link(link, names) for link in links if not link.is_up and link.unlinked_ms > UNLINKED_MS]
    found += [
        Alert("PeerLags", WARNING, f"{place.label} is {duration(place.lag_ms)} behind")
        for place in shown
        if place.lag_ms > LAG_MS
    ]
    return ordered(found)


def ordered(found: Iterable[Alert]) -> list[Alert]:
    """Each once, critical ones first."""
    return sorted(set(found), key=lambda alert: (alert.severity, alert.rule, alert.text))


def of_link(link: RegionLink, names: dict[int, str]) -> Alert:
    one, other = (labelled(names[region], link.shard) for region in (link.one, link.other))
    return Alert("PeerUnlinked", WARNING, f"{one} and {other} have not been linked for {duration(link.unlinked_ms)}")


def of_trends(name: str, trends: RegionTrends, now_s: float) -> list[Alert]:
    found: list[Alert] = []
    if trends.restarts:
        found.append(Alert("RegionRestarts", WARNING, f"{name} starts again and again"))
    if trends.fills_up(now_s):
        found.append(Alert("DiskFillsUp", WARNING, f"the disk of {name} is full within four hours"))
    if trends.is_guessed_at:
        found.append(Alert("PasswordsGuessed", WARNING, f"somebody tries passwords at {name}"))
    return found


def of_unread(unread: UnreadGroups) -> list[Alert]:
    """One for each group that is shown, and one for all others."""
    told = [
        f"the group {decoded(group.group)} of {decoded(group.key)} in {group.region}"
        + (" and others" if group.in_others else "")
        for group in unread.shown
    ]
    more = unread.number - len(unread.shown)
    if more > 0:
        told.append(f"{several(more, 'more group')}: crdtstream admin groups lists them")
    return [Alert("GroupNotRead", WARNING, f"nobody reads {named}") for named in told]


def of_region(reading: RegionReading, now_s: float) -> list[Alert]:
    if not reading.answers:
        return [Alert("RegionDown", CRITICAL, f"{reading.label} does not answer: {reading.error}")]
    report = reading.report
    assert report is not None, "a region that answers has a report"
    name = reading.label
    ends = [Alert("CertificateEnds", WARNING, text) for text in ending(name, report.certificates, now_s)]
    return [*of_standing(name, report), *of_room(name, report), *of_peers(name, reading.links), *ends]


def of_standing(name: str, report: RegionReport) -> list[Alert]:
    found: list[Alert] = []
    if report.loading:
        found.append(Alert("RegionNotServing", CRITICAL, f"{name} serves no clients: {report.loading}"))
    if not report.admitted and report.uptime_s > NOT_ADMITTED_S:
        found.append(Alert("RegionNotAdmitted", WARNING, f"{name} creates no groups"))
    if report.audit_differences or report.audit_shared_origins:
        found.append(Alert("StateDiffers", CRITICAL, f"{name} and a peer hold different state"))
    if report.log_damages:
        found.append(Alert("LogDamaged", CRITICAL, f"a part of the log of {name} cannot be read"))
    if report.blocks_unreadable:
        told = f"{name} cannot read a block of {report.blocks_first_unreadable}, and work waits for it"
        found.append(Alert("BlockUnreadable", CRITICAL, told))
    if report.checkpoint_failed:
        found.append(Alert("CheckpointsFail", WARNING, f"{name} cannot take a checkpoint"))
    return found


def of_room(name: str, report: RegionReport) -> list[Alert]:
    found: list[Alert] = []
    if report.disk_full:
        found.append(Alert("WritesRefused", CRITICAL, f"{name} refuses writes, its disk is full: {report.disk_remedy}"))
    elif report.disk_nearly_full:
        told = f"{size(report.disk_free_bytes)} free, the log takes {size(report.log_bytes)}"
        found.append(Alert("DiskNearlyFull", WARNING, f"the disk of {name} is nearly full: {told}"))
    if report.memory_short:
        found.append(Alert("WritesRefused", CRITICAL, f"{name} refuses writes: its memory is at the limit"))
    elif report.memory_limit_bytes and report.memory_bytes > USED_MAX * report.memory_limit_bytes:
        used = percent(report.memory_bytes, report.memory_limit_bytes)
        found.append(Alert("MemoryHigh", WARNING, f"{name} uses {used} of its memory"))
    if report.log_held_bytes > HELD_MAX * report.disk_free_bytes:
        found.append(Alert("LogHeldBack", WARNING, f"{name} keeps {size(report.log_held_bytes)} of log for a peer"))
    if report.clients_limit and report.clients > USED_MAX * report.clients_limit:
        found.append(
            Alert("ClientsNearLimit", WARNING, f"{name} has {report.clients} of {report.clients_limit} clients")
        )
    return found


def of_peers(name: str, rows: Sequence[LinkRow]) -> list[Alert]:
    return [
        Alert("PeerLacksRoom", WARNING, f"{row.name} has no room ({row.lacking}): batches of {name} wait")
        for row in rows
        if row.lacking and row.lacking_ms > LACKING_MS and row.link != "self"
    ]
