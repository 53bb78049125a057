"""Tools for tests: a clock that is moved, faults that are injected, and where they are not served."""

from __future__ import annotations

import pytest

from crdtstream.oci.gateway import GatewaySettings
from crdtstream.oci.tools import OFF
from tests.oci.ports import COMPARTMENT, edge, error_of
from tests.oci.test_messages import cursor, get


async def test_the_clock_is_moved() -> None:
    async with edge() as port:
        stream = await port.made()
        old = await cursor(port, stream)
        moved = await port.client.post("/dev/clock", json={"advanceMs": 300_000})
        assert moved.json() == {"now": "2023-11-14T22:18:20.000Z", "aheadMs": 300_000}
        reply = await port.get(f"/streams/{stream}/messages", params={"cursor": old})
        assert error_of(reply) == (400, "InvalidParameter")
        await get(port, stream, await cursor(port, stream))


async def test_faults_are_injected() -> None:
    async with edge() as port:
        rules = {"rules": [{"operation": "ListStreams", "status": 503, "latencyMs": 1}]}
        assert (await port.client.post("/dev/faults", json=rules)).status_code == 204
        query = {"compartmentId": COMPARTMENT}
        assert error_of(await port.get("/streams", params=query)) == (503, "ServiceUnavailable")
        assert (await port.get("/streampools", params=query)).status_code == 200
        await port.client.post("/dev/faults", json={})
        assert (await port.get("/streams", params=query)).status_code == 200


@pytest.mark.parametrize("path", ["/dev/clock", "/dev/faults"])
async def test_they_are_off_with_real_limits(path: str) -> None:
    async with edge(GatewaySettings()) as port:
        reply = await port.client.post(path, json={"advanceMs": 1})
        assert error_of(reply) == (404, "NotFound") and reply.json()["message"] == OFF


@pytest.mark.parametrize("body", [{"advanceMs": -1}, {"advanceMs": "soon"}])
async def test_the_clock_goes_forth_alone(body: object) -> None:
    async with edge() as port:
        assert error_of(await port.client.post("/dev/clock", json=body)) == (400, "InvalidParameter")


async def test_health() -> None:
    async with edge(keys=dict) as port:
        reply = await port.client.get("/healthz")
        assert (reply.status_code, reply.json()) == (200, {"status": "ok"})
