"""The handshake before a link: each side names its region and proves that it knows the shared secret.

The handshake uses gRPC metadata in both directions, so nothing that a stranger sends reaches the node. Each side sends
its region number and a nonce. If the answering side has a secret, it adds its proof, and the dialler's first envelope
is a proof as well. The rules are in replication/links/authorisation.py.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable, Sequence
from urllib.parse import unquote

import grpc.aio

from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication.links.authorisation import (
    ANSWERER,
    DIALLER,
    NONCE_BYTES,
    Caller,
    Rules,
    claimed_region,
    prove,
    proves,
)
from crdtstream.runtime.links.link import LOST
from crdtstream.settings.config import Config, is_loopback
from crdtstream.settings.secrets import replication_secret

REGION_KEY = "crdtstream-region"
NONCE_KEY = "crdtstream-nonce-bin"
PROOF_KEY = "crdtstream-proof-bin"

Metadata = list[tuple[str, str | bytes]]
HandshakeContext = grpc.aio.ServicerContext[wire.Envelope, wire.Envelope]
HandshakeCall = grpc.aio.StreamStreamCall[wire.Envelope, wire.Envelope]


class HandshakeRefused(Exception):
    """The link is refused; the text says why and what to do."""


class Answers:
    """The region that answers at each configured address, once reached; `seek` makes the diallers try the
    others now.
    """

    def __init__(self, peers: Sequence[str], seek: Callable[[], None]) -> None:
        self._unknown = set(peers)
        self._regions: dict[str, int] = {}
        self._seek = seek
        self._changed = asyncio.Event()

    def follow(self, peers: Sequence[str]) -> None:
        """These are the configured addresses from now on."""
        self._regions = {peer: region for peer, region in self._regions.items() if peer in peers}
        self._unknown = set(peers) - self._regions.keys()
        self._notify()

    def record(self, address: str, region: int) -> None:
        """Note an answer, unless the address was removed meanwhile."""
        if address in self._unknown or address in self._regions:
            self._regions[address] = region
            self._unknown.discard(address)
            self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def include(self, region: int) -> bool:
        """Return whether that region answers at one of the addresses; waits while some have not been reached yet."""
        while region not in self._regions.values():
            if not self._unknown:
                return False
            changed = self._changed
            self._seek()
            await changed.wait()
        return True


class Said:
    """The content of one side's metadata."""

    __slots__ = ("nonce", "proof", "region")

    def __init__(self, metadata: Iterable[tuple[str, str | bytes]] | None) -> None:
        found = dict(metadata or ())
        self.nonce = _bytes(found.get(NONCE_KEY))
        self.region = claimed_region(_text(found.get(REGION_KEY)), self.nonce)
        self.proof = _bytes(found.get(PROOF_KEY))


