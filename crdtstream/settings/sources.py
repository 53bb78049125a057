"""Where the settings of a region come from: flags of `serve` over variables over the TOML file over defaults.

Flags and variables are texts, and the file has types; the table of settings (table.py) reads both. A name that
no setting has is refused, with the name that was probably meant. `Sources` can be read again while the region runs.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crdtstream.settings.config import Config, ConfigError, Limits
from crdtstream.settings.rewriting import Values
from crdtstream.settings.table import (
    KNOWN,
    LIMIT_SETTINGS,
    LIMITS,
    OTHER_VARIABLES,
    PREFIX,
    REGION_SETTINGS,
    SHARDS,
    Known,
    hint,
)
from crdtstream.settings.validating import validate

SWITCH_NUMBERS = {"0": "no", "1": "yes"}
ALL_SETTINGS = '; "crdtstream config sample" shows all'


class Sources:
    """The file, and the values of flags and variables, which stay the same while the process runs."""

    def __init__(self, path: Path | None, flags: Values, variables: Mapping[str, str]) -> None:
        # Absolute, because the file is read and written again later, perhaps from another working directory.
        self.path = None if path is None else path.absolute()
        self._given = {**values_of_variables(variables), **flags}

    def load(self, handed: Values | None = None) -> Config:
        """What a supervisor has handed on counts before all. Raises ConfigError."""
        values = {} if self.path is None else values_of_file(self.path)
        values |= {**self._given, **(handed or {})}
        missing = [known for known in REGION_SETTINGS if known.is_required and known.field not in values]
        if missing:
            flags = ", ".join(known.flag for known in missing)
            raise ConfigError(f"missing: {flags}; give each as a flag, as a variable, or in the file")
        config_file = "" if self.path is None else str(self.path)
        settings: dict[str, Any] = {name: value for name, value in values.items() if not KNOWN[name].of_limits}
        limits: dict[str, Any] = {name: value for name, value in values.items() if KNOWN[name].of_limits}
        config = Config(**settings, limits=Limits(**limits), config_file=config_file)
        validate(config)
        return config


def load_config(path: Path | None, flags: Values, variables: Mapping[str, str] | None = None) -> Config:
    """The settings from these sources; raises ConfigError."""
    return Sources(path, flags, variables or {}).load()


def values_of_flags(given: Mapping[str, Any]) -> Values:
    """The values of the flags that were given: texts, lists of texts, and switches; raises ConfigError."""
    values: Values = {}
    for known in KNOWN.values():
        value = given.get(known.field)
        if isinstance(value, bool):
            values[known.field] = value
        elif isinstance(value, list):
            # A repeated flag, each with one value or more.
            values[known.field] = known.parse(" ".join(value), known.flag)
        elif value is not None:
            values[known.field] = known.parse(value, known.flag)
    return values


def values_of_variables(variables: Mapping[str, str]) -> Values:
    """The values of all variables CRDTSTREAM_*; an empty one counts as not given. Raises ConfigError."""
    by_variable = {known.variable: known for known in KNOWN.values()}
    values: Values = {}
    for variable, text in sorted(variables.items()):
        if not variable.startswith(PREFIX) or variable in OTHER_VARIABLES:
            continue
        known = by_variable.get(variable)
        if known is None:
            names = [each.removeprefix(PREFIX) for each in (*by_variable, *sorted(OTHER_VARIABLES))]
            near = hint(variable.removeprefix(PREFIX), names, prefix=PREFIX)
            raise ConfigError(f'unknown variable "{variable}"{near or ALL_SETTINGS}')
        if text:
            # As of any switch, of shards, too: with 0-0 and 1-1 they are numbers.
            meant = SWITCH_NUMBERS.get(text, text) if known.kind == SHARDS else text
            values[known.field] = known.parse(meant, f"the variable {variable}")
    return values


def values_of_file(path: Path) -> Values:
    """Raises ConfigError."""
    present = read_toml(path)
    limits = present.pop(LIMITS, {})
    try:
        if type(limits) is not dict:
            raise ConfigError(f"{LIMITS} must be a table, [{LIMITS}], not {limits!r}")
        return {**values_of_table(present, REGION_SETTINGS), **values_of_table(limits, LIMIT_SETTINGS)}
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def values_of_table(table: Mapping[str, object], all_known: tuple[Known, ...]) -> Values:
    by_key = {known.key: known for known in all_known}
    values: Values = {}
    for key, value in table.items():
        known = by_key.get(key) or (None if all_known is LIMIT_SETTINGS else by_key.get(key.replace("_", "-")))
        if known is None:
            raise ConfigError(unknown(key, by_key, all_known is LIMIT_SETTINGS))
        if known.field in values:
            raise ConfigError(f"{known.key} is given twice, with a hyphen and with an underscore: remove one of them")
        values[known.field] = known.convert(value, f"limit {key}" if known.of_limits else known.key)
    return values


def unknown(key: str, known: Mapping[str, object], of_limits: bool) -> str:
    """What is said of a key that no setting has; it may stand in the wrong table."""
    what = "limit" if of_limits else "setting"
    other = KNOWN.get(key.replace("-", "_"))
    if other is not None and other.of_limits != of_limits:
        place = f"above the table [{LIMITS}]" if of_limits else f"in the table [{LIMITS}]"
        return f'unknown {what} "{key}": {other.key} belongs {place}'
    names = known if of_limits else [*known, LIMITS]
    return f'unknown {what} "{key}"{hint(key, names) or ALL_SETTINGS}'


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error
