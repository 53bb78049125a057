"""Each line is one event that parsers accept, whatever is in its fields."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.runtime.logs.logging import configure_logging, log, log_counts, render_json, render_logfmt
from crdtstream.settings.config import Config
from tests.runtime.log_lines import PARSERS, events_in, parse_json, parse_logfmt

VALUES = st.one_of(st.text(st.characters(), max_size=30), st.integers(), st.booleans(), st.floats(allow_nan=False))


@pytest.fixture
def written(capsys: pytest.CaptureFixture[str]) -> Iterator[pytest.CaptureFixture[str]]:
    yield capsys
    structlog.reset_defaults()


@given(st.dictionaries(st.sampled_from(["reason", "detail", "peer"]), VALUES))
def test_any_value_survives(fields: dict[str, object]) -> None:
    line = render_logfmt(None, "", {"event": "a", **fields})
    assert line.isascii() and line.isprintable()
    assert set(parse_logfmt(line)) == {"event", *fields}
    line = render_json(None, "", {"event": "a", **fields})
    assert line.isascii() and line.isprintable()
    assert set(parse_json(line)) == {"event", *fields}


def test_values_come_back() -> None:
    fields = {"detail": 'say "x=1"\n\tüber \\ \udcff', "peer": 3, "ok": True, "nothing": None}
    expected = 'say "x=1"\n\tüber \\ \\udcff'
    assert parse_logfmt(render_logfmt(None, "", dict(fields))) == {"detail": expected, "peer": "3", "ok": "true"}
    assert parse_json(render_json(None, "", dict(fields))) == {"detail": expected, "peer": 3, "ok": True}


@pytest.mark.parametrize("log_format", [*PARSERS])
def test_an_exception_is_a_field(written: pytest.CaptureFixture[str], log_format: str) -> None:
    configure_logging(Config("east", 1, "shop", log_format=log_format))
    try:
        raise ValueError("first\nsecond")
    except ValueError as error:
        structlog.get_logger().error("region-failed", reason="x", exc_info=error)
    [told] = events_in(written.readouterr().err, log_format)
    assert (told["level"], told["region"], told["event"]) == ("error", "east", "region-failed")
    assert "ValueError: first\nsecond" in told["exception"]


def test_people_get_colours_and_tracebacks_of_several_lines(written: pytest.CaptureFixture[str]) -> None:
    configure_logging(Config("east", 1, "shop", log_format="console"))
    log(structlog.get_logger(), "link-lost", reason="gone", peer=2)
    assert "link-lost" in (told := written.readouterr().err) and "reason=gone" in told


def test_an_event_is_logged_at_its_level_and_counted(written: pytest.CaptureFixture[str]) -> None:
    configure_logging(Config("east", 1, "shop", log_level="warning"))
    before = log_counts["disk-full", "warning"], log_counts["link-lost", "info"]
    log(structlog.get_logger(), "disk-full", data="/data")
    log(structlog.get_logger(), "link-lost", reason="gone")
    [told] = events_in(written.readouterr().err, "logfmt")
    assert (told["event"], told["data"]) == ("disk-full", "/data")
    assert (log_counts["disk-full", "warning"], log_counts["link-lost", "info"]) == (before[0] + 1, before[1])
