"""Which regions may dial in; checked before anything they send reaches the node.

A region that answers at a configured peer's address is trusted, because the operator named that address. A region that
dials in must pass every check that this region has configured: its certificate names it (`region-N`), its number is on
the list of allowed regions, it proves the shared secret. If this region has none of them configured, no region may dial
in. The one exception: both are on loopback and are configured as each other's peers, as on a developer's machine.

A proof covers both regions, both nonces and the side that makes it, so it can be neither replayed nor reflected.

Reference: RFC 2104 (HMAC); challenge and response as in SCRAM (RFC 5802), where both sides prove the key.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence

from crdtstream.core.values.causality import REGION_MAX

NONCE_BYTES = 32
DIALLER = b"dialler"
ANSWERER = b"answerer"
CERTIFICATE_PREFIX = "region-"


def prove(secret: bytes, side: bytes, regions: tuple[int, int], nonces: tuple[bytes, bytes]) -> bytes:
    """Return the proof that only a holder of the secret can make; regions and nonces are the dialler's, then the
    answerer's.
    """
    text = b"crdtstream replication 1 %b %d %d " % (side, regions[0], regions[1])
    return hmac.digest(secret, text + nonces[0] + nonces[1], "sha256")


def proves(proof: bytes, secret: bytes, side: bytes, regions: tuple[int, int], nonces: tuple[bytes, bytes]) -> bool:
    return hmac.compare_digest(proof, prove(secret, side, regions, nonces))


def claimed_region(text: str, nonce: bytes) -> int:
    """Return the region that a stream claims to come from; 0 if the claim is malformed."""
    sound = text.isascii() and text.isdigit() and len(text) <= 3 and len(nonce) == NONCE_BYTES
    return int(text) if sound and int(text) <= REGION_MAX else 0


class Caller:
    """A region that dials in: the number that it claims, the names in its certificate, and whether it proved the
    secret.
    """

    __slots__ = ("certificate_names", "proven", "region")

    def __init__(self, region: int, certificate_names: Sequence[str] = (), proven: bool = False) -> None:
        self.region = region
        self.certificate_names = certificate_names
        self.proven = proven


class Rules:
    """The checks that this region has configured for regions that dial in."""

    __slots__ = ("allowed", "name", "secret", "tls")

    def __init__(self, name: str, tls: bool, allowed: Sequence[int], secret: bytes) -> None:
        self.name = name
        self.tls = tls
        self.allowed = frozenset(allowed)
        self.secret = secret

    def objection(self, caller: Caller) -> str | None:
        """Return why this caller is rejected and what to do about it, or None if it is accepted."""
        region = caller.region
        if not region:
            return f"the stream does not name its region: run a version compatible with region {self.name}"
        if self.tls and f"{CERTIFICATE_PREFIX}{region}" not in caller.certificate_names:
            return self._wrong_certificate(caller)
        if self.allowed and region not in self.allowed:
            return (
                f"region {self.name} does not allow region {region}: start {self.name} with --allow-region {region}"
                " in addition to its present ones"
            )
        if self.secret and not caller.proven:
            return (
                f"region {region} did not prove the replication secret of region {self.name}: give both the same"
                " --replication-secret-file"
            )
        if not (self.tls or self.allowed or self.secret):
            return (
                f"region {self.name} has no way to authenticate region {region}: start {self.name} with --allow-region"
                f" {region}, or both with the same --replication-secret-file or with TLS; on loopback it suffices that"
                " each is a --peer of the other"
            )
        return None

    def _wrong_certificate(self, caller: Caller) -> str:
        wanted = f"{CERTIFICATE_PREFIX}{caller.region}"
        names = ", ".join(caller.certificate_names) or "nothing"
        return (
            f"the certificate of region {caller.region} names {names[:200]}: region {self.name} requires one that names"
            f" {wanted}, as DNS name or common name"
        )
