"""Every line that real regions log is an event that parsers accept, whatever goes wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crdtstream.processes.region import RegionProcess, regions_in
from crdtstream.processes.waiting import until
from crdtstream.status.events import AS_GIVEN, EVENTS
from tests.runtime.log_lines import PARSERS, events_in
from tests.runtime.speakers import certificate, needs_openssl

REGION = {"timestamp", "level", "event", "region", "exception"}


def told_by(region: RegionProcess, log_format: str) -> list[dict[str, Any]]:
    told = events_in(region.log(), log_format)
    for fields in told:
        event = EVENTS[fields["event"]]
        assert fields["region"] == region.name
        assert event.level in (fields["level"], AS_GIVEN)
        assert {*fields} <= REGION | {*event.fields}, fields
    return told


def count(region: RegionProcess, log_format: str, event: str) -> int:
    return sum(fields["event"] == event for fields in told_by(region, log_format))


def complete(region: RegionProcess) -> bool:
    """Return whether the last line is whole; the region may be writing it."""
    return region.log().endswith("\n")


@pytest.mark.parametrize("log_format", [*PARSERS])
def test_a_life_with_links_a_refusal_and_an_end(tmp_path: Path, log_format: str) -> None:
    with regions_in(tmp_path) as regions:
        east, west, stranger = regions.make(1, 2, 3)
        settings = {"log_format": log_format, "log_level": "debug"}
        east.start(west, incarnation=0, **settings)
        west.start(east, incarnation=0, **settings)
        stranger.start(east, incarnation=0, cluster="another", **settings)
        for region in (east, west):
            region.await_serving()
        east.create_group("x", "g")
        east.ask("SAVE")
        until(lambda: "link-refused" in east.log() and complete(east), "the stranger is refused")
        assert (east.terminate(), west.terminate(), stranger.terminate()) == (0, 0, 0)
        names = [fields["event"] for fields in told_by(east, log_format)]
        assert names[:2] == ["disk-read", "listening"]
        assert {"founded", "ready", "serving", "link-opened", "checkpoint-taken"} <= {*names}
        assert told_by(west, log_format) and told_by(stranger, log_format)


@needs_openssl
@pytest.mark.parametrize("log_format", [*PARSERS])
def test_a_wrong_certificate_is_one_line_on_both_sides(tmp_path: Path, log_format: str) -> None:
    for name in ("authority", "other"):
        certificate(tmp_path, name, None)
    certificate(tmp_path, "east", "authority", 1)
    certificate(tmp_path, "west", "other", 2)
    (tmp_path / "settings.toml").write_text("[limits]\nbackoff_ms_max = 100\npeer_timeout_ms = 2000\n")
    with regions_in(tmp_path) as regions:
        east, west = regions.make(1, 2)
        for region, name, authority in ((east, "east", "authority"), (west, "west", "other")):
            files = {
                "tls_certificate": tmp_path / f"{name}.pem",
                "tls_key": tmp_path / f"{name}.key",
                "tls_authority": tmp_path / f"{authority}.pem",
            }
            other = west if region is east else east
            region.start(other, config=tmp_path / "settings.toml", incarnation=0, log_format=log_format, **files)
        for region in (east, west):
            region.await_serving()
            until(lambda at=region: "peer-unreachable" in at.log() and complete(at), region.log)  # type: ignore[misc]
            assert count(region, log_format, "peer-unreachable") == 1
            assert count(region, log_format, "native-message") <= 1


@pytest.mark.parametrize("log_format", [*PARSERS])
def test_a_region_that_cannot_start_says_why_in_an_event(tmp_path: Path, log_format: str) -> None:
    with regions_in(tmp_path) as regions:
        east, west = regions.make(1, 2)
        east.start(incarnation=0)
        east.await_serving()
        west.start(incarnation=0, port=east.port, log_format=log_format)
        assert west.await_end() == 1
        last = told_by(west, log_format)[-1]
        assert (last["event"], str(last["code"])) == ("exit", "1") and "cannot listen for clients" in last["reason"]
