"""Alerts: those of deploy/prometheus/alerts.yml that Redis ports tell."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from crdtstream.dashboard.alerts import CRITICAL, Alert, alerts
from crdtstream.dashboard.model import places
from crdtstream.observing.links import links
from crdtstream.observing.rows import LinkRow
from tests.dashboard.cluster import reading, row
from tests.tidy import ROOT

NOW_S = 1_800_000_000.0


def found(*rows: LinkRow, error: str = "", late_ms: int = 0, **changes: Any) -> list[Alert]:
    one, other = reading(1, {"1.a": 5}, *rows, error=error, **changes), reading(2, {"1.a": 4}, row(1))
    shown = places([one, other], {2: late_ms})
    return alerts([one, other], shown, links([one, other], {}), NOW_S)


@pytest.mark.parametrize(
    ("rule", "changes"),
    [
        ("RegionNotServing", {"loading": "it reads its disk"}),
        ("RegionNotAdmitted", {"admitted": False, "uptime_s": 700}),
        ("StateDiffers", {"audit_differences": 1}),
        ("StateDiffers", {"audit_shared_origins": "1.a"}),
        ("LogDamaged", {"log_damages": 1}),
        ("CheckpointsFail", {"checkpoint_failed": True}),
        ("WritesRefused", {"disk_full": True}),
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


def test_critical_ones_come_first() -> None:
    assert found(row(2), late_ms=40_000, log_damages=1)[0].severity == CRITICAL


def test_the_rules_are_those_of_prometheus() -> None:
    source = (ROOT / "crdtstream" / "dashboard" / "alerts.py").read_text(encoding="utf-8")
    rules = (ROOT / "deploy" / "prometheus" / "alerts.yml").read_text(encoding="utf-8")
    known = dict(re.findall(r"alert: (\w+).*?severity: (\w+)", rules, re.DOTALL))
    used = re.findall(r'Alert\("(\w+)", (\w+)', source)
    assert used and all(known[name].upper() == severity for name, severity in used)
