"""The addresses at which this region tells others to reach its listeners."""

from __future__ import annotations

from collections.abc import Mapping

from crdtstream.replication.origins.facts import REPLICATION, Addresses
from crdtstream.settings.config import WILDCARDS, Config, is_loopback


def announced(config: Config, listening: Mapping[str, str]) -> Addresses:
    """Of the addresses that the ports are bound to, by listener, those that others can use; `announce_host` replaces
    the host. A wildcard is no address to dial. Nor does a replication port on loopback invite others, which would dial
    themselves, or go round the proxies between regions of one machine.
    """
    secure = {"bulk": config.bulk_tls, "http": config.http_tls, "oci": config.oci_tls}
    found: dict[str, str] = {}
    for listener, address in listening.items():
        host, _, port = address.rpartition(":")
        reached = config.announce_host or host
        if reached not in WILDCARDS and not (
            listener == REPLICATION and is_loopback(host) and not config.announce_host
        ):
            found[f"{listener}_tls" if secure.get(listener) else listener] = f"{reached}:{port}"
    return tuple(sorted(found.items()))
