"""Signatures as the SDK makes them are accepted; whatever was changed afterwards is not."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace
from email.utils import formatdate, parsedate_to_datetime

import pytest

from crdtstream.oci.errors import OciError
from crdtstream.oci.signatures import SKEW_MS_MAX, SignedRequest, verify
from tests.oci.signing import key_id, private_key, signed_by_hand, signed_by_sdk

URL = "http://127.0.0.1:1/20180418/streams/ocid1.stream.oc1..s"
GET = ("GET", f"{URL}/messages?cursor=a%2Bb%3D%3D&limit=10")
POST = ("POST", f"{URL}/cursors", '{"partition": "0", "type": "LATEST"}')
NOW_MS = 1_795_213_370_000
KEYS = {key_id(): private_key().public_key()}
# As the TypeScript SDK writes it.
TYPESCRIPT = 'Signature version="1",keyId="{key}",algorithm="rsa-sha256",headers="{names}",signature="{signature}"'
PYTHON = 'Signature algorithm="rsa-sha256",headers="{names}",keyId="{key}",signature="{signature}",version="1"'
ALL = "date (request-target) host content-length content-type x-content-sha256"


def time_of(request: SignedRequest) -> int:
    return int(parsedate_to_datetime(request.headers["date"]).timestamp() * 1000)


def accepted(request: SignedRequest, skew_ms: int = 0) -> str:
    return verify(request, KEYS, time_of(request) + skew_ms)


def refused(request: SignedRequest, now_ms: int = 0) -> str:
    with pytest.raises(OciError) as refusal:
        verify(request, KEYS, now_ms or time_of(request))
    assert (refusal.value.status, refusal.value.code) == (401, "NotAuthenticated")
    return refusal.value.message.partition("incorrect: ")[2]


def with_header(request: SignedRequest, name: str, value: str) -> SignedRequest:
    return replace(request, headers={**request.headers, name: value})


def by_hand(**headers: str) -> SignedRequest:
    """A request that a test signs itself."""
    body = b"{}"
    digest = base64.b64encode(hashlib.sha256(body).digest()).decode()
    whole = {
        "date": formatdate(NOW_MS / 1000, usegmt=True),
        "host": "127.0.0.1:1",
        "content-length": str(len(body)),
        "content-type": "application/json",
        "x-content-sha256": digest,
        **headers,
    }
    return SignedRequest("POST", "/20180418/streams", whole, body)


@pytest.mark.parametrize(
    "made",
    [
        GET,
        ("DELETE", URL),
        POST,
        ("PUT", f"{URL}/groups/g", '{"type": "LATEST"}'),
        ("POST", f"{URL}/commit?cursor=c", ""),
        ("POST", f"{URL}/messages", '{"messages": []}', "PutMessages"),
    ],
)
def test_what_the_sdk_signs(made: tuple[str, ...]) -> None:
    assert accepted(signed_by_sdk(*made)) == key_id()


def test_clocks_may_differ_a_little() -> None:
    request = signed_by_sdk(*GET)
    assert accepted(request, SKEW_MS_MAX) == accepted(request, -SKEW_MS_MAX) == key_id()
    for skew_ms in (SKEW_MS_MAX + 1_000, -SKEW_MS_MAX - 1_000):
        assert refused(request, time_of(request) + skew_ms) == (
            "the header date is more than 5 minutes off: set the clock of the client"
        )


def test_a_changed_body() -> None:
    request = signed_by_sdk(*POST)
    assert "not the digest of the body" in refused(replace(request, body=request.body + b" "))


def test_a_changed_body_of_put_messages_is_not_covered() -> None:
    """As with the service: the SDKs sign it without its body."""
    request = signed_by_sdk("POST", f"{URL}/messages", "{}", "PutMessages")
    assert accepted(replace(request, body=b"other")) == key_id()
    assert "must cover content-length" in refused(replace(request, operation="CreateCursor"))


@pytest.mark.parametrize("change", ["target", "method", "host", "date", "length"])
def test_whatever_else_was_changed(change: str) -> None:
    request = signed_by_sdk(*POST)
    changed = {
        "target": replace(request, target=request.target + "?limit=1"),
        "method": replace(request, method="PUT"),
        "host": with_header(request, "host", "example.net"),
        "date": with_header(request, "date", formatdate(time_of(request) / 1000 - 1, usegmt=True)),
        "length": with_header(request, "content-length", "1"),
    }[change]
    assert refused(changed) == "the signature does not belong to this request and key"


def test_a_changed_query() -> None:
    request = signed_by_sdk(*GET)
    for target in (request.target.replace("limit=10", "limit=11"), request.target.replace("%2B", "%2b")):
        assert "does not belong" in refused(replace(request, target=target))


def test_another_key_under_a_known_name() -> None:
    request = signed_by_hand(by_hand(), ALL, PYTHON, 1)
    forged = with_header(request, "authorization", request.headers["authorization"].replace(key_id(1), key_id()))
    assert "does not belong" in refused(forged)


def test_an_unknown_key() -> None:
    assert refused(signed_by_hand(by_hand(), ALL, PYTHON, 1)) == (
        f"the key {key_id(1)!r} is not in the keys file of this region"
    )


def test_a_session_token_is_not_shown() -> None:
    request = signed_by_hand(by_hand(), ALL, PYTHON.replace("{key}", "ST$secret"))
    assert refused(request) == "the key 'ST$...' is not in the keys file of this region"
    assert verify(request, {"ST$secret": private_key().public_key()}, NOW_MS) == "ST$secret"


def test_parameters_in_another_order_and_capitals() -> None:
    names = "x-date (request-target) host Content-Type Content-Length x-content-sha256"
    request = by_hand(**{"x-date": formatdate(NOW_MS / 1000, usegmt=True)})
    assert verify(signed_by_hand(request, names, TYPESCRIPT), KEYS, NOW_MS) == key_id()


def test_the_date_that_is_signed_is_the_one_that_counts() -> None:
    late = formatdate(NOW_MS / 1000 + 3_600, usegmt=True)
    request = signed_by_hand(by_hand(**{"x-date": late}), ALL.replace("date", "x-date", 1), TYPESCRIPT)
    assert "the header x-date is more than" in refused(request, NOW_MS)
    request = signed_by_hand(by_hand(**{"x-date": late}), ALL, PYTHON)
    assert verify(request, KEYS, NOW_MS) == key_id()


@pytest.mark.parametrize("name", ALL.split())
def test_what_must_be_signed(name: str) -> None:
    names = " ".join(each for each in ALL.split() if each != name)
    assert "the signature must cover" in refused(signed_by_hand(by_hand(), names, PYTHON), NOW_MS)


def test_what_is_signed_must_be_sent() -> None:
    request = signed_by_hand(by_hand(extra="1"), f"{ALL} extra", PYTHON)
    assert verify(request, KEYS, NOW_MS) == key_id()
    headers = {name: value for name, value in request.headers.items() if name != "extra"}
    assert refused(replace(request, headers=headers), NOW_MS) == "the signed header extra was not sent"


@pytest.mark.parametrize(
    ("authorization", "text"),
    [
        ("", "must be a Signature: sign the request"),
        ("Bearer x", "must be a Signature: sign the request"),
        ("Signature ", "has no keyId"),
        ('Signature keyId="k",algorithm="rsa-sha256",headers="date"', "has no signature"),
        (PYTHON.replace("rsa-sha256", "hmac-sha256"), "must have the algorithm rsa-sha256 and version 1"),
        (PYTHON.replace('version="1"', 'version="2"'), "must have the algorithm rsa-sha256 and version 1"),
        (PYTHON.replace("{signature}", "???"), "does not belong"),
    ],
)
def test_what_is_no_signature(authorization: str, text: str) -> None:
    given = authorization.replace("{signature}", "c2ln").replace("{names}", ALL).replace("{key}", key_id())
    assert text in refused(with_header(by_hand(), "authorization", given), NOW_MS)


def test_a_date_that_is_none() -> None:
    request = signed_by_hand(by_hand(date="soon"), ALL, PYTHON)
    assert refused(request, NOW_MS) == "the header date is not a date"
