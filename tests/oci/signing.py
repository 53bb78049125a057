"""Keys and signatures of users, and requests as the SDK signs them."""

from __future__ import annotations

import base64
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from crdtstream.oci.keys import fingerprint
from crdtstream.oci.signatures import SignedRequest, signing_string

TENANCY = "ocid1.tenancy.oc1..devtenancy"
USER = "ocid1.user.oc1..devuser"


def private_key(number: int = 0) -> RSAPrivateKey:
    return made()[number]


@cache
def made() -> list[RSAPrivateKey]:
    """Once, because that takes a while."""
    return [generate_private_key(65537, 2048) for _ in range(2)]


def private_pem(number: int = 0) -> str:
    key = private_key(number)
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()).decode()


def public_pem(number: int = 0) -> str:
    key = private_key(number).public_key()
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def key_id(number: int = 0) -> str:
    return f"{TENANCY}/{USER}/{fingerprint(private_key(number).public_key())}"


def sdk_config(number: int = 0) -> dict[str, Any]:
    """What a user has in ~/.oci/config."""
    return {
        "user": USER,
        "tenancy": TENANCY,
        "fingerprint": fingerprint(private_key(number).public_key()),
        "region": "us-ashburn-1",
        "key_content": private_pem(number),
    }


def signed_by_sdk(method: str, url: str, body: str | None = None, operation: str = "") -> SignedRequest:
    """The request that the SDK's signer makes of this one, read as the gateway reads it."""
    signer_of = pytest.importorskip("oci.signer").Signer
    requests = pytest.importorskip("requests")
    config = sdk_config()
    signer = signer_of(
        config["tenancy"], config["user"], config["fingerprint"], None, private_key_content=private_pem()
    )
    request = requests.Request(method, url, data=body, headers={"content-type": "application/json"}).prepare()
    if operation == "PutMessages":
        signer.without_content_headers(request)
    else:
        signer(request)
    headers = {name.lower(): value for name, value in request.headers.items()}
    return SignedRequest(method, request.path_url, headers, (body or "").encode(), operation)


def signed_by_hand(request: SignedRequest, names: str, template: str, number: int = 0) -> SignedRequest:
    """With an Authorization of any shape: `{names}` and `{signature}` are filled in."""
    data = signing_string(request, names.lower().split())
    signature = base64.b64encode(private_key(number).sign(data, PKCS1v15(), SHA256())).decode()
    authorization = template.format(names=names, signature=signature, key=key_id(number))
    return replace(request, headers={**request.headers, "authorization": authorization})
