"""The settings that CONFIG shows and changes: Redis's names for those that tools expect, and a name of our own for each
field of `Config` and `Limits`.

Our names are those of the table of settings (settings/table.py). A setting that is read only once, at the start or when
a link opens, cannot be changed at run time, and neither can one on which all regions must agree. Some of Redis's names
have no effect here: they take any value that Redis takes if nobody relies on it, and otherwise the one that they have,
so that a tool can write back what it read.

Values are texts, as in CONFIG: memory sizes in bytes (Redis's units are accepted), flags as `yes` and `no`.

Reference: `config.c` of Redis.
"""

from __future__ import annotations

import dataclasses
import re

from crdtstream.connections.context import Context
from crdtstream.connections.notifications import flags_of, letters_of
from crdtstream.core.keyspace import DATABASES
from crdtstream.settings.config import EVENT_LETTERS, LIMITS_MIN, Config, ConfigError, Limits, validate_peers
from crdtstream.settings.table import KNOWN, LIMIT_SETTINGS, REGION_SETTINGS, hint, words_of

INTEGER_MAX = 2**63 - 1
I32_MAX = 2**31 - 1
IMMUTABLE = "can't set immutable config"
MEMORY = re.compile(rb"(\d{1,19})(b|k|kb|m|mb|g|gb|)", re.IGNORECASE)
UNITS = {b"": 1, b"b": 1, b"k": 1000, b"kb": 1 << 10, b"m": 10**6, b"mb": 1 << 20, b"g": 10**9, b"gb": 1 << 30}

LOG_LEVELS = {"debug": "debug", "verbose": "info", "notice": "info", "warning": "warning", "nothing": "error"}
SHOWN_LEVELS = {"debug": "debug", "info": "notice", "warning": "warning", "error": "nothing"}


# Settings of Redis that tools read and write back, on which nothing here depends and no client relies: they take what
# Redis takes, show it, and have their default again after a restart. Name, kind, default, least, most.
HARMLESS: tuple[tuple[str, str, str, int, int], ...] = (
    ("activedefrag", "flag", "no", 0, 0),
    ("active-expire-effort", "integer", "1", 1, 10),
    ("aof-load-truncated", "flag", "yes", 0, 0),
    ("aof-use-rdb-preamble", "flag", "yes", 0, 0),
    ("auto-aof-rewrite-min-size", "memory", "67108864", 0, INTEGER_MAX),
    ("auto-aof-rewrite-percentage", "integer", "100", 0, I32_MAX),
    ("busy-reply-threshold", "integer", "5000", 0, INTEGER_MAX),
    ("cluster-node-timeout", "integer", "15000", 0, INTEGER_MAX),
    ("dynamic-hz", "flag", "yes", 0, 0),
    ("hash-max-listpack-entries", "size", "512", 0, INTEGER_MAX),
    ("lazyfree-lazy-eviction", "flag", "no", 0, 0),
    ("lazyfree-lazy-expire", "flag", "no", 0, 0),
    ("lazyfree-lazy-server-del", "flag", "no", 0, 0),
    ("lazyfree-lazy-user-del", "flag", "no", 0, 0),
    ("lazyfree-lazy-user-flush", "flag", "no", 0, 0),
    ("list-max-listpack-size", "integer", "-2", -I32_MAX - 1, I32_MAX),
    ("maxmemory-samples", "integer", "5", 1, 64),
    ("no-appendfsync-on-rewrite", "flag", "no", 0, 0),
    ("rdbcompression", "flag", "yes", 0, 0),
    ("repl-backlog-size", "memory", "1048576", 1, INTEGER_MAX),
    ("repl-diskless-sync", "flag", "yes", 0, 0),
    ("repl-timeout", "integer", "60", 1, I32_MAX),
    ("replica-read-only", "flag", "yes", 0, 0),
    ("set-max-intset-entries", "size", "512", 0, INTEGER_MAX),
    ("tcp-keepalive", "integer", "300", 0, I32_MAX),
    ("tracking-table-max-keys", "size", "1000000", 0, INTEGER_MAX),
    ("zset-max-listpack-entries", "size", "128", 0, INTEGER_MAX),
)
# Another name of one of these: both show one value.
ALIASES = {
    "list-max-ziplist-size": "list-max-listpack-size",
    "lua-time-limit": "busy-reply-threshold",
    "slave-read-only": "replica-read-only",
}
# These would promise something, or Redis cannot change them either: they accept only what they are.
WITHOUT_EFFECT = {
    "appendfilename": "",
    "enable-module-command": "no",
    "io-threads": "1",
    "min-replicas-max-lag": "10",
    "min-replicas-to-write": "0",
    "rdbchecksum": "yes",
    "replica-serve-stale-data": "yes",
    "stop-writes-on-bgsave-error": "yes",
    "tcp-backlog": "511",
}

# What a region of several shards shows otherwise.
IN_A_SHARD = {"cluster-enabled": "yes", "databases": "1"}


