"""The HTTP application: reads a request, checks its signature, injects faults, calls the handler, and words errors.

Every response names its request, also an error and one without a body: `opc-request-id` is `<client's id>/<32 hex>/<32
hex>`. The API lies below `/20180418`, and for clients without a base path also at the root.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import structlog
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from fastapi import FastAPI, Request, Response
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from crdtstream.oci.calls import Call, GatewayReply
from crdtstream.oci.errors import OciError, error_of, internal, invalid
from crdtstream.oci.gateway import Gateway
from crdtstream.oci.routes import ROUTES, Route
from crdtstream.oci.signatures import SignedRequest, verify
from crdtstream.oci.usage import UNROUTED
from crdtstream.partitions.values import Refused
from crdtstream.settings.config import is_loopback

BASE_PATH: Final = "/20180418"
REQUEST_ID: Final = "opc-request-id"
CLIENT_ID_CHARACTERS_MAX: Final = 128
# Base64 and JSON around the largest request, with room for many small messages; it also bounds memory.
BODY_BYTES_MAX: Final = 16 << 20

KeySource = Callable[[], Mapping[str, RSAPublicKey]]
Endpoint = Callable[[Request], Awaitable[Response]]

logger = structlog.get_logger()


def make_app(gateway: Gateway, keys: KeySource | None) -> FastAPI:
    """`keys` gives the keys that are accepted now; without it every signature, or none, is."""
    app = FastAPI(openapi_url=None, redirect_slashes=False)
    for route in ROUTES:
        endpoint = endpoint_of(gateway, route, keys)
        for base in (BASE_PATH, "") if route.signed else ("",):
            app.add_api_route(
                base + route.path, endpoint, methods=[route.method], name=route.operation, response_model=None
            )
    app.add_exception_handler(HTTPException, unrouted_by(gateway))
    app.add_middleware(RequestIds, random_bytes=gateway.random_bytes)
    return app


def endpoint_of(gateway: Gateway, route: Route, keys: KeySource | None) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        with gateway.usage.timed(route.operation):
            response = await response_to(gateway, route, keys, request)
        gateway.usage.record_answer(route.operation, response.status_code)
        return response

    return endpoint


async def response_to(gateway: Gateway, route: Route, keys: KeySource | None, request: Request) -> Response:
    try:
        return response_of(await answered(gateway, route, keys, request))
    except OciError as error:
        return error_response(error)
    except Refused as refusal:
        return error_response(error_of(refusal))
    except Exception as error:
        logger.exception("oci-call-failed", operation=route.operation)
        return error_response(internal(type(error).__name__))


async def answered(gateway: Gateway, route: Route, keys: KeySource | None, request: Request) -> GatewayReply:
    if keys is None:
        require_local(request)
    body = await body_of(request)
    if keys is not None and route.signed:
        verify(signed_request(request, body, route.operation), keys(), gateway.engine.now_ms())
    fault = gateway.faults.draw(route.operation) if route.signed else None
    if fault is not None:
        await asyncio.sleep(fault.latency_ms / 1000)
        if fault.error is not None:
            raise fault.error
    return await route.handler(gateway, call_of(request, body))


def require_local(request: Request) -> None:
    """Without keys, a page that a browser on this machine shows must not reach the gateway; raises OciError."""
    if "origin" in request.headers or not is_loopback(request.url.hostname or ""):
        text = "in development mode the gateway serves programs on this machine: call 127.0.0.1, or give --oci-keys"
        raise OciError(403, "NotAuthorized", text)


async def body_of(request: Request) -> bytes:
    """Raises OciError for one that is too large, before all of it was read."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            raise invalid(f"the body has more than {BODY_BYTES_MAX} bytes: send fewer messages at once")
    return bytes(body)


def call_of(request: Request, body: bytes) -> Call:
    url = f"{request.url.scheme}://{request.url.netloc}"
    return Call(request.path_params, request.query_params, request.headers, body, url)


def signed_request(request: Request, body: bytes, operation: str) -> SignedRequest:
    """The path and query as they were sent: the signature covers their encoding."""
    scope = request.scope
    query = scope["query_string"]
    target = scope["raw_path"] + (b"?" + query if query else b"")
    headers: dict[str, str] = {}
    for name, value in request.headers.items():
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return SignedRequest(request.method, target.decode("latin-1"), headers, body, operation)


def response_of(reply: GatewayReply) -> Response:
    media = "application/json" if reply.body else None
    return Response(reply.body, reply.status, reply.headers, media)


def error_response(error: OciError) -> Response:
    body = json.dumps({"code": error.code, "message": error.message}).encode()
    return Response(body, error.status, media_type="application/json")


def unrouted_by(gateway: Gateway) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def unrouted(request: Request, error: Exception) -> Response:
        response = unrouted_response(request, error)
        gateway.usage.record_answer(UNROUTED, response.status_code)
        return response

    return unrouted


def unrouted_response(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException) and error.status_code == 405:
        text = f"{request.method} is not allowed for {request.url.path}: see the API of OCI Streaming"
        response = error_response(OciError(405, "MethodNotAllowed", text))
        response.headers.update(error.headers or {})
        return response
    text = f"nothing is served at {request.url.path}: the API of OCI Streaming is below {BASE_PATH}"
    return error_response(OciError(404, "NotFound", text))


class RequestIds:
    """Add the request ID to every response, and normalise the path."""

    def __init__(self, app: ASGIApp, random_bytes: Callable[[int], bytes]) -> None:
        self._app = app
        self._random_bytes = random_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        id = self._id(scope)
        # The SDK doubles the slash of an endpoint that ends in one; a signature covers the raw path, which stays.
        scope["path"] = "/" + scope["path"].lstrip("/")

        async def send_named(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[REQUEST_ID] = id
            await send(message)

        await self._app(scope, receive, send_named)

    def _id(self, scope: Scope) -> str:
        given = dict(scope["headers"]).get(REQUEST_ID.encode(), b"")[:CLIENT_ID_CHARACTERS_MAX].decode("latin-1")
        return "/".join((given or self._hex(), self._hex(), self._hex()))

    def _hex(self) -> str:
        return self._random_bytes(16).hex().upper()