class Handshake:
    """Performs either side of the handshake for one region."""

    def __init__(self, config: Config, answers: Answers) -> None:
        self._region = config.region
        self._name = config.name
        self._secret = replication_secret(config)
        self._rules = Rules(config.name, bool(config.tls_certificate), config.allowed_regions, self._secret)
        # Other shards of this region, which no list of regions names.
        self._siblings = Rules(config.name, bool(config.tls_certificate), (), self._secret)
        self._trusts = config.insecure_replication
        self._answers = answers

    # The answering side

    async def admit(self, context: HandshakeContext) -> int:
        """Return the region that dialled; raises Refused."""
        caller = await self._identify(context)
        objection = self._rules.objection(caller)
        if objection is not None and not await self._is_neighbour(host_of(context.peer()), caller.region):
            raise HandshakeRefused(objection)
        return caller.region

    async def admit_sibling(self, context: HandshakeContext) -> None:
        """Raise Refused unless another shard of this region dialled."""
        caller = await self._identify(context)
        if caller.region != self._region:
            raise HandshakeRefused(f"region {caller.region} dialled, and only shards of region {self._name} may")
        if self._siblings.tls or self._siblings.secret:
            objection = self._siblings.objection(caller)
        elif self._trusts or is_loopback(host_of(context.peer())):
            objection = None
        else:
            objection = f"a shard of region {self._name} on another machine needs TLS, or --insecure-replication"
        if objection is not None:
            raise HandshakeRefused(objection)

    async def _identify(self, context: HandshakeContext) -> Caller:
        """Introduce this region to the caller, and find who that is."""
        caller = Said(context.invocation_metadata())
        nonce = secrets.token_bytes(NONCE_BYTES)
        regions, nonces = (caller.region, self._region), (caller.nonce, nonce)
        metadata = self._introduction(nonce)
        if self._secret and caller.region:
            metadata.append((PROOF_KEY, prove(self._secret, ANSWERER, regions, nonces)))
        # Sent separately: together with the first message they could still be in flight when the handler returns, and
        # gRPC would then send them again.
        await context.send_initial_metadata(metadata)
        proven = False
        if self._secret and caller.region:
            proven = proves(await _read_proof(context), self._secret, DIALLER, regions, nonces)
        return Caller(caller.region, _certificate_names(context), proven)

    async def _is_neighbour(self, host: str, region: int) -> bool:
        """True if both are on loopback and configured as peers of each other; the caller dialled, so it has this
        region's address.
        """
        return region != 0 and is_loopback(host) and await self._answers.include(region)

    # The dialling side

    def begin(self) -> tuple[Metadata, bytes]:
        """Return the metadata of a call and the nonce in it."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        return self._introduction(nonce), nonce

    async def complete(self, call: HandshakeCall, address: str, nonce: bytes) -> int:
        """Return the region that answers, after proving the secret if it asks for that. Raises Refused."""
        answerer = Said(await call.initial_metadata())
        if not answerer.region:
            await call.read()  # raises what ended the call, if anything did
            raise HandshakeRefused("the peer does not name its region: run compatible versions of crdtstream")
        self._answers.record(address, answerer.region)
        if answerer.proof:
            await self._exchange_proofs(call, answerer, nonce)
        return answerer.region

    async def _exchange_proofs(self, call: HandshakeCall, answerer: Said, nonce: bytes) -> None:
        regions, nonces = (self._region, answerer.region), (nonce, answerer.nonce)
        if self._secret and not proves(answerer.proof, self._secret, ANSWERER, regions, nonces):
            raise HandshakeRefused(
                f"region {answerer.region} does not share the replication secret of region {self._name}: give both the"
                " same --replication-secret-file"
            )
        proof = prove(self._secret, DIALLER, regions, nonces) if self._secret else b""
        await call.write(wire.Envelope(proof=proof))

    def _introduction(self, nonce: bytes) -> Metadata:
        return [(REGION_KEY, str(self._region)), (NONCE_KEY, nonce)]


async def _read_proof(context: HandshakeContext) -> bytes:
    try:
        envelope: object = await context.read()
    except LOST:
        raise
    except Exception as error:
        raise HandshakeRefused(f"the first message is not an envelope: {error}") from error
    return envelope.proof if isinstance(envelope, wire.Envelope) else b""


def _certificate_names(context: HandshakeContext) -> list[str]:
    """The common name and alternative names of the verified certificate; empty without TLS."""
    found = context.auth_context()
    names = [*found.get("x509_common_name", ()), *found.get("x509_subject_alternative_name", ())]
    return [name.decode("utf-8", "replace") for name in names]


def host_of(peer: str) -> str:
    """Return the host of an address such as `ipv4:10.0.0.1:5432`; the port differs with each connection."""
    return unquote(peer.partition(":")[2].rpartition(":")[0]).strip("[]")


def port_of(peer: str) -> int:
    """Return the port of such an address; 0 where there is none."""
    port = peer.rpartition(":")[2]
    return int(port) if port.isdigit() else 0


def _text(value: str | bytes | None) -> str:
    return value if isinstance(value, str) else ""


def _bytes(value: str | bytes | None) -> bytes:
    return value if isinstance(value, bytes) else b""
