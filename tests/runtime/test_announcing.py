"""Where a region says that it is reached."""

from __future__ import annotations

from typing import Any

import pytest

from crdtstream.runtime.announcing import announced
from crdtstream.settings.config import Config, ConfigError
from crdtstream.settings.validating import validate

LISTENING = {"redis": "127.0.0.1:6379", "replication": "127.0.0.1:7000", "http": "0.0.0.0:8080", "bulk": "10.0.0.7:9"}


def config(**fields: Any) -> Config:
    return Config(name="east", region=1, cluster="shop", **fields)


def test_addresses_that_others_can_use() -> None:
    assert announced(config(), LISTENING) == (("bulk", "10.0.0.7:9"), ("redis", "127.0.0.1:6379"))
    assert announced(config(), {"replication": "10.0.0.7:7000"}) == (("replication", "10.0.0.7:7000"),)


def test_the_announced_host_stands_for_all_ports() -> None:
    assert announced(config(announce_host="east.example", http_tls=True), LISTENING) == (
        ("bulk", "east.example:9"),
        ("http_tls", "east.example:8080"),
        ("redis", "east.example:6379"),
        ("replication", "east.example:7000"),
    )


@pytest.mark.parametrize("host", ["east.example:7000", "::1", "grpc://east", "e ast"])
def test_a_host_with_a_port_or_a_scheme_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match=r"announce-host .* without a port"):
        validate(config(announce_host=host))


@pytest.mark.parametrize("host", ["", "east.example", "10.0.0.7", "[::1]"])
def test_hosts(host: str) -> None:
    validate(config(announce_host=host))