class SettingError(ValueError):
    """The reason why a setting cannot have a value."""


class Setting:
    """One name of CONFIG. `field` is the field of `Limits` or `Config` behind it; empty for a fixed value."""

    __slots__ = ("choices", "field", "high", "kind", "low", "name", "of_limits", "secret", "settable", "value")

    def __init__(self, name: str, kind: str, field: str, settable: bool = True) -> None:
        self.name = name
        self.kind = kind
        self.field = field
        self.of_limits = field in LIMIT_NAMES
        self.settable = settable
        self.low = 0
        self.high = INTEGER_MAX
        self.choices: tuple[str, ...] = ()
        self.value = ""
        # CONFIG GET does not show it.
        self.secret = False

    def shown(self, context: Context) -> str:
        if not self.field:
            if context.shards is not None and self.name in IN_A_SHARD:
                return IN_A_SHARD[self.name]
            return context.settings.harmless.get(ALIASES.get(self.name, self.name), self.value)
        value = getattr(context.settings.limits if self.of_limits else context.settings.config, self.field)
        if self.field == "clients_max":
            value = context.clients_max()
        if self.kind == "client file":
            return context.settings.config.client_files()[CLIENT_FILES.index(self.field)]
        if self.kind == "output":
            return f"normal {value} 0 0 slave 0 0 0 pubsub 0 0 0"
        if self.kind == "loglevel":
            return SHOWN_LEVELS[context.settings.config.log_level]
        if self.kind == "events":
            return letters_of(flags_of(context.settings.config.notify_keyspace_events) or 0)
        return text_of(value)

    def parse(self, text: bytes) -> object:
        """Parse a value for the field; raises SettingError."""
        if self.kind in ("integer", "size"):
            return bounded(self, whole_number(text))
        if self.kind == "memory":
            return bounded(self, memory_value(text))
        word = text.decode("utf-8", "surrogateescape")
        if self.kind == "flag":
            return flag_value(word)
        if self.kind == "choice" and word.lower() not in self.choices:
            raise SettingError(f"argument(s) must be one of the following: {', '.join(self.choices)}")
        if self.kind == "loglevel":
            return LOG_LEVELS[one_of(word, tuple(LOG_LEVELS))]
        if self.kind == "events" and flags_of(word) is None:
            raise SettingError(f"Invalid event class character. Use '{EVENT_LETTERS}'.")
        if self.kind == "peers":
            return peer_addresses(word)
        if self.kind == "fixed" and word != self.value:
            raise SettingError(f"argument(s) must be one of the following: {self.value or repr('')}")
        return word.lower() if self.kind == "choice" else word


