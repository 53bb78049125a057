"""CONFIG REWRITE: the settings as they are now, written into the TOML file that they were read from.

A line whose value is still right stays as it is, comments and all; a value that changed is replaced in its place, and a
comment behind it kept; what the file lacks is added at the end of its table, but for defaults. What is written is read
again before it replaces the file, atomically.
"""

from __future__ import annotations

import dataclasses
import os
import tomllib
from pathlib import Path

from crdtstream.config import Config, Limits

LIMITS = "limits"
NOT_SETTINGS = ("config_file", LIMITS)
Values = dict[str, object]


def rewrite_file(config: Config) -> str:
    """Why it failed; empty when it did not."""
    path = Path(config.config_file)
    try:
        text = rewritten(path.read_text(encoding="utf-8"), config)
        replace_file(path, text)
    except OSError as error:
        return error.strerror or str(error)
    except ValueError as error:
        return f"{path}: {error}"
    return ""


def replace_file(path: Path, text: str) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), path.stat().st_mode & 0o777)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def rewritten(text: str, config: Config) -> str:
    """The file's new text; raises ValueError when it cannot be made."""
    present = tomllib.loads(text)
    # Not splitlines(), which also splits inside of strings.
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
    """The values of one table and their defaults; `dashed` when its keys are written so."""

    def __init__(self, values: Values, defaults: Values, dashed: bool) -> None:
        self.values = values
        self.defaults = defaults
        self.dashed = dashed

    def unusual(self) -> Values:
        """Those that are not their defaults; a setting without a default is always there."""
        return {name: value for name, value in self.values.items() if value != self.defaults[name]}

    def line(self, name: str) -> str:
        key = name.replace("_", "-") if self.dashed else name
        return f"{key} = {toml(self.values[name])}"


def settings_of(config: Config) -> Table:
    fields = [field for field in dataclasses.fields(config) if field.name not in NOT_SETTINGS]
    values: Values = {field.name: getattr(config, field.name) for field in fields}
    return Table(values, {field.name: field.default for field in fields}, True)


def limits_of(limits: Limits) -> Table:
    return Table(dataclasses.asdict(limits), dataclasses.asdict(Limits()), False)


def fitted(lines: list[str], present: Values, table: Table) -> list[str]:
    """One table's lines: what is there with its value now, then what is missing."""
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
    """How many lines the statement that begins here takes, and its key; no key for an empty line or a comment."""
    if not lines[at].strip() or lines[at].strip().startswith("#"):
        return 1, ""
    for size in range(1, len(lines) - at + 1):
        try:
            parsed = tomllib.loads("\n".join(lines[at : at + size]))
        except ValueError:
            continue
        return size, next(iter(parsed), "")
    raise ValueError(f"line {at + 1} is not understood")


def comment_of(line: str) -> str:
    """The comment at the end of a line, if it surely is one: what is before it must be a statement or close one."""
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
    """What was written reads as it should."""
    back = {key.replace("-", "_"): value for key, value in tomllib.loads(text).items()}
    limits = back.pop(LIMITS, {})
    for found, table in ((back, settings_of(config)), (limits, limits_of(config.limits))):
        for name in {**found, **table.unusual()}:
            if not same(found.get(name), table.values.get(name)):
                raise ValueError(f"{name} cannot be written")
