"""SIGHUP: what changed in the file is applied where that is possible, and named where it is not."""

from __future__ import annotations

from dataclasses import replace

import structlog.testing
from structlog.typing import EventDict

from crdtstream.settings.config import Config, ConfigError, Limits
from crdtstream.settings.reloading import Reloading

STARTED = Config("east", 1, "c", peers=("127.0.0.1:1",), limits=Limits(heartbeat_ms=500))


class File:
    """What the file says now."""

    def __init__(self) -> None:
        self.config = STARTED
        self.fault = ""

    def load(self) -> Config:
        if self.fault:
            raise ConfigError(self.fault)
        return self.config


def reload(reloading: Reloading, present: Config) -> tuple[Config, list[EventDict]]:
    with structlog.testing.capture_logs() as told:
        after = reloading.reload(present)
    return after, told


def test_what_changed_is_applied_and_the_rest_is_named() -> None:
    file = File()
    reloading = Reloading(STARTED, file.load)
    limits = replace(STARTED.limits, heartbeat_ms=700, window_bytes=1 << 20)
    file.config = replace(STARTED, peers=("127.0.0.1:2",), port=7, log_level="debug", limits=limits)
    after, told = reload(reloading, STARTED)
    assert after == replace(
        STARTED, peers=("127.0.0.1:2",), log_level="debug", limits=replace(STARTED.limits, heartbeat_ms=700)
    )
    assert [(line["event"], line.get("changed") or line.get("settings")) for line in told] == [
        ("settings-reloaded", "peers log-level heartbeat_ms"),
        ("settings-need-restart", "port window_bytes"),
    ]
    after, told = reload(reloading, after)
    assert [(line["event"], line.get("changed", "")) for line in told] == [
        ("settings-reloaded", ""),
        ("settings-need-restart", ""),
    ]


def test_what_was_set_at_run_time_stays_until_the_file_changes_there() -> None:
    file = File()
    reloading = Reloading(STARTED, file.load)
    present = replace(STARTED, peers=(), limits=replace(STARTED.limits, heartbeat_ms=300))
    assert reload(reloading, present)[0] == present
    file.config = replace(STARTED, limits=replace(STARTED.limits, heartbeat_ms=900))
    after, _ = reload(reloading, present)
    assert (after.peers, after.limits.heartbeat_ms) == ((), 900)


def test_a_file_that_cannot_be_used_changes_nothing() -> None:
    file = File()
    reloading = Reloading(STARTED, file.load)
    file.config = replace(STARTED, peers=("127.0.0.1:2",))
    file.fault = 'unknown setting "peer"'
    after, told = reload(reloading, STARTED)
    assert after is STARTED
    assert [(line["event"], line["reason"]) for line in told] == [("settings-not-reloaded", 'unknown setting "peer"')]
    file.fault = ""
    assert reload(reloading, STARTED)[0].peers == ("127.0.0.1:2",), "it counts as changed still"


def test_values_that_do_not_fit_what_was_set_meanwhile_change_nothing() -> None:
    file = File()
    reloading = Reloading(STARTED, file.load)
    present = replace(STARTED, limits=replace(STARTED.limits, heartbeat_ms=2_500))
    file.config = replace(STARTED, limits=replace(STARTED.limits, peer_timeout_ms=4_000))
    after, (line,) = reload(reloading, present)
    assert after is present
    assert line["reason"] == "limit peer_timeout_ms 4000 must be at least 2 times heartbeat_ms, 5000"


def test_a_password_and_its_file_are_one_setting_that_no_log_shows() -> None:
    file = File()
    reloading = Reloading(STARTED, file.load)
    file.config = replace(STARTED, requirepass="hush", requirepass_file="/run/secret")
    after, told = reload(reloading, STARTED)
    assert (after.requirepass, after.requirepass_file) == ("hush", "/run/secret")
    assert [line.get("changed") for line in told] == ["requirepass requirepass-file"]
    file.config = replace(file.config, requirepass="hush again")
    after, told = reload(reloading, after)
    assert after.requirepass == "hush again" and "hush" not in str(told)


def test_without_a_file_there_is_nothing_to_read() -> None:
    assert reload(Reloading(STARTED, None), STARTED) == (STARTED, [])