def text_of(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return "" if value is None else str(value)


def peer_addresses(text: str) -> tuple[str, ...]:
    """Each address once, in the order given."""
    peers = words_of(text)
    try:
        validate_peers(peers)
    except ConfigError as error:
        raise SettingError(str(error)) from None
    return peers


def one_of(word: str, choices: tuple[str, ...]) -> str:
    if word.lower() not in choices:
        raise SettingError(f"argument(s) must be one of the following: {', '.join(choices)}")
    return word.lower()


def flag_value(word: str) -> bool:
    if word.lower() not in ("yes", "no"):
        raise SettingError("argument must be 'yes' or 'no'")
    return word.lower() == "yes"


def whole_number(text: bytes) -> int:
    if not re.fullmatch(rb"-?\d{1,19}", text):
        raise SettingError("argument couldn't be parsed into an integer")
    return int(text)


def memory_value(text: bytes) -> int:
    match = MEMORY.fullmatch(text)
    if match is None:
        raise SettingError("argument must be a memory value")
    return int(match[1]) * UNITS[match[2].lower()]


def bounded(setting: Setting, value: int) -> int:
    if value < setting.low and setting.kind == "size":
        raise SettingError(f"argument must be greater or equal to {setting.low}")
    if not setting.low <= value <= setting.high:
        raise SettingError(f"argument must be between {setting.low} and {setting.high} inclusive")
    return value


def within(setting: Setting, low: int, high: int) -> Setting:
    setting.low, setting.high = low, high
    return setting


def chosen(setting: Setting, *choices: str) -> Setting:
    setting.choices = choices
    return setting


def secret(setting: Setting) -> Setting:
    setting.secret = True
    return setting


def fixed(name: str, value: str, settable: bool = True) -> Setting:
    setting = Setting(name, "fixed", "", settable)
    setting.value = value
    return setting


CLIENT_FILES = ("tls_cert_file", "tls_key_file", "tls_ca_cert_file")
LIMIT_NAMES = frozenset(field.name for field in dataclasses.fields(Limits))


def redis_settings() -> list[Setting]:
    return [
        Setting("maxmemory", "memory", "memory_bytes_max"),
        fixed("maxmemory-policy", "noeviction"),
        within(Setting("maxclients", "integer", "clients_max"), 1, 2**32 - 1),
        within(Setting("timeout", "integer", "client_idle_s_max"), 0, 2**31 - 1),
        secret(Setting("requirepass", "text", "requirepass")),
        Setting("protected-mode", "flag", "protected_mode"),
        Setting("stream-node-max-entries", "integer", "stream_node_entries_max"),
        Setting("stream-node-max-bytes", "memory", "stream_node_bytes_max"),
        within(Setting("stream-idmp-duration", "integer", "stream_idmp_duration_s"), 1, 86_400),
        within(Setting("stream-idmp-maxsize", "integer", "stream_idmp_entries_max"), 1, 10_000),
        within(Setting("proto-max-bulk-len", "memory", "bulk_bytes_max"), 1 << 20, INTEGER_MAX),
        within(Setting("client-query-buffer-limit", "memory", "query_bytes_max"), 1 << 20, INTEGER_MAX),
        Setting("client-output-buffer-limit", "output", "output_bytes_max", False),
        Setting("loglevel", "loglevel", "log_level"),
        fixed("logfile", "", False),
        Setting("port", "integer", "port", False),
        *[Setting(field.replace("_", "-"), "client file", field, False) for field in CLIENT_FILES],
        Setting("bind", "text", "bind", False),
        Setting("dir", "text", "data", False),
        fixed("databases", str(DATABASES), False),
        Setting("appendfsync", "text", "fsync", False),
        fixed("appendonly", "yes"),
        fixed("save", ""),
        fixed("dbfilename", "", False),
        within(Setting("slowlog-log-slower-than", "integer", "slow_command_us"), -1, INTEGER_MAX),
        Setting("slowlog-max-len", "integer", "slow_log_entries_max"),
        Setting("acllog-max-len", "integer", "acl_log_entries_max"),
        fixed("latency-monitor-threshold", "0"),
        fixed("latency-tracking", "no"),
        Setting("notify-keyspace-events", "events", "notify_keyspace_events"),
        fixed("hz", "10"),
        fixed("cluster-enabled", "no", False),
        fixed("daemonize", "no", False),
        fixed("enable-debug-command", "no", False),
        *[fixed(name, value) for name, value in WITHOUT_EFFECT.items()],
        *harmless_settings(),
    ]


def harmless_settings() -> list[Setting]:
    found: list[Setting] = []
    for name, kind, value, low, high in HARMLESS:
        for called in (name, *[alias for alias, meant in ALIASES.items() if meant == name]):
            setting = within(Setting(called, kind, ""), low, high)
            setting.value = value
            found.append(setting)
    return found


def own_settings(taken: list[str]) -> list[Setting]:
    """A setting for every field under its own name, except for names already taken."""
    found: list[Setting] = []
    for known in REGION_SETTINGS:
        if known.field == "log_level":
            found.append(chosen(Setting(known.name, "choice", known.field), *known.row.choices))
        elif known.field == "peers":
            found.append(Setting(known.name, "peers", known.field))
        elif known.name not in taken:
            is_flag = known.is_live and known.kind == "switch"
            setting = Setting(known.name, "flag" if is_flag else "text", known.field, is_flag)
            setting.secret = known.row.secret
            found.append(setting)
    for known in LIMIT_SETTINGS:
        setting = Setting(known.name, "memory" if known.is_size else "integer", known.field, known.is_live)
        found.append(within(setting, min(0, LIMITS_MIN.get(known.field, 0)), INTEGER_MAX))
    found.append(Setting("config-file", "text", "config_file", False))
    return found


def table_of() -> dict[str, Setting]:
    settings = redis_settings()
    settings += own_settings([setting.name for setting in settings])
    return {setting.name: setting for setting in settings}


SETTINGS = table_of()
REDIS_NAMES = frozenset([setting.name for setting in redis_settings()])
OWN_NAMES = [known.name for known in KNOWN.values() if known.name not in REDIS_NAMES]
# A name that is less like one of ours may be one that Redis has and this does not: it gets Redis's words alone.
ALIKE = 0.78


def meant(name: str) -> str:
    """Which setting of ours an unknown name was probably meant for, as the end of an error."""
    return hint(name, OWN_NAMES, ALIKE)


def keep_harmless(context: Context, values: list[tuple[Setting, object]]) -> None:
    """Remember the values of settings without effect."""
    for setting, value in values:
        if not setting.field and setting.kind != "fixed":
            context.settings.harmless[ALIASES.get(setting.name, setting.name)] = text_of(value)


def changed(config: Config, values: list[tuple[Setting, object]]) -> Config:
    """The configuration with these values changed."""
    own: dict[str, object] = {}
    limits: dict[str, object] = {}
    for setting, value in values:
        if setting.field:
            (limits if setting.of_limits else own)[setting.field] = value
    if "requirepass" in own:
        own["requirepass_file"] = ""  # the password no longer comes from the file
    own["limits"] = dataclasses.replace(config.limits, **limits)  # type: ignore[arg-type]
    return dataclasses.replace(config, **own)  # type: ignore[arg-type]
