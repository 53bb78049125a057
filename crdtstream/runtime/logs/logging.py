"""The log on standard error: one event per line, as logfmt, as JSON, or for people at a terminal.

Every event has a name of `crdtstream.status.events`, a level, the time in UTC, and the name of the region; those of a
shard, its number. In logfmt a
value that is not a plain word is a JSON string; both forms are ASCII, so no parser meets a line break or a byte that it
cannot read.

`log_counts` counts what was logged, by event and level.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections import Counter
from collections.abc import MutableMapping
from typing import Any

import structlog

from crdtstream.settings.config import CONSOLE, JSON, Config
from crdtstream.status.events import EVENTS

FIRST_FIELDS = ("timestamp", "level", "event", "region", "shard")
PLAIN = re.compile(r"[A-Za-z0-9_.:/@%+,;\[\]-]+")
NUMBERS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

Fields = MutableMapping[str, Any]

log_counts: Counter[tuple[str, str]] = Counter()


def configure_logging(config: Config) -> None:
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            RegionName(config.name, config.shard),
            count,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *renderers(config.log_format),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(NUMBERS[config.log_level]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        # Not cached, because the level may change while the region runs.
        cache_logger_on_first_use=False,
    )


def renderers(log_format: str) -> list[Any]:
    if log_format == CONSOLE:
        return [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
    return [structlog.processors.format_exc_info, render_json if log_format == JSON else render_logfmt]


def log(logger: Any, event: str, **fields: Any) -> None:
    """Log an event that is not known by name where it is logged, at its level."""
    logger.log(NUMBERS[EVENTS[event].level], event, **fields)


class RegionName:
    """Names the region in each event, and the shard if it has several."""

    def __init__(self, name: str, shard: str = "") -> None:
        self._name = name
        self._shard = shard

    def __call__(self, _logger: Any, _method: str, fields: Fields) -> Fields:
        fields["region"] = self._name
        if self._shard:
            fields["shard"] = self._shard
        return fields


def count(_logger: Any, _method: str, fields: Fields) -> Fields:
    log_counts[str(fields["event"]), str(fields["level"])] += 1
    return fields


def in_order(fields: Fields) -> dict[str, Any]:
    """What every event has comes first; fields without a value are left out."""
    ordered = {name: fields.pop(name) for name in FIRST_FIELDS if name in fields} | dict(fields)
    return {name: value for name, value in ordered.items() if value is not None}


def printable(value: object) -> str:
    """The text without what UTF-8 cannot encode, which bytes of a client may have become."""
    return str(value).encode("utf-8", "backslashreplace").decode("utf-8")


def render_json(_logger: Any, _method: str, fields: Fields) -> str:
    kept = {
        name: value if isinstance(value, bool | int | float) else printable(value)
        for name, value in in_order(fields).items()
    }
    return json.dumps(kept)


def render_logfmt(_logger: Any, _method: str, fields: Fields) -> str:
    return " ".join(f"{name}={logfmt_value(value)}" for name, value in in_order(fields).items())


def logfmt_value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = printable(value)
    return text if PLAIN.fullmatch(text) else json.dumps(text)
