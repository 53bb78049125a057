"""Streams as resources: golden statuses, states, ETags, lists and quotas."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from crdtstream.oci.gateway import GatewaySettings
from crdtstream.oci.registry import DELETED_MS
from crdtstream.oci.streams import OVER_QUOTA
from tests.oci.ports import COMPARTMENT, OFF, Edge, edge, error_of

OTHER = "ocid1.compartment.oc1..other"


async def create(port: Edge, **fields: Any) -> httpx.Response:
    body = {"name": "orders", "partitions": 2, "compartmentId": COMPARTMENT, **fields}
    return await port.post("/streams", {name: value for name, value in body.items() if value is not None})


async def names(port: Edge, **query: str) -> list[str]:
    reply = await port.get("/streams", params={"compartmentId": COMPARTMENT, **query})
    assert reply.status_code == 200, reply.text
    return [row["name"] for row in reply.json()]


async def test_a_stream_is_created() -> None:
    async with edge() as port:
        reply = await create(port, retentionInHours=48, freeformTags={"a": "b"})
        assert reply.status_code == 200 and {"etag", "opc-work-request-id"} <= set(reply.headers)
        stream = reply.json()
        assert (stream["lifecycleState"], stream["retentionInHours"], stream["partitions"]) == ("CREATING", 48, 2)
        assert stream["messagesEndpoint"] == "http://127.0.0.1:1" and stream["freeformTags"] == {"a": "b"}
        assert set(stream) == {
            "id", "name", "partitions", "retentionInHours", "compartmentId", "streamPoolId", "lifecycleState",
            "timeCreated", "messagesEndpoint", "freeformTags", "definedTags",
        }  # fmt: skip
        shown = await port.get(f"/streams/{stream['id']}")
        assert shown.json() == {**stream, "lifecycleState": "ACTIVE"}
        assert shown.headers["etag"] == reply.headers["etag"]
        spec = port.engine.spec(stream["id"])
        assert spec is not None and (spec.partitions, spec.retention_ms) == (2, 48 * 3_600_000)


async def test_retention_is_a_day_unless_given() -> None:
    async with edge() as port:
        assert (await create(port)).json()["retentionInHours"] == 24


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({"name": None}, 400, "MissingParameter"),
        ({"partitions": None}, 400, "MissingParameter"),
        ({"compartmentId": None}, 400, "MissingParameter"),
        ({"streamPoolId": "p"}, 400, "InvalidParameter"),
        ({"compartmentId": None, "streamPoolId": "p"}, 404, "NotAuthorizedOrNotFound"),
        ({"name": ""}, 400, "InvalidParameter"),
        ({"name": "a b"}, 400, "InvalidParameter"),
        ({"partitions": 0}, 400, "InvalidParameter"),
        ({"partitions": 1_001}, 400, "InvalidParameter"),
        ({"retentionInHours": 23}, 400, "InvalidParameter"),
        ({"retentionInHours": 169}, 400, "InvalidParameter"),
    ],
)
async def test_streams_that_are_refused(fields: dict[str, Any], status: int, code: str) -> None:
    async with edge() as port:
        assert error_of(await create(port, **fields)) == (status, code)
        assert not port.engine.streams


async def test_a_name_is_unique_in_its_pool() -> None:
    async with edge() as port:
        first = await port.made("orders")
        assert error_of(await create(port)) == (409, "Conflict")
        assert (await create(port, compartmentId=OTHER)).status_code == 200
        await port.ask("DELETE", f"/streams/{first}")
        assert (await create(port)).status_code == 200


async def test_beyond_the_quota_a_stream_fails_as_recorded() -> None:
    async with edge(GatewaySettings(real_limits=True, partitions_max=4)) as port:
        await port.made("first", 3)
        reply = await create(port, name="second")
        assert reply.status_code == 200 and reply.json()["lifecycleState"] == "CREATING"
        id = reply.json()["id"]
        shown = (await port.get(f"/streams/{id}")).json()
        assert (shown["lifecycleState"], shown["lifecycleStateDetails"]) == ("FAILED", OVER_QUOTA)
        refused = await port.ask("PUT", f"/streams/{id}", {"freeformTags": {}})
        assert error_of(refused) == (400, "InvalidParameter")
        assert refused.json()["message"] == f"Stream {id} is FAILED"
        assert error_of(await port.post(f"/streams/{id}/messages", {"messages": []}))[0] == 404
        work = reply.headers["opc-work-request-id"]
        assert (await port.get(f"/workRequests/{work}")).json()["status"] == "FAILED"
        errors = (await port.get(f"/workRequests/{work}/errors")).json()["items"]
        assert [row["message"] for row in errors] == [OVER_QUOTA]
        assert (await port.ask("DELETE", f"/streams/{id}")).status_code == 204
        await port.made("third", 1)


async def test_an_update() -> None:
    async with edge() as port:
        id = await port.made()
        before = await port.get(f"/streams/{id}")
        reply = await port.ask(
            "PUT", f"/streams/{id}", {"freeformTags": {"a": "b"}}, headers={"if-match": before.headers["etag"]}
        )
        assert reply.status_code == 200 and reply.json()["freeformTags"] == {"a": "b"}
        assert {"etag", "opc-work-request-id"} <= set(reply.headers)
        assert reply.headers["etag"] != before.headers["etag"]
        stale = {"if-match": before.headers["etag"]}
        for method, path in (("PUT", ""), ("DELETE", ""), ("POST", "/actions/changeCompartment")):
            refused = await port.ask(method, f"/streams/{id}{path}", {"compartmentId": OTHER}, headers=stale)
            assert error_of(refused) == (412, "NoEtagMatch"), method
        assert (await port.ask("PUT", f"/streams/{id}", {}, headers={"if-match": "*"})).status_code == 200


async def test_a_stream_moves() -> None:
    async with edge() as port:
        id = await port.made()
        reply = await port.post(f"/streams/{id}/actions/changeCompartment", {"compartmentId": OTHER})
        assert (reply.status_code, reply.content) == (200, b"") and "opc-work-request-id" in reply.headers
        shown = (await port.get(f"/streams/{id}")).json()
        assert shown["compartmentId"] == OTHER
        pool = (await port.get(f"/streampools/{shown['streamPoolId']}")).json()
        assert (pool["name"], pool["compartmentId"]) == ("DefaultPool", OTHER)


async def test_a_stream_changes_its_pool() -> None:
    async with edge() as port:
        pool = (await port.post("/streampools", {"name": "p", "compartmentId": OTHER})).json()["id"]
        id = await port.made()
        shown = (await port.ask("PUT", f"/streams/{id}", {"streamPoolId": pool})).json()
        assert (shown["streamPoolId"], shown["compartmentId"]) == (pool, OTHER)
        assert error_of(await port.ask("PUT", f"/streams/{id}", {"streamPoolId": "no"}))[0] == 404


async def test_a_delete() -> None:
    async with edge() as port:
        id = await port.made()
        reply = await port.ask("DELETE", f"/streams/{id}")
        assert (reply.status_code, reply.content) == (204, b"")
        assert {"opc-work-request-id", "opc-request-id"} <= set(reply.headers)
        assert id not in port.engine.streams
        assert (await port.get(f"/streams/{id}")).json()["lifecycleState"] == "DELETED"
        assert error_of(await port.ask("DELETE", f"/streams/{id}")) == (404, "NotAuthorizedOrNotFound")
        assert error_of(await port.ask("PUT", f"/streams/{id}", {})) == (400, "InvalidParameter")
        port.engine.time_ms += DELETED_MS
        assert error_of(await port.get(f"/streams/{id}")) == (404, "NotAuthorizedOrNotFound")
        await port.made("another")
        assert id not in port.engine.documents("stream"), "the record is gone"


async def test_lists() -> None:
    async with edge() as port:
        for name in "bac":
            port.engine.time_ms += 1
            await port.made(name)
        assert await names(port) == ["c", "a", "b"], "the latest first"
        assert await names(port, sortOrder="ASC") == ["b", "a", "c"]
        assert await names(port, sortBy="NAME") == ["a", "b", "c"]
        assert await names(port, sortBy="name", sortOrder="desc") == ["c", "b", "a"]
        assert await names(port, name="a") == ["a"]
        assert await names(port, lifecycleState="active", limit="1") == ["c"]
        assert await names(port, lifecycleState="DELETED") == []
        assert await names(port, id="ocid1.stream.oc1..no") == []
        reply = await port.get("/streams", params={"compartmentId": COMPARTMENT})
        assert "retentionInHours" not in reply.json()[0]
        pool = reply.json()[0]["streamPoolId"]
        assert len((await port.get("/streams", params={"streamPoolId": pool})).json()) == 3


async def test_pages_of_a_list() -> None:
    async with edge(OFF) as port:
        for number in range(25):
            await port.made(f"s{number:02}", 1)
        reply = await port.get("/streams", params={"compartmentId": COMPARTMENT, "sortBy": "NAME"})
        assert len(reply.json()) == 10 and "opc-prev-page" not in reply.headers
        seen = [row["name"] for row in reply.json()]
        while "opc-next-page" in reply.headers:
            query = {"compartmentId": COMPARTMENT, "sortBy": "NAME", "page": reply.headers["opc-next-page"]}
            reply = await port.get("/streams", params=query)
            seen += [row["name"] for row in reply.json()]
        assert seen == [f"s{number:02}" for number in range(25)] and "opc-prev-page" in reply.headers


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({}, "MissingParameter"),
        ({"compartmentId": "c", "streamPoolId": "p"}, "InvalidParameter"),
        ({"compartmentId": "c", "limit": "51"}, "InvalidParameter"),
        ({"compartmentId": "c", "sortBy": "SIZE"}, "InvalidParameter"),
        ({"compartmentId": "c", "sortOrder": "UP"}, "InvalidParameter"),
        ({"compartmentId": "c", "page": "x"}, "InvalidParameter"),
    ],
)
async def test_lists_that_are_refused(query: dict[str, str], code: str) -> None:
    async with edge() as port:
        assert error_of(await port.get("/streams", params=query)) == (400, code)
