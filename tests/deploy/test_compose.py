"""deploy/compose.yaml keeps the rules that docs/deployment.md has for services."""

from __future__ import annotations

import re
from pathlib import Path

from crdtstream.settings.config import Limits

COMPOSE = (Path(__file__).resolve().parents[2] / "deploy" / "compose.yaml").read_text()


def test_a_container_is_killed_only_after_a_region_would_have_stopped() -> None:
    [seconds] = re.findall(r"^  stop_grace_period: (\d+)s$", COMPOSE, re.MULTILINE)
    assert int(seconds) * 1000 > Limits().stop_checkpoint_ms_max + Limits().stop_handover_ms_max


def test_every_container_of_the_image_has_what_all_have() -> None:
    commands = re.findall(r"    command: >-\n      (serve|demo|dashboard) ", COMPOSE)
    assert sorted(commands) == ["dashboard", "demo", "serve", "serve", "serve"]
    assert COMPOSE.count("    <<: *container\n") == len(commands)


def test_each_region_announces_the_name_of_its_container() -> None:
    """One node is enough for the dashboard."""
    named = re.findall(r"serve --name (\w+) --region \d --cluster \w+ --announce-host (\w+) ", COMPOSE)
    assert len(named) == 3 and all(name == host for name, host in named)
