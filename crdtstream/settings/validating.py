"""Whether the settings of a region work together: each one that does not is refused by name, before anything is
opened.
"""

from __future__ import annotations

from crdtstream.core.values.causality import REGION_MAX
from crdtstream.core.values.entry_id import ID_MODES
from crdtstream.settings.config import (
    EVENT_LETTERS,
    FSYNC_POLICIES,
    INCARNATION_MAX,
    LOG_FORMATS,
    LOG_LEVELS,
    NAME_CHARACTERS_MAX,
    NO,
    NO_HOST,
    OCI_LIMITS,
    TLS_CLIENTS,
    WILDCARDS,
    Config,
    ConfigError,
    Listener,
    is_loopback,
    listeners_of,
    require_guarded,
    validate_limits,
    validate_peers,
)
from crdtstream.settings.sharding import validate_shards


def validate(config: Config) -> None:
    """Raise ConfigError for the first invalid setting."""
    if not config.name or not config.name.isprintable() or " " in config.name:
        raise ConfigError(f"name {config.name!r} must be a word: letters, digits, '-' or '_'")
    if not config.cluster:
        raise ConfigError("cluster must be set: all regions of a cluster use the same cluster name")
    for name in (config.name, config.cluster):
        if len(name) > NAME_CHARACTERS_MAX:
            raise ConfigError(f"{name[:20]!r}... must not exceed {NAME_CHARACTERS_MAX} characters")
    if not 1 <= config.region <= REGION_MAX:
        raise ConfigError(f"region {config.region} must be between 1 and {REGION_MAX}, different in each region")
    if config.fsync not in FSYNC_POLICIES:
        raise ConfigError(f"fsync {config.fsync!r} must be one of {', '.join(FSYNC_POLICIES)}")
    if config.id_mode not in ID_MODES:
        raise ConfigError(f"id-mode {config.id_mode!r} must be one of {', '.join(ID_MODES)}")
    if config.incarnation is not None and not 0 <= config.incarnation <= INCARNATION_MAX:
        raise ConfigError(f"incarnation {config.incarnation} must be between 0 and {INCARNATION_MAX}")
    ports = (
        ("port", config.port),
        ("replication-port", config.replication_port),
        ("bulk-port", config.bulk_port or 0),
        ("oci-port", config.oci_port or 0),
        ("tls-port", config.tls_port),
        ("http-port", config.http_port or 0),
    )
    for name, port in ports:
        if not 0 <= port <= 65535:
            raise ConfigError(f"{name} {port} must be between 0 and 65535")
    _validate_ports(listeners_of(config))
    validate_peers(config.peers)
    validate_announce_host(config.announce_host)
    if config.log_level not in LOG_LEVELS:
        raise ConfigError(f"log-level {config.log_level!r} must be one of {', '.join(LOG_LEVELS)}")
    if config.log_format not in LOG_FORMATS:
        raise ConfigError(f"log-format {config.log_format!r} must be one of {', '.join(LOG_FORMATS)}")
    if set(config.notify_keyspace_events) - set(EVENT_LETTERS):
        raise ConfigError(
            f"notify-keyspace-events {config.notify_keyspace_events!r} must be letters of {EVENT_LETTERS}"
        )
    if config.requirepass and config.requirepass_file:
        raise ConfigError("requirepass and requirepass-file both set the password: give only one of them")
    _validate_replication(config)
    _validate_oci(config)
    _validate_http(config)
    _validate_traces(config)
    _validate_tls(config)
    validate_shards(config)
    validate_limits(config.limits)


def _validate_ports(listeners: list[Listener]) -> None:
    """No two ports may be equal, unless they are of different addresses of the machine."""
    for index, one in enumerate(listeners):
        for other in listeners[:index]:
            if one.port and one.port == other.port and (one.bind == other.bind or {one.bind, other.bind} & WILDCARDS):
                tls = ", or port 0 for TLS alone" if {one.setting, other.setting} == {"port", "tls-port"} else ""
                names = " and ".join(sorted([one.setting, other.setting], reverse=True))
                raise ConfigError(f"{names} are both {one.port}: give two ports{tls}")


