"""The edge itself: routes, request IDs, signatures, and what is answered when something is wrong."""

from __future__ import annotations

import re
from email.utils import parsedate_to_datetime

import httpx
import pytest

from crdtstream.oci import app
from crdtstream.oci.app import make_app
from crdtstream.oci.gateway import Gateway
from crdtstream.oci.routes import ROUTES
from crdtstream.partitions.values import UNREACHABLE, Refused
from tests.oci.fake_engine import FakeEngine
from tests.oci.ports import COMPARTMENT, OFF, bytes_from, edge, error_of
from tests.oci.signing import key_id, private_key, signed_by_sdk

QUERY = {"compartmentId": COMPARTMENT}
REQUEST_ID = re.compile(r"[0-9A-F]{32}/[0-9A-F]{32}/[0-9A-F]{32}")


async def test_request_ids() -> None:
    async with edge() as port:
        given = "82E83AB625684E1DAE9DF2D68DD45BEE"
        for path in ("/streams?compartmentId=c", "/streams", "/nothing"):
            named = await port.get(path, headers={"opc-request-id": given})
            assert named.headers["opc-request-id"].startswith(f"{given}/")
            assert REQUEST_ID.fullmatch(named.headers["opc-request-id"])
            assert REQUEST_ID.fullmatch((await port.get(path)).headers["opc-request-id"])


async def test_with_and_without_the_version() -> None:
    async with edge() as port:
        for path in ("/20180418/streams", "/streams"):
            assert (await port.client.get(path, params=QUERY)).json() == []


async def test_what_is_not_served() -> None:
    async with edge() as port:
        assert error_of(await port.get("/nothing")) == (404, "NotFound")
        assert error_of(await port.get("/streams/")) == (404, "NotFound")
        assert error_of(await port.client.get("/20180418/healthz")) == (404, "NotFound")
        reply = await port.ask("PATCH", "/streams")
        assert error_of(reply) == (405, "MethodNotAllowed") and "allow" in reply.headers
        for method, path in (("GET", ""), ("POST", ""), ("DELETE", "/x"), ("POST", "/x/actions/changeCompartment")):
            reply = await port.ask(method, f"/connectharnesses{path}")
            assert error_of(reply) == (404, "NotFound") and "Kafka Connect" in reply.json()["message"]


@pytest.mark.parametrize("headers", [{"origin": "https://example.net"}, {"host": "example.net"}, {"origin": "null"}])
async def test_a_web_page_is_refused_without_keys(headers: dict[str, str]) -> None:
    async with edge() as port:
        body = {"name": "n", "partitions": 1, "compartmentId": COMPARTMENT}
        assert error_of(await port.post("/streams", body, headers=headers)) == (403, "NotAuthorized")
        assert not port.engine.streams
        assert (await port.get("/streams", params=QUERY, headers={"host": "localhost:7301"})).status_code == 200


async def test_what_may_succeed_later_is_503() -> None:
    async with edge() as port:
        stream = await port.made()
        port.engine.refusal = Refused(UNREACHABLE, "the home cannot be reached")
        reply = await port.get(f"/streams/{stream}/groups/g")
        assert error_of(reply) == (503, "ServiceUnavailable")
        reply = await port.post("/streams", {"name": "n", "partitions": 1, "compartmentId": COMPARTMENT})
        assert error_of(reply) == (503, "ServiceUnavailable")


async def test_a_mistake_of_ours_is_500_and_logged(capsys: pytest.CaptureFixture[str]) -> None:
    class Broken(FakeEngine):
        def documents(self, kind: str) -> dict[str, bytes]:
            raise ZeroDivisionError

    gateway = Gateway(Broken(), OFF, bytes_from())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(make_app(gateway, None))) as client:
        reply = await client.get("http://127.0.0.1:1/streams", params=QUERY)
    assert error_of(reply) == (500, "InternalServerError")
    assert reply.json()["message"] == "internal error: ZeroDivisionError; see the log of this region"
    assert "oci-call-failed" in capsys.readouterr().out


async def test_a_body_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "BODY_BYTES_MAX", 10)
    async with edge() as port:
        assert error_of(await port.post("/streams", {"name": "much too long"})) == (400, "InvalidParameter")


async def test_signatures_are_demanded_where_keys_are_given() -> None:
    keys = {key_id(): private_key().public_key()}
    async with edge(keys=lambda: keys) as port:
        assert error_of(await port.get("/streams", params=QUERY)) == (401, "NotAuthenticated")
        url = f"http://127.0.0.1:1/20180418/streams?compartmentId={COMPARTMENT}&name=a%2Bb%3D%2F"
        signed = signed_by_sdk("GET", url)
        port.engine.time_ms = int(app_time(signed.headers["date"]))
        assert (await port.client.get(url, headers=dict(signed.headers))).status_code == 200
        tampered = await port.client.get(url.replace("a%2Bb", "a%2Bc"), headers=dict(signed.headers))
        assert error_of(tampered) == (401, "NotAuthenticated")


def app_time(date: str) -> float:
    return parsedate_to_datetime(date).timestamp() * 1000


def test_every_operation_of_the_sdk_has_a_route() -> None:
    """By the paths that the SDK's clients name."""
    oci = pytest.importorskip("oci")
    named = set()
    for client in (oci.streaming.StreamClient, oci.streaming.StreamAdminClient):
        named |= {name for name in vars(client) if not name.startswith(("_", "get_subclass"))}
    operations = {re.sub(r"(?<!^)(?=[A-Z])", "_", route.operation).lower() for route in ROUTES}
    assert named - operations == set()
    assert operations - named == {"health", "move_clock", "inject_faults"}
