"""CONFIG REWRITE: writes the current settings into the TOML file from which they were read.

tomlkit edits the text: a line whose value is still right stays as it is, including comments. A changed value is
replaced in place, and a comment after it is kept. Missing settings are added at the end of their table unless they have
their defaults. The new text is parsed again before it replaces the file atomically. A password that came from a file of
its own stays there. `replace` concerns one start only, so it stays as it is in the file.
"""

from __future__ import annotations

import dataclasses
import os
import tomllib
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

from crdtstream.settings.config import Config, Limits

LIMITS = "limits"
NOT_SETTINGS = ("config_file", LIMITS)
Values = dict[str, object]


def rewrite_file(config: Config) -> str:
    """Rewrite the file; return why that failed, or an empty text."""
    path = Path(config.config_file)
    try:
        text = rewritten(path.read_text(encoding="utf-8"), config)
        replace_file(path, text.encode("utf-8"))
    except OSError as error:
        return error.strerror or str(error)
    except ValueError as error:
        return f"{path}: {error}"
    return ""


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file atomically and durably; it keeps its mode. Only its owner may read a new one."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("wb") as file:
            os.fchmod(file.fileno(), path.stat().st_mode & 0o777 if path.exists() else 0o600)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def rewritten(text: str, config: Config) -> str:
    """Return the new text of the file; raises ValueError if it cannot be produced."""
    # tomlkit is read only here: most regions never rewrite their file.
    import tomlkit

    present = tomllib.loads(text)
    config = dataclasses.replace(config, replace=present.get("replace", False))
    document = tomlkit.parse(text if text.endswith("\n") else text + "\n")
    settings, limits = settings_of(config), limits_of(config.limits)
    update(document, present, settings)
    if LIMITS not in present and limits.unusual():
        document.add(LIMITS, tomlkit.table())
    if LIMITS in document:
        table = document[LIMITS]
        assert isinstance(table, MutableMapping)
        update(table, present.get(LIMITS, {}), limits)
    result = tomlkit.dumps(document)
    check(result, config)
    return result


class Table:
    """The values of one table and their defaults; `dashed`: its keys are written with dashes."""

    def __init__(self, values: Values, defaults: Values, dashed: bool) -> None:
        self.values = values
        self.defaults = defaults
        self.dashed = dashed

    def unusual(self) -> Values:
        """Return the values that differ from their defaults; a setting without a default is always included."""
        return {name: value for name, value in self.values.items() if value != self.defaults[name]}

    def key(self, name: str) -> str:
        return name.replace("_", "-") if self.dashed else name


def settings_of(config: Config) -> Table:
    hidden = [*NOT_SETTINGS]
    if config.requirepass_file:
        hidden.append("requirepass")
    if config.http_token_file:
        hidden.append("http_token")
    fields = [field for field in dataclasses.fields(config) if field.name not in hidden]
    values: Values = {field.name: getattr(config, field.name) for field in fields}
    return Table(values, {field.name: field.default for field in fields}, True)


def limits_of(limits: Limits) -> Table:
    return Table(dataclasses.asdict(limits), dataclasses.asdict(Limits()), False)


def update(written: MutableMapping[str, Any], present: Values, table: Table) -> None:
    """Update one table of the document: current values for the settings that it has, then the missing ones."""
    missing = table.unusual()
    for key, value in present.items():
        name = key.replace("-", "_")
        if name != LIMITS and not same(value, table.values[name]):
            written[key] = plain(table.values[name])
        missing.pop(name, None)
    for name, value in missing.items():
        written[table.key(name)] = plain(value)


def same(old: object, new: object) -> bool:
    return (tuple(old) if isinstance(old, list) else old) == new


def plain(value: object) -> Any:
    """Return the value as TOML can hold it."""
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, str | Path):
        text = str(value)
        if any(0xD800 <= ord(character) <= 0xDFFF for character in text):
            raise ValueError("a value that is not UTF-8 cannot be written")
        return text
    return value


def toml(value: object) -> str:
    """Return the value as TOML text."""
    import tomlkit

    text: str = tomlkit.item(plain(value)).as_string()
    return text


def check(text: str, config: Config) -> None:
    """Verify that the written text parses back to the settings."""
    back = {key.replace("-", "_"): value for key, value in tomllib.loads(text).items()}
    limits = back.pop(LIMITS, {})
    for found, table in ((back, settings_of(config)), (limits, limits_of(config.limits))):
        for name in {**found, **table.unusual()}:
            if not same(found.get(name), table.values.get(name)):
                raise ValueError(f"{name} cannot be written")
