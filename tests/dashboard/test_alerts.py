"""Alerts: those of deploy/prometheus/alerts.yml that Redis ports tell."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crdtstream.dashboard.alerts import CRITICAL, METRIC_RULES, Alert, AlertTime, alerts
from crdtstream.dashboard.model import places
from crdtstream.dashboard.site import SITE
from crdtstream.dashboard.trends import FILLS_FOR_S, Trends
from crdtstream.observing.lagging import LaggingGroup
from crdtstream.observing.links import links
from crdtstream.observing.rows import LinkRow
from crdtstream.observing.unread import UnreadGroups
from tests.dashboard.cluster import reading, report, row
from tests.tidy import ROOT

GIB = 1 << 30
NOW_S = 1_800_000_000.0


def found(*rows: LinkRow, error: str = "", late_ms: int = 0, **changes: Any) -> list[Alert]:
    one, other = reading(1, {"1.a": 5}, *rows, error=error, **changes), reading(2, {"1.a": 4}, row(1))
    shown = places([one, other], {(2, 0): late_ms})
    return alerts([one, other], shown, links([one, other], {}), Trends(), AlertTime(0.0, NOW_S))


@pytest.mark.parametrize(
    ("rule", "changes"),
    [
        ("RegionNotServing", {"loading": "it reads its disk"}),
        ("RegionNotAdmitted", {"admitted": False, "uptime_s": 700}),
        ("StateDiffers", {"audit_differences": 1}),
        ("StateDiffers", {"audit_shared_origins": "1.a"}),
        ("LogDamaged", {"log_damages": 1}),
        ("CheckpointsFail", {"checkpoint_failed": True}),
        ("BlockUnreadable", {"blocks_unreadable": 1, "blocks_first_unreadable": "blocks-00000007:4096"}),
        ("WritesRefused", {"disk_full": True}),
        ("WritesRefused", {"disk_full": True, "log_bytes": 1 << 30}),
        ("DiskNearlyFull", {"log_bytes": 500 << 20, "disk_reserve_bytes": 16 << 20}),
        ("WritesRefused", {"memory_bytes": 10, "memory_limit_bytes": 10}),
        ("MemoryHigh", {"memory_bytes": 95, "memory_limit_bytes": 100}),
        ("LogHeldBack", {"log_held_bytes": 1 << 30}),
        ("ClientsNearLimit", {"clients": 95, "clients_limit": 100}),
        ("CertificateEnds", {"certificates": {"redis": 1_801_000_000, "http": 1_802_000_000}}),
        ("RegionDown", {"error": "Connection refused"}),
        ("PeerLags", {"late_ms": 40_000}),
    ],
)
def test_each_rule(rule: str, changes: dict[str, Any]) -> None:
    assert [alert.rule for alert in found(row(2), **changes)] == [rule]
    assert found(row(2)) == []


def test_a_link_that_is_down_for_long() -> None:
    assert found(row(2, "none", unlinked_ms=60_000)) == []
    (alert,) = found(row(2, "none", unlinked_ms=180_000))
    assert (alert.rule, alert.text) == ("PeerUnlinked", "east and west have not been linked for 3 min")


def test_a_peer_without_room() -> None:
    (alert,) = found(replace(row(2), lacking="disk", lacking_ms=90_000))
    assert (alert.rule, alert.text) == ("PeerLacksRoom", "west has no room (disk): batches of east wait")


def test_rules_about_the_last_hour() -> None:
    trends, one = Trends(), reading(1, {})
    unread = UnreadGroups([LaggingGroup("east", b"orders", b"<b>", 2_000, 0, "", "5-1")], 1)
    for step in range(100):
        now = report(1, {}, run_id=str(step // 25), passwords_denied=10 * step)
        trends.record(9.0 * step, [replace(now, disk_free_bytes=GIB - (step << 22))], unread)
    found = alerts([one], [], [], trends, AlertTime(2 * FILLS_FOR_S, NOW_S))
    assert [alert.rule for alert in found] == ["DiskFillsUp", "GroupNotRead", "PasswordsGuessed", "RegionRestarts"]
    assert found[1].text == "nobody reads the group <b> of orders in east"


def test_groups_that_nobody_reads_are_few_rows() -> None:
    trends = Trends()
    shown = LaggingGroup("east", b"orders", b"billing", 2_000, 0, "", in_others=True)
    trends.record(0.0, [], UnreadGroups([shown], 8_001))
    assert [alert.text for alert in alerts([], [], [], trends, AlertTime(0.0, NOW_S))] == [
        "nobody reads 8,000 more groups: crdtstream admin groups lists them",
        "nobody reads the group billing of orders in east and others",
    ]


def test_critical_ones_come_first() -> None:
    assert found(row(2), late_ms=40_000, log_damages=1)[0].severity == CRITICAL


def test_the_rules_are_those_of_prometheus() -> None:
    source = (ROOT / "crdtstream" / "dashboard" / "alerts.py").read_text(encoding="utf-8")
    rules = (ROOT / "deploy" / "prometheus" / "alerts.yml").read_text(encoding="utf-8")
    known = dict(re.findall(r"alert: (\w+).*?severity: (\w+)", rules, re.DOTALL))
    used = re.findall(r'Alert\("(\w+)", (\w+)', source)
    assert used and all(known[name].upper() == severity for name, severity in used)
    assert known.keys() - {name for name, _ in used} == METRIC_RULES


def test_a_rule_has_one_page_everywhere() -> None:
    """And the page and its heading exist, where mkdocs.yml says that the site is."""
    rules = (ROOT / "deploy" / "prometheus" / "alerts.yml").read_text(encoding="utf-8")
    told = re.findall(r"alert: (\w+)\n.*?runbook_url: (\S+)", rules, re.DOTALL)
    assert len(told) == rules.count("- alert:")
    for rule, url in told:
        assert url == SITE + Alert(rule, "", "").page
        page, _, anchor = url.removeprefix(SITE).partition("/#")
        assert anchor in anchors(ROOT / "docs" / f"{page}.md"), url
    assert f"site_url: {SITE}\n" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


def anchors(page: Path) -> set[str]:
    """The headings, as the site names them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_a_shard_is_named() -> None:
    one = reading(
        1, {}, row(2, "none", reason="refused", unlinked_ms=200_000), shard=1, shards=2, checkpoint_failed=True
    )
    other = reading(2, {"2.a": 1}, row(1), shard=1, shards=2, error="Connection refused")
    readings = [one, other]
    shown = places(readings, {(1, 1): 40_000})
    told = alerts(readings, shown, links(readings, {}), Trends(), AlertTime(0.0, NOW_S))
    assert {(each.rule, each.text) for each in told} == {
        ("CheckpointsFail", "east shard 1 cannot take a checkpoint"),
        ("RegionDown", "west shard 1 does not answer: Connection refused"),
        ("PeerUnlinked", "east shard 1 and west shard 1 have not been linked for 3 min"),
        ("PeerLags", "east shard 1 is 40 s behind"),
    }


def test_trends_are_those_of_a_shard() -> None:
    trends = Trends()
    for number in range(4):
        trends.record(60.0 * number, [report(1, {}, shard=1, run_id=f"run {number}")], UnreadGroups())
    assert (trends.of(1, 1).restarts, trends.of(1, 0).restarts) == (True, False)
