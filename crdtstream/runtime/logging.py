"""Log lines on standard error: one event per line, as key=value."""

from __future__ import annotations

import logging
import sys

import structlog

from crdtstream.config import Config


def configure_logging(config: Config) -> None:
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.KeyValueRenderer(key_order=["timestamp", "level", "event"], drop_missing=True),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, config.log_level.upper(), logging.INFO)),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        # Not cached, because the level may change while the region runs.
        cache_logger_on_first_use=False,
    )
