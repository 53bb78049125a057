"""Settings that were changed are seen by all who share them."""

from __future__ import annotations

from dataclasses import replace

from crdtstream.settings.config import Config, Limits
from crdtstream.settings.live import Settings


def test_a_change_is_seen_in_all_forms() -> None:
    settings = Settings(Config("east", 1, "shop"))
    assert (settings.limits, settings.password()) == (Limits(), b"")
    changed = replace(settings.config, requirepass="s\udcff", limits=Limits(heartbeat_ms=7))
    settings.change(changed)
    assert settings.config is changed
    assert (settings.limits.heartbeat_ms, settings.password()) == (7, b"s\xff")
