"""Stream pools: golden shapes, retry tokens, default pools, and what goes with a pool."""

from __future__ import annotations

from typing import Any

import pytest

from crdtstream.oci.registry import DAY_MS
from tests.oci.ports import COMPARTMENT, Edge, edge, error_of

OTHER = "ocid1.compartment.oc1..other"
BODY = {"name": "pool", "compartmentId": COMPARTMENT}


async def pool(port: Edge, **fields: Any) -> str:
    reply = await port.post("/streampools", {**BODY, **fields})
    assert reply.status_code == 200, reply.text
    return str(reply.json()["id"])


async def default_pool(port: Edge) -> str:
    stream = await port.made("any", 1)
    return str((await port.get(f"/streams/{stream}")).json()["streamPoolId"])


async def test_a_pool_is_created() -> None:
    async with edge() as port:
        reply = await port.post("/streampools", {**BODY, "kafkaSettings": {"numPartitions": 3}})
        assert reply.status_code == 200 and {"etag", "opc-work-request-id"} <= set(reply.headers)
        shown = reply.json()
        kafka = {"autoCreateTopicsEnable": False, "logRetentionHours": 24, "numPartitions": 3}
        assert shown == {
            **BODY,
            "id": shown["id"],
            "lifecycleState": "CREATING",
            "timeCreated": shown["timeCreated"],
            "isPrivate": False,
            "kafkaSettings": kafka,
            "customEncryptionKey": {"keyState": "NONE"},
            "freeformTags": {},
            "definedTags": {},
        }
        assert (await port.get(f"/streampools/{shown['id']}")).json() == {**shown, "lifecycleState": "ACTIVE"}
        stream = await port.made("orders", 1, compartmentId=None, streamPoolId=shown["id"])
        assert (await port.get(f"/streams/{stream}")).json()["compartmentId"] == COMPARTMENT


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"name": "p"}, "MissingParameter"),
        ({"compartmentId": "c"}, "MissingParameter"),
        ({"name": "", "compartmentId": "c"}, "InvalidParameter"),
        ({**BODY, "customEncryptionKeyDetails": {"kmsKeyId": "k"}}, "InvalidParameter"),
        ({**BODY, "privateEndpointDetails": {"subnetId": "s"}}, "InvalidParameter"),
    ],
)
async def test_pools_that_are_refused(body: Any, code: str) -> None:
    async with edge() as port:
        assert error_of(await port.post("/streampools", body)) == (400, code)


async def test_a_retry_token_makes_one_pool() -> None:
    async with edge() as port:
        token = {"opc-retry-token": "t"}
        first = (await port.post("/streampools", BODY, headers=token)).json()["id"]
        assert (await port.post("/streampools", BODY, headers=token)).json()["id"] == first
        other = await port.post("/streampools", {**BODY, "name": "other"}, headers=token)
        assert error_of(other) == (409, "InvalidatedRetryToken")
        assert await pool(port) != first
        port.engine.time_ms += DAY_MS
        assert (await port.post("/streampools", BODY, headers=token)).json()["id"] != first


async def test_an_update() -> None:
    async with edge() as port:
        id = await pool(port)
        etag = (await port.get(f"/streampools/{id}")).headers["etag"]
        reply = await port.ask("PUT", f"/streampools/{id}", {"name": "new"}, headers={"if-match": etag})
        assert reply.status_code == 200 and reply.json()["name"] == "new" and reply.headers["etag"] != etag
        stale = await port.ask("PUT", f"/streampools/{id}", {"name": "x"}, headers={"if-match": etag})
        assert error_of(stale) == (412, "NoEtagMatch")


async def test_a_delete_takes_the_streams() -> None:
    async with edge() as port:
        id = await pool(port)
        stream = await port.made("orders", 1, compartmentId=None, streamPoolId=id)
        reply = await port.ask("DELETE", f"/streampools/{id}")
        assert (reply.status_code, reply.content) == (204, b"") and "opc-work-request-id" in reply.headers
        assert (await port.get(f"/streams/{stream}")).json()["lifecycleState"] == "DELETED"
        assert (await port.get(f"/streampools/{id}")).json()["lifecycleState"] == "DELETED"
        assert error_of(await port.ask("DELETE", f"/streampools/{id}"))[0] == 404
        assert error_of(await port.ask("PUT", f"/streampools/{id}", {})) == (400, "InvalidParameter")
        refused = await port.post("/streams", {"name": "s", "partitions": 1, "streamPoolId": id})
        assert error_of(refused) == (404, "NotAuthorizedOrNotFound")


async def test_a_pool_moves_with_its_streams() -> None:
    async with edge() as port:
        id = await pool(port)
        stream = await port.made("orders", 1, compartmentId=None, streamPoolId=id)
        reply = await port.post(f"/streampools/{id}/actions/changeCompartment", {"compartmentId": OTHER})
        assert (reply.status_code, reply.content) == (200, b"")
        assert (await port.get(f"/streams/{stream}")).json()["compartmentId"] == OTHER


async def test_a_default_pool_stays() -> None:
    async with edge() as port:
        id = await default_pool(port)
        assert error_of(await port.ask("DELETE", f"/streampools/{id}")) == (400, "InvalidParameter")
        moved = await port.post(f"/streampools/{id}/actions/changeCompartment", {"compartmentId": OTHER})
        assert error_of(moved) == (400, "InvalidParameter")


async def test_lists() -> None:
    async with edge() as port:
        for name in "bac":
            port.engine.time_ms += 1
            await pool(port, name=name)
        assert error_of(await port.get("/streampools")) == (400, "MissingParameter")
        reply = await port.get("/streampools", params={"compartmentId": COMPARTMENT, "limit": 2})
        assert [row["name"] for row in reply.json()] == ["c", "a"] and "kafkaSettings" not in reply.json()[0]
        query = {"compartmentId": COMPARTMENT, "page": reply.headers["opc-next-page"]}
        assert [row["name"] for row in (await port.get("/streampools", params=query)).json()] == ["b"]
        assert (await port.get("/streampools", params={"compartmentId": OTHER})).json() == []


async def test_unknown_pools() -> None:
    async with edge() as port:
        reply = await port.get("/streampools/no")
        assert error_of(reply) == (404, "NotAuthorizedOrNotFound")
        assert reply.json()["message"] == "Unknown stream pool no."
