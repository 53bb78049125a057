"""Settings that cannot work are refused by name, before anything is opened."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from crdtstream.settings.config import LIMITS_MAX, LIMITS_MIN, Config, ConfigError, Limits, is_loopback
from crdtstream.settings.validating import validate

GOOD = Config(name="east", region=1, cluster="c")
TLS = {"tls_certificate": "a", "tls_key": "b", "tls_authority": "c"}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"region": 255},
        {"peers": ("west:7101", "[::1]:7102")},
        {"incarnation": 0},
        {"incarnation": 255, "replace": True},
        {"port": 0, "replication_port": 65535},
        {"replication_bind": "0.0.0.0", "insecure_replication": True},
        {"replication_bind": "0.0.0.0", **TLS},
        {"oci_port": 0, "oci_limits": "off", "oci_dev": True, "init_streams": "orders:4"},
        {"oci_port": 7301, "oci_bind": "0.0.0.0", "oci_keys": "keys.toml", "oci_tls": True, **TLS},
        {"oci_port": 7301, "oci_bind": "0.0.0.0", "oci_keys": "keys.toml", "insecure_oci": True},
        {"http_port": 0, "http_bind": "0.0.0.0", "http_tls": True, "http_token_file": "token", **TLS},
        {"http_port": 0, "http_bind": "0.0.0.0", "http_tls": True, "http_token": "token", **TLS},
        {"http_port": 0, "http_bind": "0.0.0.0", "insecure_http": True},
        {"http_bind": "0.0.0.0"},
        {"otel_endpoint": "https://collector.example.net:4318"},
        {"oci_bind": "0.0.0.0"},
    ],
)
def test_what_works_passes(settings: dict[str, object]) -> None:
    validate(replace(GOOD, **settings))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"name": ""}, "name ''"),
        ({"name": "two words"}, "name 'two words'"),
        ({"name": "line\nbreak"}, "name "),
        ({"cluster": ""}, "cluster must be set"),
        ({"cluster": "c" * 129}, "must not exceed 128 characters"),
        ({"name": "n" * 129}, "must not exceed 128 characters"),
        ({"region": 0}, "region 0"),
        ({"region": 256}, "region 256"),
        ({"fsync": "sometimes"}, "fsync 'sometimes'"),
        ({"id_mode": "loose"}, "id-mode 'loose'"),
        ({"log_level": "loud"}, "log-level 'loud'"),
        ({"incarnation": -1}, "incarnation -1"),
        ({"incarnation": 256}, "incarnation 256"),
        ({"port": 65536}, "port 65536"),
        ({"replication_port": -1}, "replication-port -1"),
        ({"peers": ("west",)}, "peer 'west'"),
        ({"peers": (":7101",)}, "peer ':7101'"),
        ({"peers": ("west:0",)}, "peer 'west:0'"),
        ({"peers": ("west:70000",)}, "peer 'west:70000'"),
        ({"peers": ("redis://west:7101",)}, "peer 'redis://west:7101' must be HOST:PORT, without a scheme, the replic"),
        ({"peers": ("ann@west:7101",)}, "must be HOST:PORT, the replication address of another region"),
        ({"peers": ("west:7101/0",)}, "peer 'west:7101/0' must be HOST:PORT"),
        ({"replication_port": 6379}, "replication-port and port are both 6379: give two ports"),
        ({"tls_port": 6379, **TLS}, "tls-port and port are both 6379: give two ports, or port 0 for TLS alone"),
        ({"bulk_port": 6379, "bulk_bind": "::"}, "port and bulk-port are both 6379: give two ports"),
        ({"http_port": 7, "oci_port": 7}, "oci-port and http-port are both 7: give two ports"),
        ({"tls_key": "b"}, "go together"),
        ({"replication_bind": "0.0.0.0"}, "not loopback"),
        ({"oci_port": 65536}, "oci-port 65536"),
        ({"oci_port": 0, "oci_bind": "0.0.0.0"}, "oci-bind 0.0.0.0 is not loopback"),
        ({"oci_port": 0, "oci_bind": "0.0.0.0", "oci_tls": True, **TLS}, "name the keys of its users with --oci-keys"),
        ({"oci_port": 0, "oci_bind": "0.0.0.0", "insecure_oci": True}, "name the keys of its users with --oci-keys"),
        ({"oci_port": 0, "oci_bind": "0.0.0.0", "oci_keys": "f"}, "in plain text: give --oci-tls, or --insecure-oci"),
        ({"http_port": 0, "http_bind": "0.0.0.0"}, "in plain text: give --http-tls, or --insecure-http"),
        ({"http_port": 0, "http_bind": "::", "http_token": "t"}, "in plain text: give --http-tls, or --insecure-http"),
        ({"http_port": 0, "http_bind": "10.0.0.1", "http_tls": True, **TLS}, "give --http-token-file, or --insecure-"),
        ({"http_token": "t", "http_token_file": "f"}, "http-token and http-token-file both set the token"),
        ({"otel_endpoint": "127.0.0.1:4318"}, "otel-endpoint must be http://HOST:PORT"),
        ({"otel_endpoint": "http:///v1"}, "otel-endpoint must be http://HOST:PORT"),
        ({"otel_endpoint": "http://ann:pw@host:4318"}, "belongs in the variable OTEL_EXPORTER_OTLP_HEADERS"),
        ({"oci_limits": "some"}, "oci-limits 'some' must be one of real, off"),
        ({"oci_port": 0, "oci_keys": "f", "oci_dev": True}, "oci-dev serves tools without a signature"),
        ({"init_streams": "orders:4"}, "give --oci-port too"),
    ],
)
def test_what_cannot_work_is_named(settings: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        validate(replace(GOOD, **settings))  # type: ignore[arg-type]
    assert text in str(raised.value)


def test_equal_ports_of_two_addresses_are_two() -> None:
    validate(replace(GOOD, port=7, bulk_port=7, bulk_bind="127.0.0.2"))
    validate(replace(GOOD, port=0, replication_port=0, bulk_port=0, http_port=0))


@pytest.mark.parametrize("name", sorted(LIMITS_MIN))
def test_a_limit_has_a_least_value(name: str) -> None:
    least = LIMITS_MIN[name]
    others = {"message_bytes": 1 << 10, "heartbeat_ms": 1, "backoff_ms_min": 1}
    validate(replace(GOOD, limits=replace(Limits(), **{**others, name: least})))
    with pytest.raises(ConfigError, match=f"limit {name} {least - 1} must be at least {least}"):
        validate(replace(GOOD, limits=replace(Limits(), **{**others, name: least - 1})))


@pytest.mark.parametrize("name", sorted(LIMITS_MAX))
def test_a_limit_has_a_greatest_value(name: str) -> None:
    most = LIMITS_MAX[name]
    validate(replace(GOOD, limits=replace(Limits(), **{name: most})))
    with pytest.raises(ConfigError, match=f"limit {name} {most + 1} must be at most {most}"):
        validate(replace(GOOD, limits=replace(Limits(), **{name: most + 1})))


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        (Limits(heartbeat_ms=2501), "peer_timeout_ms 5000 must be at least 2 times heartbeat_ms, 5002"),
        (Limits(message_bytes=1 << 16, message_bytes_max=1 << 16), "must be at least 4 times message_bytes, 262144"),
        (Limits(backoff_ms_min=9000), "backoff_ms_max 5000 must be at least backoff_ms_min, 9000"),
    ],
)
def test_limits_keep_their_order(limits: Limits, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        validate(replace(GOOD, limits=limits))


@pytest.mark.parametrize(
    ("address", "expected"), [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("10.0.0.1", False), ("", False)]
)
def test_loopback(address: str, expected: bool) -> None:
    assert is_loopback(address) is expected


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"tls_port": 1}, "tls-port needs a certificate"),
        ({"bulk_tls": True}, "bulk-tls needs a certificate"),
        ({"http_tls": True}, "http-tls needs a certificate"),
        ({"oci_tls": True}, "oci-tls needs a certificate"),
        ({"tls_cert_file": "c"}, "tls-cert-file and tls-key-file go together"),
        ({"tls_port": 1, "tls_cert_file": "c", "tls_key_file": "k"}, "give tls-ca-cert-file, or tls-auth-clients no"),
        ({"tls_auth_clients": "maybe"}, "must be one of yes, no, optional"),
        ({"tls_port": 70_000}, "tls-port 70000 must be between"),
    ],
)
def test_tls_of_clients(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        validate(Config("east", 1, "c", **settings))


def test_clients_see_the_certificate_of_replication_or_another() -> None:
    shared = Config("east", 1, "c", tls_certificate="c", tls_key="k", tls_authority="a", tls_port=1)
    validate(shared)
    assert shared.client_files() == ("c", "k", "a")
    own = replace(shared, tls_cert_file="x", tls_key_file="y")
    assert own.client_files() == ("x", "y", "a")
    assert replace(own, tls_ca_cert_file="z").client_files() == ("x", "y", "z")


def test_ports_whose_clients_show_no_certificate_need_no_authority() -> None:
    validate(Config("east", 1, "c", http_tls=True, oci_tls=True, tls_cert_file="x", tls_key_file="y"))


def test_a_port_for_clients_without_certificates() -> None:
    validate(replace(Config("east", 1, "c"), tls_port=1, tls_cert_file="x", tls_key_file="y", tls_auth_clients="no"))
