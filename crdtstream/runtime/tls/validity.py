"""When certificates end, read from their files: `ssl` tells this only of certificates that a peer has shown.

Of each certificate three fields are read: issuer, validity and subject of `TBSCertificate` (RFC 5280, 4.1), in DER.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

PEM = re.compile(rb"-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----([^-]+)-----END ")
VERSION, UTC_TIME, GENERALIZED_TIME = 0xA0, 0x17, 0x18
LONG_FORM = 0x80
# A year of two digits below this is of this century.
PIVOT = b"50"


class Element(NamedTuple):
    """A value of DER: its tag, and its content."""

    tag: int
    content: bytes


class Validity(NamedTuple):
    """Who signed a certificate, whose it is, and when it ends, in seconds since 1970; names are DER."""

    issuer: bytes
    subject: bytes
    ends_s: int


def chain_end_s(chain: bytes, authorities: bytes) -> int:
    """The second, since 1970, at which the first certificate of a chain ends, or the authority that signed it; PEM.

    Authorities of one name cannot be told apart, so the first of them to end counts. Raises ValueError if a certificate
    cannot be read.
    """
    own = list(validities(chain))
    if not own:
        raise ValueError("there is no certificate in it")
    signers = {each.issuer for each in own}
    above = [each for each in validities(authorities) if each.subject in signers]
    return min(each.ends_s for each in [*own, *above])


def validities(pem: bytes) -> Iterator[Validity]:
    for body in PEM.findall(pem):
        try:
            yield validity_of(base64.b64decode(body))
        except (IndexError, ValueError) as error:
            raise ValueError(f"the dates of a certificate in it cannot be read: {error}") from error


def validity_of(der: bytes) -> Validity:
    # Behind a trusted certificate stands what it is trusted for, and behind what is signed the signature.
    certificate, *_ = elements(der)
    signed, *_ = elements(certificate.content)
    fields = list(elements(signed.content))
    # Serial number, signature, issuer, validity, subject; the version stands before them, unless it is the first.
    _, _, issuer, validity, subject = fields[1:6] if fields[0].tag == VERSION else fields[:5]
    _, end = elements(validity.content)
    return Validity(issuer.content, subject.content, second_of(end))


def elements(der: bytes) -> Iterator[Element]:
    at = 0
    while at < len(der):
        tag, length, at = der[at], der[at + 1], at + 2
        if length & LONG_FORM:
            size = length ^ LONG_FORM
            length, at = int.from_bytes(der[at : at + size]), at + size
        yield Element(tag, der[at : at + length])
        at += length


def second_of(time: Element) -> int:
    if time.tag not in (UTC_TIME, GENERALIZED_TIME):
        raise ValueError(f"{time.tag:#x} is no tag of a time")
    century = b"" if time.tag == GENERALIZED_TIME else b"20" if time.content[:2] < PIVOT else b"19"
    told = datetime.strptime((century + time.content).decode("ascii"), "%Y%m%d%H%M%SZ")
    return int(told.replace(tzinfo=UTC).timestamp())
