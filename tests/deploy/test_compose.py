"""deploy/compose.yaml keeps the rules that docs/deployment.md has for services."""

from __future__ import annotations

import re
from pathlib import Path

from crdtstream.settings.config import Limits

COMPOSE = (Path(__file__).resolve().parents[2] / "deploy" / "compose.yaml").read_text()


def test_a_container_is_killed_only_after_a_region_would_have_stopped() -> None:
    [seconds] = re.findall(r"^  stop_grace_period: (\d+)s$", COMPOSE, re.MULTILINE)
    assert int(seconds) * 1000 > Limits().stop_checkpoint_ms_max + Limits().stop_handover_ms_max


def test_every_region_has_what_all_have() -> None:
    assert COMPOSE.count("    <<: *region\n") == COMPOSE.count("    command: >-\n      serve ") == 3
