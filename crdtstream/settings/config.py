"""The settings of a node: one frozen Config; the name of every limit ends in its unit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import NamedTuple

from crdtstream.core.values.batch_budget import BATCH_BYTES_MIN
from crdtstream.core.values.entry_id import STRICT

ALWAYS = "always"
EVERYSEC = "everysec"
NO = "no"
YES = "yes"
OPTIONAL = "optional"
TLS_CLIENTS = (YES, NO, OPTIONAL)
FSYNC_POLICIES = (ALWAYS, EVERYSEC, NO)
NAME_CHARACTERS_MAX = 128
INCARNATION_MAX = 255
REAL = "real"
OCI_LIMITS = (REAL, "off")
LOG_LEVELS = ("debug", "info", "warning", "error")
LOGFMT, JSON, CONSOLE = "logfmt", "json", "console"
LOG_FORMATS = (LOGFMT, JSON, CONSOLE)
# What binds every address of a machine, and what no name of a host has: it shows that a URL was given.
WILDCARDS = frozenset({"0.0.0.0", "::", "[::]"})
NO_HOST = frozenset("/@?# ")
EVENT_LETTERS = "Ag$lshzxeKEtmdn"


@dataclass(frozen=True, slots=True)
class Limits:
    """Every bound that a user or a peer can run into.

    A value of 0 means unlimited for `memory_bytes_max`, `client_idle_s_max` and `log_retention_bytes`, no audit for
    `audit_interval_ms`, no compression of blocks for `cold_after_ms`, no spilling for `hot_bytes_max`, no checkpoint
    before a stop for `stop_checkpoint_ms_max`, no handover for `stop_handover_ms_max`, no takeover but by command for
    `takeover_ms`, and that the log is kept for ever on a full disk for `log_yield_ms`. A `slow_command_us` of -1 turns
    the slow log off.
    """

    memory_bytes_max: int = 0
    clients_max: int = 10_000
    client_idle_s_max: int = 0
    blocked_clients_max: int = 10_000
    query_bytes_max: int = 1 << 30
    bulk_bytes_max: int = 160 << 20
    auth_failure_delay_ms: int = 1_000
    arguments_max: int = 1 << 20
    output_bytes_max: int = 256 << 20
    turn_reply_bytes_max: int = 1 << 20
    turn_ms_max: int = 5
    outputs_bytes_max: int = 1 << 30
    entry_bytes_max: int = 128 << 20
    write_bytes_max: int = 160 << 20
    message_bytes: int = 256 << 10
    message_bytes_max: int = 4 << 20
    window_bytes: int = 32 << 20
    window_messages: int = 256
    inbox_bytes_max: int = 256 << 20
    batch_bytes_max: int = 2 << 30
    progress_rows_max: int = 500_000
    exact_intervals_max: int = 1_000
    names_max: int = 250_000
    replication_interval_ms: int = 2
    heartbeat_ms: int = 1_000
    peer_timeout_ms: int = 5_000
    greeting_timeout_ms: int = 5_000
    ungreeted_links_max: int = 256
    backoff_ms_min: int = 100
    backoff_ms_max: int = 5_000
    segment_bytes_max: int = 64 << 20
    disk_reserve_bytes: int = 16 << 20
    log_tail_bytes_max: int = 4 << 20
    durable_interval_ms: int = 10_000
    transfer_keep_ms: int = 60_000
    parts_keep_ms: int = 60_000
    checkpoint_log_bytes: int = 256 << 20
    stop_checkpoint_log_bytes: int = 4 << 20
    stop_checkpoint_ms_max: int = 8_000
    stop_handover_ms_max: int = 2_000
    moved_hold_ms_max: int = 10_000
    moved_answer_ms: int = 600_000
    stream_node_entries_max: int = 100
    stream_node_bytes_max: int = 4_096
    stream_idmp_duration_s: int = 100
    stream_idmp_entries_max: int = 100
    merged_ranges_bytes_max: int = 64 << 20
    cold_after_ms: int = 5_000
    open_blocks_bytes_max: int = 64 << 20
    hot_bytes_max: int = 0
    copy_entries_max: int = 100_000
    expiry_takeover_ms: int = 10_000
    retention_takeover_ms: int = 600_000
    admission_wait_ms: int = 2_000
    expired_keys_max: int = 100
    collected_keys_max: int = 1_000
    deleted_streams_max: int = 10_000
    log_retention_bytes: int = 0
    log_yield_ms: int = 60_000
    audit_interval_ms: int = 60_000
    audit_entries_max: int = 2_000
    digest_entries_max: int = 1_000
    dump_slice_bytes: int = 1 << 20
    slow_command_us: int = 10_000
    slow_log_entries_max: int = 128
    conflict_entries_max: int = 1_000
    forward_timeout_ms: int = 5_000
    takeover_ms: int = 60_000
    acl_log_entries_max: int = 128
    bulk_message_bytes: int = 1 << 20
    bulk_message_bytes_max: int = 16 << 20
    bulk_calls_max: int = 64
    bulk_stage_bytes_max: int = 256 << 20
    bulk_stage_idle_s_max: int = 600
    oci_partitions_max: int = 200
    metrics_series_max: int = 2_000


LIMIT_NAMES = tuple(each.name for each in fields(Limits))


@dataclass(frozen=True, slots=True)
class Config:
    """The settings of one region; `config_file` is the file that they were read from, empty if there was none."""

    name: str
    region: int
    cluster: str
    bind: str = "127.0.0.1"
    port: int = 6379
    replication_bind: str = "127.0.0.1"
    replication_port: int = 16379
    bulk_bind: str = "127.0.0.1"
    # None: no bulk port.
    bulk_port: int | None = None
    oci_bind: str = "127.0.0.1"
    # None: no gateway for clients of OCI Streaming.
    oci_port: int | None = None
    oci_keys: str = ""
    oci_limits: str = REAL
    # Serve the tools for tests although the limits are real.
    oci_dev: bool = False
    oci_tls: bool = False
    insecure_oci: bool = False
    init_streams: str = ""
    http_bind: str = "127.0.0.1"
    # None: no HTTP port.
    http_port: int | None = None
    http_tls: bool = False
    http_token: str = ""
    http_token_file: str = ""
    insecure_http: bool = False
    dashboard_url: str = ""
    peers: tuple[str, ...] = ()
    # Empty: the address that each port is bound to, unless that is a wildcard.
    announce_host: str = ""
    discover_peers: bool = True
    data: str = "data"
    # Processes of this region, each with an equal range of the hash slots; as the cluster was founded.
    shards: int = 1
    # Those that run here, as `0-3`, or `none`; empty for all. In the process of a shard its number.
    shard: str = ""
    # Where shards that run elsewhere are reached: SHARDS=HOST:PORT, and shard k at PORT + k.
    announce: tuple[str, ...] = ()
    # Where clients may have backups written; empty for nowhere.
    backup_directory: str = ""
    fsync: str = EVERYSEC
    id_mode: str = STRICT
    # If set, whatever the number: do not wait for peers.
    incarnation: int | None = None
    # The operator states that no other process of this region is running, or none of the shards that a text names, as
    # `0-1`. In the process of a shard this says whether it takes over.
    replace: bool | str = False
    requirepass: str = ""
    requirepass_file: str = ""
    aclfile: str = ""
    protected_mode: bool = True
    tls_certificate: str = ""
    tls_key: str = ""
    tls_authority: str = ""
    # 0: no TLS port.
    tls_port: int = 0
    tls_cert_file: str = ""
    tls_key_file: str = ""
    tls_ca_cert_file: str = ""
    tls_auth_clients: str = YES
    bulk_tls: bool = False
    insecure_replication: bool = False
    allowed_regions: tuple[int, ...] = ()
    replication_secret_file: str = ""
    log_level: str = "info"
    log_format: str = LOGFMT
    notify_keyspace_events: str = ""
    # Empty: no traces, unless variables of OpenTelemetry ask for them.
    otel_endpoint: str = ""
    config_file: str = ""
    limits: Limits = field(default_factory=Limits)

    def has_client_tls(self) -> bool:
        """True if a port for clients has TLS."""
        return bool(self.tls_port) or self.bulk_tls

    def has_web_tls(self) -> bool:
        """True if a port that speaks HTTP has TLS."""
        return self.http_tls or self.oci_tls

    def client_files(self) -> tuple[str, str, str]:
        """Certificate, key and authority of the ports for clients: their own, or else those of replication."""
        authority = self.tls_ca_cert_file or self.tls_authority
        if self.tls_cert_file:
            return self.tls_cert_file, self.tls_key_file, authority
        return self.tls_certificate, self.tls_key, authority


class Listener(NamedTuple):
    """An address that a region listens on, and the settings that it comes from; port 0 is any free one."""

    setting: str
    port: int
    bind_setting: str
    bind: str


def listeners_of(config: Config) -> list[Listener]:
    """The ports that this region opens, with those that are optional."""
    found = [Listener("port", config.port, "bind", config.bind)] if config.port or not config.tls_port else []
    if config.tls_port:
        found.append(Listener("tls-port", config.tls_port, "bind", config.bind))
    found.append(Listener("replication-port", config.replication_port, "replication-bind", config.replication_bind))
    optional = (
        ("bulk", config.bulk_port, config.bulk_bind),
        ("oci", config.oci_port, config.oci_bind),
        ("http", config.http_port, config.http_bind),
    )
    found += [Listener(f"{name}-port", port, f"{name}-bind", bind) for name, port, bind in optional if port is not None]
    return found


class ConfigError(ValueError):
    """A setting that cannot work; the text names it and says what to do."""


def validate_peers(peers: Iterable[str]) -> None:
    for peer in peers:
        if not is_address(peer):
            hint = ", without a scheme" if "://" in peer else ""
            text = f"HOST:PORT{hint}, the replication address of another region"
            raise ConfigError(f"peer {peer!r} must be {text}")


def is_address(text: str) -> bool:
    """Return whether it is HOST:PORT; whether the host exists is another question."""
    host, colon, port = text.rpartition(":")
    is_port = port.isdecimal() and port.isascii() and 0 < int(port) <= 65535
    return bool(host and colon) and is_port and not NO_HOST.intersection(host)


# Below these values, and below 0 where there is none, a region could not greet, reply or log;
# -1 means off.
LIMITS_MIN = {
    "clients_max": 1,
    "query_bytes_max": 1 << 16,
    "bulk_bytes_max": 1 << 10,
    "arguments_max": 1 << 10,
    "output_bytes_max": 1 << 16,
    "turn_reply_bytes_max": 1 << 10,
    "turn_ms_max": 1,
    "outputs_bytes_max": 1 << 16,
    "message_bytes": 1 << 10,
    "message_bytes_max": 1 << 16,
    "window_bytes": 1 << 10,
    "window_messages": 1,
    "batch_bytes_max": BATCH_BYTES_MIN,
    "write_bytes_max": BATCH_BYTES_MIN,
    "progress_rows_max": 1 << 10,
    "heartbeat_ms": 1,
    "greeting_timeout_ms": 1,
    "ungreeted_links_max": 1,
    "backoff_ms_min": 1,
    "segment_bytes_max": 1 << 16,
    "durable_interval_ms": 1,
    "audit_entries_max": 1,
    "digest_entries_max": 1,
    "dump_slice_bytes": 1_024,
    "slow_command_us": -1,
    "bulk_message_bytes": 1 << 10,
    "bulk_message_bytes_max": 1 << 16,
    "bulk_calls_max": 1,
    "forward_timeout_ms": 1,
    "stream_idmp_duration_s": 1,
    "stream_idmp_entries_max": 1,
    "oci_partitions_max": 1,
}
# gRPC stores the size of a message in 32 bits.
LIMITS_MAX = {
    "message_bytes_max": 1 << 30,
    "bulk_message_bytes_max": 1 << 30,
    "stream_idmp_duration_s": 86_400,
    "stream_idmp_entries_max": 10_000,
    "metrics_series_max": 20_000,
}
# (a, n, b): n times limit a must not exceed limit b. A message of about `message_bytes` can carry batches, a piece of a
# state and progress at once. Of two heartbeats within a timeout, one may be late.
LIMITS_ORDER = (
    ("message_bytes", 4, "message_bytes_max"),
    ("heartbeat_ms", 2, "peer_timeout_ms"),
    ("backoff_ms_min", 1, "backoff_ms_max"),
)


def validate_limits(limits: Limits) -> None:
    for name in LIMIT_NAMES:
        least = LIMITS_MIN.get(name, 0)
        if getattr(limits, name) < least:
            raise ConfigError(f"limit {name} {getattr(limits, name)} must be at least {least}")
    for name, most in LIMITS_MAX.items():
        if getattr(limits, name) > most:
            raise ConfigError(f"limit {name} {getattr(limits, name)} must be at most {most}")
    for low, times, high in LIMITS_ORDER:
        least = times * getattr(limits, low)
        if getattr(limits, high) < least:
            of = low if times == 1 else f"{times} times {low}"
            raise ConfigError(f"limit {high} {getattr(limits, high)} must be at least {of}, {least}")


def require_guarded(config: Config) -> None:
    """Beyond loopback the gateway needs keys, because without them it trusts everybody, and TLS. Raises ConfigError."""
    if not config.oci_keys and not is_loopback(config.oci_bind):
        raise ConfigError(
            f"oci-bind {config.oci_bind} is not loopback: name the keys of its users with --oci-keys, or leave it out"
        )
    if not config.oci_tls and not config.insecure_oci and not is_loopback(config.oci_bind):
        raise ConfigError(
            f"oci-bind {config.oci_bind} is not loopback, so messages would be sent in plain text: give --oci-tls, or"
            " --insecure-oci if the network itself is trusted"
        )


def refuse_exposure(config: Config) -> None:
    """Refuse replication in plain text beyond this machine, whichever side dials. Raises ConfigError."""
    if config.tls_certificate or config.insecure_replication:
        return
    for host in (config.replication_bind, *(split_address(peer)[0] for peer in config.peers)):
        if not is_loopback(host):
            raise ConfigError(
                f"{host} is not loopback, so replication would be sent in plain text: configure the three TLS files,"
                " or --insecure-replication if the network itself is trusted"
            )


def split_address(address: str) -> tuple[str, int]:
    """Split HOST:PORT; an IPv6 host may be in brackets."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def is_loopback(address: str) -> bool:
    return address in ("localhost", "::1") or address.startswith("127.")
