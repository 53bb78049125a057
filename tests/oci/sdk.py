"""Real clients of OCI, and real regions for them."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from crdtstream.processes.ports import free_port
from crdtstream.processes.region import RegionProcess, regions_in
from crdtstream.processes.relay import Relay
from tests.oci.ports import COMPARTMENT
from tests.oci.signing import sdk_config

oci = pytest.importorskip("oci", reason="needs the SDK of OCI")

DEADLINE_S = 60.0


class Clients:
    """A data client and an admin client of one gateway; without retries unless a strategy is given. `authorities`: a
    file with those that the gateway's certificate may be of.
    """

    def __init__(self, url: str, number: int = 0, retries: Any = None, authorities: str = "") -> None:
        strategy = retries or oci.retry.NoneRetryStrategy()
        self.url = url
        self.data = oci.streaming.StreamClient(sdk_config(number), service_endpoint=url, retry_strategy=strategy)
        self.admin = oci.streaming.StreamAdminClient(
            sdk_config(number),
            service_endpoint=url,
            retry_strategy=strategy,
            circuit_breaker_strategy=oci.circuit_breaker.NoCircuitBreakerStrategy(),
        )
        for client in (self.data, self.admin):
            client.base_client.session.verify = authorities or True

    def stream(self, name: str, partitions: int = 4, **more: Any) -> str:
        details = models().CreateStreamDetails(name=name, partitions=partitions, compartment_id=COMPARTMENT, **more)
        return str(self.admin.create_stream(details).data.id)

    def put(self, stream: str, *pairs: tuple[str | None, str]) -> Any:
        entries = [
            models().PutMessagesDetailsEntry(key=None if key is None else b64(key), value=b64(value))
            for key, value in pairs
        ]
        return self.data.put_messages(stream, models().PutMessagesDetails(messages=entries)).data

    def cursor(self, stream: str, partition: int = 0, kind: str = "TRIM_HORIZON", **more: Any) -> str:
        details = models().CreateCursorDetails(partition=str(partition), type=kind, **more)
        return str(self.data.create_cursor(stream, details).data.value)

    def group_cursor(self, stream: str, instance: str | None = "a", group: str = "g", **more: Any) -> str:
        fields = {"type": "TRIM_HORIZON", "group_name": group, "instance_name": instance, **more}
        details = models().CreateGroupCursorDetails(**fields)
        return str(self.data.create_group_cursor(stream, details).data.value)

    def get(self, stream: str, cursor: str, **query: Any) -> tuple[list[str], str]:
        """The values, and the next cursor."""
        reply = self.data.get_messages(stream, cursor, **query)
        return [unb64(message.value) for message in reply.data], reply.headers["opc-next-cursor"]

    def get_until(self, stream: str, cursor: str, count: int) -> tuple[list[str], str]:
        """Read on until so many came: what another region wrote takes its time."""
        values: list[str] = []
        end = time.monotonic() + DEADLINE_S
        while len(values) < count and time.monotonic() < end:
            more, cursor = self.get(stream, cursor)
            values += more
        return values, cursor


def models() -> Any:
    return oci.streaming.models


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def unb64(text: str) -> str:
    return base64.b64decode(text).decode()


def refused(call: Any, *arguments: Any, **options: Any) -> tuple[int, str, str]:
    """Status, code and message of the ServiceError; its request has a name."""
    with pytest.raises(oci.exceptions.ServiceError) as refusal:
        call(*arguments, **options)
    error = refusal.value
    assert len(error.request_id.split("/")) == 3
    return error.status, error.code, error.message


class Gateway:
    """A region with a gateway; it keeps its port over restarts."""

    def __init__(self, region: RegionProcess) -> None:
        self.region = region
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"

    def start(self, *others: Gateway, **settings: Any) -> None:
        peers = [other.region for other in others if other is not self]
        self.region.start(*peers, **self.options(**settings))

    def options(self, **settings: Any) -> dict[str, Any]:
        return {"oci_port": self.port, "oci_limits": "off", **settings}


@contextmanager
def gateways(directory: Path, count: int = 1, relays: Sequence[Relay] = (), **settings: Any) -> Iterator[list[Gateway]]:
    """With a relay for each region: the region dials that one, and it leads to the other region."""
    with regions_in(directory) as regions:
        made = [Gateway(region) for region in regions.make(*range(1, count + 1))]
        for relay, other in zip(relays, reversed(made), strict=bool(relays)):
            relay.lead_to(other.region.replication_port)
        for at, each in enumerate(made):
            peers = [relays[at].address] if relays else [one.region for one in made if one is not each]
            each.region.start(*peers, **each.options(incarnation=0, **settings))
        for each in made:
            each.region.await_serving()
        for each in made:
            each.region.await_admitted()
        yield made
