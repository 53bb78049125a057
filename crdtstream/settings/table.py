"""The table of all settings: flags of `crdtstream serve` and their help, variables, keys of the TOML file, the sample
file, the names of CONFIG and the page docs/settings.md are made from it.

Name, type and default of a setting are those of its field in `Config` or `Limits`. Its row (rows.py) says
the rest: what it means, in which unit its value is, when a change takes effect, how its flag is called, and whether it
is a secret.

A setting comes from the first of these that has it: flag, variable, file, default. A secret has no flag, because `ps`
would show it, and its value is in no help, error or log.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Iterable

from crdtstream.settings.config import Config, ConfigError, Limits
from crdtstream.settings.rows import AT_START, LIMIT_GROUPS, ON_RELOAD, REGION_GROUPS, Groups, SettingRow
from crdtstream.settings.sharding import RANGES

PREFIX = "CRDTSTREAM_"
# What a supervisor gives the process of a shard: the number of the shard, the supervisor's own process ID, `yes` if the
# process takes over (`replace`), and settings that hide those of the file (handing_on.py).
SHARD_PROCESS, SUPERVISOR = "CRDTSTREAM_SHARD_PROCESS", "CRDTSTREAM_SUPERVISOR"
SHARD_REPLACES, SHARD_SETTINGS = "CRDTSTREAM_SHARD_REPLACES", "CRDTSTREAM_SHARD_SETTINGS"
# Variables of other commands, of the build, and of a supervisor.
OTHER_VARIABLES = frozenset(
    (
        *("CRDTSTREAM_COMPILE", "CRDTSTREAM_CONFIG", "CRDTSTREAM_PASSWORD", "CRDTSTREAM_SOURCE_PASSWORD"),
        *("CRDTSTREAM_USER", SHARD_PROCESS, SHARD_REPLACES, SHARD_SETTINGS, SUPERVISOR),
    )
)
LIMITS = "limits"
NUMBER, TEXT, SWITCH, TEXTS, NUMBERS = "number", "text", "switch", "texts", "numbers"
# A switch, or the shards that it is for.
SHARDS = "shards"
KINDS = {
    "int": NUMBER,
    "int | None": NUMBER,
    "str": TEXT,
    "bool": SWITCH,
    "bool | str": SHARDS,
    "tuple[str, ...]": TEXTS,
    "tuple[int, ...]": NUMBERS,
}
EXPECTED = {
    NUMBER: "a whole number",
    TEXT: "a text",
    SWITCH: "true or false",
    TEXTS: 'a list of texts, ["...", ...]',
    NUMBERS: "a list of whole numbers, [1, 2]",
    SHARDS: "true, false, or numbers of shards as a text, as 0-1",
}
SWITCHES = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
# Words in the names of limits that are units; of others the name says what is counted.
UNITS = {"bytes": "bytes", "ms": "milliseconds", "us": "microseconds", "s": "seconds"}
COUNTED = frozenset(
    [
        *("arguments", "calls", "clients", "entries", "intervals", "keys", "links", "messages", "names", "partitions"),
        *("rows", "series", "streams"),
    ]
)
SIZES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
SIZE = re.compile(r"([0-9]{1,19})(b|k|kb|kib|m|mb|mib|g|gb|gib|)", re.IGNORECASE)
FACTORS = {
    **dict.fromkeys(("", "b"), 1),
    **{"k": 1000, "m": 10**6, "g": 10**9},
    **dict.fromkeys(("kb", "kib"), 1 << 10),
    **dict.fromkeys(("mb", "mib"), 1 << 20),
    **dict.fromkeys(("gb", "gib"), 1 << 30),
}
SEPARATORS = re.compile(r"[\s,]+")


@dataclasses.dataclass(frozen=True, slots=True)
class Known:
    """One setting: its field, and its row."""

    kind: str
    default: object
    of_limits: bool
    group: str
    row: SettingRow

    @property
    def field(self) -> str:
        return self.row.field

    @property
    def name(self) -> str:
        """Its name in CONFIG and in errors."""
        return self.field.replace("_", "-")

    @property
    def key(self) -> str:
        """Its key in the TOML file."""
        return self.field if self.of_limits else self.name

    @property
    def flag(self) -> str:
        """Its flag; empty for a secret."""
        return "" if self.row.secret else f"--{self.row.flag or self.name}"

    @property
    def opposite(self) -> str:
        """The flag that says no; empty if there is none."""
        return f"--no-{self.name}" if self.kind in (SWITCH, SHARDS) else ""

    @property
    def variable(self) -> str:
        return PREFIX + self.field.upper()

    @property
    def is_required(self) -> bool:
        return self.default is dataclasses.MISSING

    @property
    def is_live(self) -> bool:
        """A change takes effect while the region runs, also one by CONFIG SET."""
        return self.row.change not in (AT_START, ON_RELOAD)

    @property
    def unit(self) -> str:
        return self.row.unit or "|".join(self.row.choices) or unit_of(self.field)

    @property
    def is_size(self) -> bool:
        return self.unit == "bytes"

    def parse(self, text: str, called: str) -> object:
        """The value that a flag or a variable, which the error calls so, gives as a text; raises ConfigError."""
        parsed: object = parse_number(text, self.is_size) if self.kind == NUMBER else text
        if self.kind == SWITCH:
            parsed = SWITCHES.get(text.lower())
        elif self.kind == SHARDS:
            parsed = text if RANGES.fullmatch(text) else SWITCHES.get(text.lower())
        elif self.kind == TEXTS:
            parsed = words_of(text)
        elif self.kind == NUMBERS:
            numbers = [parse_number(word, False) for word in words_of(text)]
            parsed = None if None in numbers else tuple(numbers)
        if parsed is None:
            raise self.wrong(called, text)
        return parsed

    def convert(self, value: object, called: str) -> object:
        """The value that the TOML file gives; raises ConfigError for one of another type."""
        if self.kind in (TEXTS, NUMBERS):
            wanted = str if self.kind == TEXTS else int
            if isinstance(value, list | tuple) and all(type(item) is wanted for item in value):
                return tuple(dict.fromkeys(value))
            raise self.wrong(called, value)
        if self.kind == SHARDS and (type(value) is bool or (isinstance(value, str) and RANGES.fullmatch(value))):
            return value
        if type(value) is not {NUMBER: int, TEXT: str, SWITCH: bool}.get(self.kind):
            raise self.wrong(called, value)
        return value

    def wrong(self, called: str, value: object) -> ConfigError:
        shown = "" if self.row.secret else f", not {value!r}"
        size = ", or a size such as 64mb" if self.is_size and isinstance(value, str) else ""
        return ConfigError(f"{called} must be {EXPECTED[self.kind]}{size}{shown}")

    def shown_default(self) -> str:
        """The default for people, empty if there is none."""
        if self.is_required:
            return "required"
        if isinstance(self.default, bool):
            return "yes" if self.default else "no"
        if isinstance(self.default, int):
            return quantity(self.default, self.is_size) if self.of_limits else str(self.default)
        return "" if self.default in (None, "", ()) else str(self.default)


def parse_number(text: str, is_size: bool) -> int | None:
    """A whole number, or with a unit where it is a size; None if it is neither."""
    size = SIZE.fullmatch(text) if is_size else None
    if size is not None:
        return int(size[1]) * FACTORS[size[2].lower()]
    return int(text) if re.fullmatch(r"-?[0-9]{1,19}", text) else None


def words_of(text: str) -> tuple[str, ...]:
    """The words of a list, with spaces or commas between them, each once."""
    return tuple(dict.fromkeys(word for word in SEPARATORS.split(text) if word))


def quantity(value: int, is_size: bool) -> str:
    for size, unit in SIZES:
        if is_size and value and value % size == 0:
            return f"{value // size:,} {unit}"
    return f"{value:,}"


def unit_of(field: str) -> str:
    """The unit of a limit, which its name contains."""
    words = field.split("_")
    found = [UNITS[word] for word in words if word in UNITS] or [word for word in words if word in COUNTED]
    return found[-1] if found else "number"


def known_of(kind: type[Config] | type[Limits], groups: Groups) -> list[Known]:
    fields = {field.name: field for field in dataclasses.fields(kind)}
    return [
        Known(KINDS[str(fields[one.field].type)], fields[one.field].default, kind is Limits, group, one)
        for group, rows in groups
        for one in rows
    ]


# In the order of the help and of the page.
REGION_SETTINGS: tuple[Known, ...] = tuple(known_of(Config, REGION_GROUPS))
LIMIT_SETTINGS: tuple[Known, ...] = tuple(known_of(Limits, LIMIT_GROUPS))
KNOWN: dict[str, Known] = {known.field: known for known in (*REGION_SETTINGS, *LIMIT_SETTINGS)}
# The password and the file that it comes from are one setting.
PASSWORD = ("requirepass", "requirepass_file")


def value_of(known: Known, config: Config) -> object:
    return getattr(config.limits if known.of_limits else config, known.field)


def hint(name: str, names: Iterable[str], likeness: float = 0.65, prefix: str = "") -> str:
    """The end of an error about an unknown name: the near miss, if there is one. A common prefix says nothing."""
    near = difflib.get_close_matches(name, list(names), 1, likeness)
    return f': did you mean "{prefix}{near[0]}"?' if near else ""
