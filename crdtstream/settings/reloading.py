"""SIGHUP: what has changed in the settings file takes effect, as far as it can change while the region runs.

A setting counts as changed if the file says something else than when it was last read. So what `CONFIG SET` changed
stays as it is until the file changes there too, and a SIGHUP that is for certificates changes no setting. Settings that
are read at a start only are named in the log. The password and the file that it comes from are one setting.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import structlog

from crdtstream.settings.config import Config, ConfigError, refuse_exposure, validate_limits
from crdtstream.settings.rows import AT_START
from crdtstream.settings.table import KNOWN, PASSWORD, Known, value_of

logger = structlog.get_logger()


class Reloading:
    """The file as the running settings were read from it; `load` reads it again, and raises ConfigError."""

    def __init__(self, config: Config, load: Callable[[], Config] | None) -> None:
        self._started = self._read = config
        self._load = load

    def reload(self, present: Config) -> Config:
        """The settings from now on; the present ones if the file cannot be used."""
        if self._load is None:
            return present
        try:
            read = self._load()
            changed = [known for known in KNOWN.values() if may_change(known) and differs(known, self._read, read)]
            merged = with_values(present, read, changed)
            validate_limits(merged.limits)
            if merged.peers != present.peers:
                refuse_exposure(merged)
        except ConfigError as error:
            logger.error("settings-not-reloaded", reason=str(error))
            return present
        self._read = read
        logger.info("settings-reloaded", changed=names_of(changed))
        waiting = [known for known in KNOWN.values() if not may_change(known) and differs(known, self._started, read)]
        if waiting:
            logger.warning("settings-need-restart", settings=names_of(waiting))
        return merged


def may_change(known: Known) -> bool:
    return known.row.change != AT_START or known.field in PASSWORD


def differs(known: Known, one: Config, other: Config) -> bool:
    return value_of(known, one) != value_of(known, other)


def names_of(settings: list[Known]) -> str:
    return " ".join(known.key for known in settings)


def with_values(present: Config, read: Config, changed: list[Known]) -> Config:
    """The present settings, with the values that were read for those that have changed."""
    own: dict[str, Any] = {known.field: value_of(known, read) for known in changed if not known.of_limits}
    if any(field in own for field in PASSWORD):
        own |= {field: getattr(read, field) for field in PASSWORD}
    limits: dict[str, Any] = {known.field: value_of(known, read) for known in changed if known.of_limits}
    return dataclasses.replace(present, **own, limits=dataclasses.replace(present.limits, **limits))
