"""Signatures of requests: draft-cavage-http-signatures-08 as OCI uses it, "Signature version 1".

The signing string has one line for each signed header, `<name>: <value>`, without a line end after the last one.
`(request-target)` is the method in lower case and the path with its query as they were sent. Verification is pure: the
request, the keys and the time are arguments. PutMessages is signed as a request without a body, as the SDKs do.
Reference: OCI's documentation, "Request Signatures".
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256

from crdtstream.oci.errors import not_authenticated

SCHEME: Final = "Signature "
PARAMETER: Final = re.compile(r'(\w+)="([^"]*)"')
TARGET: Final = "(request-target)"
DATES: Final = ("x-date", "date")
BODY_HEADERS: Final = ("content-length", "content-type", "x-content-sha256")
BODY_METHODS: Final = ("POST", "PUT", "PATCH")
DIGEST: Final = "x-content-sha256"
SKEW_MS_MAX: Final = 5 * 60 * 1000


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """A request as it was sent: `target` is the path with its query, header names are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    operation: str = ""


def verify(request: SignedRequest, keys: Mapping[str, RSAPublicKey], now_ms: int) -> str:
    """Return the key ID that signed the request; raises OciError, status 401."""
    parameters = parameters_of(request.headers.get("authorization", ""))
    signed = parameters["headers"].lower().split()
    require_headers(request, signed)
    require_recent(request, signed, now_ms)
    if DIGEST in signed:
        require_digest(request)
    key = keys.get(parameters["keyId"])
    if key is None:
        raise not_authenticated(f"the key {shortened(parameters['keyId'])!r} is not in the keys file of this region")
    try:
        signature = base64.b64decode(parameters["signature"], validate=True)
        key.verify(signature, signing_string(request, signed), PKCS1v15(), SHA256())
    except (InvalidSignature, binascii.Error, ValueError) as error:
        raise not_authenticated("the signature does not belong to this request and key") from error
    return parameters["keyId"]


def parameters_of(authorization: str) -> dict[str, str]:
    """In any order; raises OciError if one is missing or of another version."""
    if not authorization.startswith(SCHEME):
        raise not_authenticated("the header Authorization must be a Signature: sign the request")
    parameters = dict(PARAMETER.findall(authorization))
    for name in ("keyId", "algorithm", "headers", "signature"):
        if not parameters.get(name):
            raise not_authenticated(f"the header Authorization has no {name}")
    if parameters["algorithm"] != "rsa-sha256" or parameters.get("version", "1") != "1":
        raise not_authenticated("the signature must have the algorithm rsa-sha256 and version 1")
    return parameters


def require_headers(request: SignedRequest, signed: list[str]) -> None:
    if not any(name in signed for name in DATES):
        raise not_authenticated("the signature must cover date or x-date")
    body = BODY_HEADERS if request.method in BODY_METHODS and request.operation != "PutMessages" else ()
    for name in (TARGET, "host", *body):
        if name not in signed:
            raise not_authenticated(f"the signature must cover {name}")
    for name in signed:
        if name != TARGET and name not in request.headers:
            raise not_authenticated(f"the signed header {name} was not sent")


def require_recent(request: SignedRequest, signed: list[str], now_ms: int) -> None:
    name = next(name for name in DATES if name in signed)
    try:
        date = parsedate_to_datetime(request.headers[name])
    except ValueError as error:
        raise not_authenticated(f"the header {name} is not a date") from error
    sent_ms = int((date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() * 1000)
    if abs(now_ms - sent_ms) > SKEW_MS_MAX:
        raise not_authenticated(f"the header {name} is more than 5 minutes off: set the clock of the client")


def require_digest(request: SignedRequest) -> None:
    digest = base64.b64encode(hashlib.sha256(request.body).digest()).decode()
    if not hmac.compare_digest(digest.encode(), request.headers[DIGEST].encode("utf-8", "replace")):
        raise not_authenticated(f"the header {DIGEST} is not the digest of the body")


def signing_string(request: SignedRequest, signed: list[str]) -> bytes:
    target = f"{request.method.lower()} {request.target}"
    lines = [f"{name}: {target if name == TARGET else request.headers[name]}" for name in signed]
    return "\n".join(lines).encode("latin-1", "replace")


def shortened(key_id: str) -> str:
    """A session token is a secret as long as it lasts, so it is not shown."""
    return "ST$..." if key_id.startswith("ST$") else key_id
