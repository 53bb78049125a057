"""The SDK of OCI against a real region that verifies its signatures: every call of the data plane, and every error."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from crdtstream.processes.ports import free_port
from tests.oci.sdk import Clients, Gateway, b64, gateways, models, oci, refused
from tests.oci.signing import TENANCY, USER, private_key, public_pem
from tests.runtime.metrics.scraped import Scraped

NO_STREAM = "ocid1.stream.oc1..no"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    directory = tmp_path_factory.mktemp("signed")
    keys = directory / "keys.toml"
    user = f"[[user]]\ntenancy = '{TENANCY}'\nuser = '{USER}'\npublic_key = '''{public_pem()}'''\n"
    keys.write_text(f"{user}[[session]]\ntoken = 'eyJ.a.b'\npublic_key = '''{public_pem()}'''\n")
    with gateways(directory, oci_keys=str(keys), init_streams="init:2") as (one,):
        yield one


@pytest.fixture(scope="module")
def clients(gateway: Gateway) -> Clients:
    return Clients(gateway.url)


@pytest.fixture
def stream(clients: Clients, request: pytest.FixtureRequest) -> str:
    return clients.stream(request.node.name.replace("[", "-").replace("]", ""), 1)


def test_put_and_get(clients: Clients, stream: str) -> None:
    result = clients.put(stream, ("k", "one"), (None, "two"), ("k", "drei ü"))
    assert result.failures == 0
    assert [(row.partition, row.offset, row.error) for row in result.entries] == [("0", at, None) for at in range(3)]
    reply = clients.data.get_messages(stream, clients.cursor(stream))
    assert reply.status == 200 and reply.headers["opc-next-cursor"]
    assert [(row.offset, row.key, base64.b64decode(row.value).decode()) for row in reply.data] == [
        (0, b64("k"), "one"),
        (1, None, "two"),
        (2, b64("k"), "drei ü"),
    ]
    message = reply.data[0]
    assert message.partition == "0" and message.stream == clients.admin.get_stream(stream).data.name
    assert abs((datetime.now(UTC) - message.timestamp).total_seconds()) < 60
    assert message.timestamp == result.entries[0].timestamp


def test_cursors_of_all_types(clients: Clients, stream: str) -> None:
    clients.put(stream, *[(None, str(number)) for number in range(5)])
    latest = clients.cursor(stream, kind="LATEST")
    assert clients.get(stream, clients.cursor(stream, kind="AT_OFFSET", offset=3))[0] == ["3", "4"]
    assert clients.get(stream, clients.cursor(stream, kind="AFTER_OFFSET", offset=3))[0] == ["4"]
    assert clients.get(stream, clients.cursor(stream), limit=2)[0] == ["0", "1"]
    long_ago = datetime(2020, 1, 1, tzinfo=UTC)
    assert len(clients.get(stream, clients.cursor(stream, kind="AT_TIME", time=long_ago))[0]) == 5
    later = datetime(2200, 1, 1, tzinfo=UTC)
    assert clients.get(stream, clients.cursor(stream, kind="AT_TIME", time=later))[0] == []
    clients.put(stream, (None, "new"))
    assert clients.get(stream, latest)[0] == ["new"]


def test_the_loop_of_the_documentation(clients: Clients, stream: str) -> None:
    clients.put(stream, *[(None, str(number)) for number in range(100)])
    cursor, seen = clients.group_cursor(stream, commit_on_get=True), []
    for _ in range(11):
        values, cursor = clients.get(stream, cursor, limit=10)
        seen += values
    assert seen == [str(number) for number in range(100)]
    (row,) = clients.data.get_group(stream, "g").data.reservations
    assert (row.partition, row.committed_offset, row.reserved_instance) == ("0", 99, "a")
    assert row.time_reserved_until > datetime.now(UTC)


def test_commits_and_heartbeats(clients: Clients, stream: str) -> None:
    clients.put(stream, *[(None, str(number)) for number in range(10)])
    cursor = clients.group_cursor(stream, commit_on_get=False, timeout_in_ms=60_000)
    _, cursor = clients.get(stream, cursor, limit=4)
    cursor = clients.data.consumer_heartbeat(stream, cursor).data.value
    assert clients.data.get_group(stream, "g").data.reservations[0].committed_offset == -1
    cursor = clients.data.consumer_commit(stream, cursor).data.value
    assert clients.data.get_group(stream, "g").data.reservations[0].committed_offset == 3
    assert clients.get(stream, cursor, limit=2)[0] == ["4", "5"]


def test_a_group_is_moved(clients: Clients, stream: str) -> None:
    clients.put(stream, *[(None, str(number)) for number in range(4)])
    _, cursor = clients.get(stream, clients.group_cursor(stream))
    assert clients.data.update_group(stream, "g", models().UpdateGroupDetails(type="TRIM_HORIZON")).status == 204
    values, cursor = clients.get(stream, cursor)
    assert values == ["0", "1", "2", "3"]
    clients.data.update_group(stream, "g", models().UpdateGroupDetails(type="LATEST"))
    assert clients.get(stream, cursor)[0] == []
    time = datetime(2020, 1, 1, tzinfo=UTC)
    clients.data.update_group(stream, "g", models().UpdateGroupDetails(type="AT_TIME", time=time))
    assert len(clients.get(stream, cursor)[0]) == 4


def test_surplus_instances(clients: Clients) -> None:
    stream = clients.stream("surplus", 2)
    clients.put(stream, *[(str(number), str(number)) for number in range(40)])
    cursors = {name: clients.group_cursor(stream, name) for name in "abc"}
    for name in "abc":
        _, cursors[name] = clients.get(stream, cursors[name], limit=1)
    counts = {name: len(clients.get(stream, cursors[name])[0]) for name in "abc"}
    assert sorted(bool(count) for count in counts.values()) == [False, True, True]
    owners = [row.reserved_instance for row in clients.data.get_group(stream, "g").data.reservations]
    assert len(set(owners)) == 2


def test_a_stream_of_the_start(clients: Clients) -> None:
    shown = clients.admin.get_stream("ocid1.stream.oc1..init").data
    assert (shown.name, shown.partitions, shown.lifecycle_state) == ("init", 2, "ACTIVE")


def test_unknown_streams(clients: Clients) -> None:
    expected = (404, "NotAuthorizedOrNotFound", f"Unknown stream {NO_STREAM}.")
    calls: list[tuple[Any, ...]] = [
        (clients.put, ("k", "v")),
        (clients.cursor,),
        (clients.group_cursor,),
        (clients.data.get_messages, "c"),
        (clients.data.consumer_commit, "c"),
        (clients.data.consumer_heartbeat, "c"),
        (clients.data.get_group, "g"),
        (clients.data.update_group, "g", models().UpdateGroupDetails(type="LATEST")),
        (clients.admin.get_stream,),
        (clients.admin.delete_stream,),
        (clients.admin.update_stream, models().UpdateStreamDetails()),
    ]
    for call, *rest in calls:
        assert refused(call, NO_STREAM, *rest) == expected, call


def test_bad_requests(clients: Clients, stream: str) -> None:
    invalid = (400, "InvalidParameter")
    plain = clients.cursor(stream)
    assert refused(clients.data.get_messages, stream, "garbled")[:2] == invalid
    assert refused(clients.data.get_messages, stream, plain, limit=10_001)[:2] == invalid
    assert refused(clients.data.consumer_heartbeat, stream, plain)[:2] == invalid
    assert refused(clients.data.consumer_commit, stream, plain)[:2] == invalid
    assert refused(clients.cursor, stream, 1)[:2] == invalid
    assert refused(clients.cursor, stream, kind="AT_OFFSET", offset=0)[:2] == invalid
    assert refused(clients.cursor, stream, kind="AT_TIME")[:2] == (400, "MissingParameter")
    assert refused(clients.group_cursor, stream, timeout_in_ms=0)[:2] == invalid
    assert refused(clients.data.get_group, stream, "none")[:2] == (404, "NotAuthorizedOrNotFound")
    update = models().UpdateGroupDetails(type="LATEST")
    assert refused(clients.data.update_group, stream, "none", update)[:2] == (404, "NotAuthorizedOrNotFound")


def test_another_key(gateway: Gateway) -> None:
    other = Clients(gateway.url, number=1)
    status, code, message = refused(other.data.get_messages, "ocid1.stream.oc1..init", "c")
    assert (status, code) == (401, "NotAuthenticated") and "is not in the keys file" in message
    assert refused(other.put, "ocid1.stream.oc1..init", ("k", "v"))[:2] == (401, "NotAuthenticated")


@pytest.mark.parametrize(("token", "status"), [("eyJ.a.b", 200), ("eyJ.a.c", 401)])
def test_session_tokens(gateway: Gateway, token: str, status: int) -> None:
    signer = oci.auth.signers.SecurityTokenSigner(token, private_key())
    client = oci.streaming.StreamClient(
        {}, signer=signer, service_endpoint=gateway.url, retry_strategy=oci.retry.NoneRetryStrategy()
    )
    details = models().CreateCursorDetails(partition="0", type="LATEST")
    if status == 200:
        assert client.create_cursor("ocid1.stream.oc1..init", details).status == 200
    else:
        assert refused(client.create_cursor, "ocid1.stream.oc1..init", details)[:2] == (401, "NotAuthenticated")


@pytest.mark.parametrize("suffix", ["/", "/20180418"])
def test_endpoints_are_written_in_several_ways(gateway: Gateway, suffix: str) -> None:
    clients = Clients(gateway.url + suffix)
    assert clients.get("ocid1.stream.oc1..init", clients.cursor("ocid1.stream.oc1..init"))[0] == []


def test_an_instance_times_out_when_the_clock_is_moved(tmp_path: Path) -> None:
    with gateways(tmp_path) as (one,):
        clients = Clients(one.url)
        stream = clients.stream("moved", 1)
        clients.put(stream, *[(None, str(number)) for number in range(10)])
        _, cursor = clients.get(stream, clients.group_cursor(stream, "a"), limit=4)
        assert clients.get(stream, clients.group_cursor(stream, "b"))[0] == []
        assert clients.get(stream, cursor, limit=2)[0] == ["4", "5"]
        assert httpx.post(f"{one.url}/dev/clock", json={"advanceMs": 30_001}).status_code == 200
        values, late = clients.get(stream, clients.group_cursor(stream, "b"), limit=3)
        assert values == ["4", "5", "6"], "behind the latest commit"
        assert httpx.post(f"{one.url}/dev/clock", json={"advanceMs": 300_000}).status_code == 200
        assert "has expired" in refused(clients.data.get_messages, stream, late)[2]


def test_metrics_of_the_gateway(tmp_path: Path) -> None:
    """On the port that shows all other metrics."""
    port = free_port()
    with gateways(tmp_path, http_port=port) as (one,):
        clients = Clients(one.url)
        stream = clients.stream("counted", 1)
        clients.put(stream, (None, "one"), (None, "two"))
        clients.get(stream, clients.group_cursor(stream))
        found = Scraped(httpx.get(f"http://127.0.0.1:{port}/metrics").text)
    assert found.value("oci_requests_total", operation="PutMessages", status="200") == 1
    assert found.value("oci_messages_read_total") == 2
    assert (found.value("partitioned_streams_homed"), found.value("partition_instances")) == (1, 1)


def test_what_was_stored_outlives_the_process(tmp_path: Path) -> None:
    with gateways(tmp_path) as (one,):
        clients = Clients(one.url)
        stream = clients.stream("durable", 1)
        clients.put(stream, *[(None, str(number)) for number in range(10)])
        _, cursor = clients.get(stream, clients.group_cursor(stream), limit=4)
        plain = clients.cursor(stream)
        _, cursor = clients.get(stream, cursor, limit=2)
        one.region.stop()
        one.start()
        one.region.await_serving()
        assert clients.get(stream, plain)[0] == [str(number) for number in range(10)]
        assert clients.get(stream, clients.group_cursor(stream, "later"))[0][:1] == ["4"]
