"""Work requests: one for each change, in lists with pages."""

from __future__ import annotations

from crdtstream.oci.registry import WORK_REQUEST_MS
from tests.oci.ports import COMPARTMENT, edge, error_of


async def test_what_a_change_left() -> None:
    async with edge() as port:
        stream = await port.made()
        deleted = (await port.ask("DELETE", f"/streams/{stream}")).headers["opc-work-request-id"]
        shown = (await port.get(f"/workRequests/{deleted}")).json()
        resource = {"entityType": "stream", "actionType": "DELETED", "identifier": stream}
        assert shown["resources"] == [resource]
        assert (shown["operationType"], shown["status"], shown["percentComplete"]) == (
            "DELETE_STREAM",
            "SUCCEEDED",
            100.0,
        )
        assert (await port.get(f"/workRequests/{deleted}/errors")).json() == {"items": []}
        logs = (await port.get(f"/workRequests/{deleted}/logs")).json()["items"]
        assert [row["message"] for row in logs] == ["DELETE_STREAM SUCCEEDED"]


async def test_lists() -> None:
    async with edge() as port:
        one, two = await port.made("one"), await port.made("two")
        whole = (await port.get("/workRequests", params={"compartmentId": COMPARTMENT})).json()["items"]
        assert sorted(row["resources"][0]["identifier"] for row in whole) == sorted([one, two])
        of_one = (await port.get("/workRequests", params={"resourceId": one})).json()["items"]
        assert [row["resources"][0]["identifier"] for row in of_one] == [one]
        first = await port.get("/workRequests", params={"compartmentId": COMPARTMENT, "limit": 1})
        query = {"compartmentId": COMPARTMENT, "page": first.headers["opc-next-page"]}
        rest = await port.get("/workRequests", params=query)
        assert first.json()["items"] + rest.json()["items"] == whole
        assert error_of(await port.get("/workRequests")) == (400, "MissingParameter")


async def test_they_are_forgotten() -> None:
    async with edge() as port:
        await port.made("one")
        (id,) = port.engine.documents("workrequest")
        port.engine.time_ms += WORK_REQUEST_MS
        assert error_of(await port.get(f"/workRequests/{id}")) == (404, "NotAuthorizedOrNotFound")
        await port.made("two")
        assert id not in port.engine.documents("workrequest")
