"""The certificates of the ports. Replication: TLS with certificates of one authority on both sides, or loopback only.

Replication in plain text beyond this machine is refused at the start, whichever side dials, unless the configuration
declares the network itself trusted.
"""

from __future__ import annotations

from crdtstream.runtime.tls.certificates import Certificates
from crdtstream.settings.config import NO, Config, refuse_exposure


def read_credentials(config: Config) -> Certificates | None:
    """Those of replication. Return None without TLS; raises ConfigError for files that cannot be used, and for plain
    text beyond loopback.
    """
    if not config.tls_certificate:
        refuse_exposure(config)
        return None
    return Certificates(config.tls_certificate, config.tls_key, config.tls_authority)


def read_client_credentials(config: Config) -> Certificates | None:
    """Those of the ports for clients. Return None if none of them has TLS; raises ConfigError for unusable files."""
    if not config.has_client_tls():
        return None
    return Certificates(*config.client_files(), config.tls_auth_clients)


def read_web_credentials(config: Config) -> Certificates | None:
    """Those of the ports that speak HTTP, whose clients show no certificate: a token or a signature says who they are.
    Return None if none of them has TLS; raises ConfigError for unusable files.
    """
    if not config.has_web_tls():
        return None
    certificate, key, _ = config.client_files()
    return Certificates(certificate, key, "", NO)


def tls_ports(
    config: Config, replication: Certificates | None, clients: Certificates | None, web: Certificates | None
) -> dict[str, Certificates]:
    """The ports that speak TLS, and what they show."""
    found = {
        "replication": replication,
        "redis": clients if config.tls_port else None,
        "bulk": clients if config.bulk_tls and config.bulk_port is not None else None,
        "http": web if config.http_tls and config.http_port is not None else None,
        "oci": web if config.oci_tls and config.oci_port is not None else None,
    }
    return {port: certificates for port, certificates in found.items() if certificates is not None}


def join_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