def validate_announce_host(host: str) -> None:
    if host and ((":" in host.strip("[]") and not host.startswith("[")) or NO_HOST.intersection(host)):
        raise ConfigError(
            f"announce-host {host!r} must be a host name or an IP address without a port; an IPv6 address in brackets"
        )


def _validate_replication(config: Config) -> None:
    files = (config.tls_certificate, config.tls_key, config.tls_authority)
    if any(files) and not all(files):
        raise ConfigError("tls-certificate, tls-key and tls-authority go together: give all three or none")
    for region in config.allowed_regions:
        if not 1 <= region <= REGION_MAX:
            raise ConfigError(f"allow-region {region} must be the number of a region, 1 to {REGION_MAX}")
    if not is_loopback(config.replication_bind) and not all(files) and not config.insecure_replication:
        raise ConfigError(
            f"replication-bind {config.replication_bind} is not loopback: give the three TLS files,"
            " or --insecure-replication if the network itself is trusted"
        )


def _validate_oci(config: Config) -> None:
    if config.oci_limits not in OCI_LIMITS:
        raise ConfigError(f"oci-limits {config.oci_limits!r} must be one of {', '.join(OCI_LIMITS)}")
    if config.oci_dev and config.oci_keys:
        raise ConfigError("oci-dev serves tools without a signature, and oci-keys demands one: give only one of them")
    if config.init_streams and config.oci_port is None:
        raise ConfigError("init-streams belong to the gateway for OCI clients: give --oci-port too")
    if config.oci_port is not None:
        require_guarded(config)


def _validate_http(config: Config) -> None:
    if config.dashboard_url and not config.dashboard_url.startswith(("http://", "https://")):
        raise ConfigError("dashboard-url must begin with http:// or https://, as in a browser")
    if config.http_token and config.http_token_file:
        raise ConfigError("http-token and http-token-file both set the token: give only one of them")
    if config.http_port is None or config.insecure_http or is_loopback(config.http_bind):
        return
    trusted = "or --insecure-http if the network itself is trusted"
    if not config.http_tls:
        raise ConfigError(
            f"http-bind {config.http_bind} is not loopback, so metrics would be sent in plain text: give --http-tls,"
            f" {trusted}"
        )
    if not config.http_token and not config.http_token_file:
        raise ConfigError(
            f"http-bind {config.http_bind} is not loopback, so anybody there could read the metrics: give"
            f" --http-token-file, {trusted}"
        )


def _validate_traces(config: Config) -> None:
    scheme, _, rest = config.otel_endpoint.partition("://")
    plain = rest and not rest.startswith("/") and not set(rest) & set("@?# ")
    if config.otel_endpoint and (scheme not in ("http", "https") or not plain):
        raise ConfigError(
            "otel-endpoint must be http://HOST:PORT or https://HOST:PORT, the address of an OTLP collector; a secret"
            " for it belongs in the variable OTEL_EXPORTER_OTLP_HEADERS"
        )


def _validate_tls(config: Config) -> None:
    """The ports for clients."""
    if config.tls_auth_clients not in TLS_CLIENTS:
        raise ConfigError(f"tls-auth-clients {config.tls_auth_clients!r} must be one of {', '.join(TLS_CLIENTS)}")
    if bool(config.tls_cert_file) != bool(config.tls_key_file):
        raise ConfigError("tls-cert-file and tls-key-file go together: give both or none")
    certificate, _, authority = config.client_files()
    used = {
        "tls-port": bool(config.tls_port),
        "bulk-tls": config.bulk_tls,
        "http-tls": config.http_tls,
        "oci-tls": config.oci_tls,
    }
    names = [name for name, on in used.items() if on]
    if names and not certificate:
        raise ConfigError(
            f"{names[0]} needs a certificate: give tls-cert-file and tls-key-file, or those of replication"
        )
    if config.has_client_tls() and config.tls_auth_clients != NO and not authority:
        raise ConfigError(
            f"{names[0]} checks the certificates of clients and has no authority for that: give tls-ca-cert-file, or"
            " tls-auth-clients no"
        )
