"""CONFIG REWRITE: writes the current settings into the TOML file from which they were read.

A line whose value is still right stays as it is, including comments. A changed value is replaced in place, and a
comment after it is kept. Missing settings are added at the end of their table unless they have their defaults. The new
text is parsed again before it replaces the file atomically. A password that came from a file of its own stays there.
`replace` concerns one start only, so it stays as it is in the file.
"""

from __future__ import annotations

import dataclasses
import os
import tomllib
from pathlib import Path

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
    present = tomllib.loads(text)
    config = dataclasses.replace(config, replace=present.get("replace", False))
    # splitlines() would also split inside of strings.
    lines = text.removesuffix("\n").split("\n")
    table_at = next((at for at, line in enumerate(lines) if line.strip().startswith("[")), len(lines))
    head = fitted(lines[:table_at], present, settings_of(config))
    tail = lines[table_at:]
    limits = limits_of(config.limits)
    if not tail and limits.unusual():
        tail = ["", f"[{LIMITS}]"]
    if tail:
        at = next(at for at, line in enumerate(tail) if line.strip().startswith("["))
        tail = tail[: at + 1] + fitted(tail[at + 1 :], present.get(LIMITS, {}), limits)
    result = "\n".join([*head, *tail]) + "\n"
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

    def line(self, name: str) -> str:
        key = name.replace("_", "-") if self.dashed else name
        return f"{key} = {toml(self.values[name])}"


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


def fitted(lines: list[str], present: Values, table: Table) -> list[str]:
    """Return the lines of one table: existing lines with current values, then missing settings."""
    found: list[str] = []
    missing = table.unusual()
    at = 0
    while at < len(lines):
        size, key = statement(lines, at)
        name = key.replace("-", "_")
        if not key or same(present.get(key), table.values[name]):
            found += lines[at : at + size]
        else:
            found.append(f"{key} = {toml(table.values[name])}{comment_of(lines[at + size - 1])}")
        missing.pop(name, None)
        at += size
    if missing:
        gap: list[str] = []
        while found and not found[-1].strip():
            gap.append(found.pop())
        found += [table.line(name) for name in missing] + gap
    return found


def statement(lines: list[str], at: int) -> tuple[int, str]:
    """Return the line count and the key of the statement that begins here; the key is empty for blank lines and
    comments.
    """
    if not lines[at].strip() or lines[at].strip().startswith("#"):
        return 1, ""
    for size in range(1, len(lines) - at + 1):
        try:
            parsed = tomllib.loads("\n".join(lines[at : at + size]))
        except ValueError:
            continue
        return size, next(iter(parsed), "")
    raise ValueError(f"line {at + 1} cannot be parsed")


def comment_of(line: str) -> str:
    """Return the comment at the end of a line. A # counts only where all quotes before it are closed."""
    for at, character in enumerate(line):
        if character == "#" and line[:at].count('"') % 2 == 0 and line[:at].count("'") % 2 == 0:
            return "  " + line[at:]
    return ""


def same(old: object, new: object) -> bool:
    return (tuple(old) if isinstance(old, list) else old) == new


def toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, tuple):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    text = str(value)
    if any(0xD800 <= ord(character) <= 0xDFFF for character in text):
        raise ValueError("a value that is not UTF-8 cannot be written")
    escaped = "".join(escape(character) for character in text)
    return f'"{escaped}"'


def escape(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    return f"\\u{ord(character):04x}" if ord(character) < 0x20 or ord(character) == 0x7F else character


def check(text: str, config: Config) -> None:
    """Verify that the written text parses back to the settings."""
    back = {key.replace("-", "_"): value for key, value in tomllib.loads(text).items()}
    limits = back.pop(LIMITS, {})
    for found, table in ((back, settings_of(config)), (limits, limits_of(config.limits))):
        for name in {**found, **table.unusual()}:
            if not same(found.get(name), table.values.get(name)):
                raise ValueError(f"{name} cannot be written")
