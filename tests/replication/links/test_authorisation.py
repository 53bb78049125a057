"""Which callers are let in by which means, and what proofs are bound to."""

from __future__ import annotations

import re

import pytest

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

SECRET = b"a secret that regions share"
REGIONS = (1, 2)
NONCES = (b"a" * NONCE_BYTES, b"b" * NONCE_BYTES)


def rules(tls: bool = False, allowed: tuple[int, ...] = (), secret: bytes = b"") -> Rules:
    return Rules("east", tls, allowed, secret)


@pytest.mark.parametrize(
    ("judge", "caller", "reason"),
    [
        (rules(), Caller(2), "has no way to authenticate region 2: start east with --allow-region 2"),
        (rules(allowed=(2,)), Caller(2), None),
        (rules(allowed=(3,)), Caller(2), "east does not allow region 2: start east with --allow-region 2"),
        (rules(secret=SECRET), Caller(2, proven=True), None),
        (rules(secret=SECRET), Caller(2), "did not prove the replication secret"),
        (rules(tls=True), Caller(2, ["west", "region-2"]), None),
        (rules(tls=True), Caller(2, ["west", "region-3"]), "names west, region-3: region east requires .* region-2,"),
        (rules(tls=True), Caller(2), "names nothing"),
        (rules(tls=True, allowed=(3,)), Caller(2, ["region-2"]), "does not allow region 2"),
        (rules(allowed=(2,), secret=SECRET), Caller(2), "did not prove"),
        (rules(allowed=(2,), secret=SECRET), Caller(2, proven=True), None),
        (rules(allowed=(2,)), Caller(0), "does not name its region"),
    ],
)
def test_each_means_that_is_there_is_asked_for(judge: Rules, caller: Caller, reason: str | None) -> None:
    objection = judge.objection(caller)
    if reason is None:
        assert objection is None
    else:
        assert objection is not None
        assert re.search(reason, objection), objection


def test_a_proof_is_taken_from_its_maker_for_these_regions_and_nonces_alone() -> None:
    proof = prove(SECRET, DIALLER, REGIONS, NONCES)
    assert proves(proof, SECRET, DIALLER, REGIONS, NONCES)
    assert not proves(proof, SECRET, ANSWERER, REGIONS, NONCES), "it could be sent back"
    assert not proves(proof, SECRET, DIALLER, (3, 2), NONCES), "it could be another region's"
    assert not proves(proof, SECRET, DIALLER, (1, 3), NONCES), "it could be passed on"
    assert not proves(proof, SECRET, DIALLER, REGIONS, (NONCES[0], b"c" * NONCE_BYTES)), "it could be repeated"
    assert not proves(proof, SECRET, DIALLER, REGIONS, (NONCES[1], NONCES[0]))
    assert not proves(proof, b"another", DIALLER, REGIONS, NONCES)
    assert not proves(b"", SECRET, DIALLER, REGIONS, NONCES)


@pytest.mark.parametrize(
    ("text", "nonce", "region"),
    [
        ("7", NONCES[0], 7),
        ("255", NONCES[0], 255),
        ("256", NONCES[0], 0),
        ("0", NONCES[0], 0),
        ("", NONCES[0], 0),
        ("-1", NONCES[0], 0),
        ("seven", NONCES[0], 0),
        ("\u0667", NONCES[0], 0),
        ("9" * 5_000, NONCES[0], 0),
        ("7", b"short", 0),
    ],
)
def test_a_claim_that_cannot_be_judged_is_none(text: str, nonce: bytes, region: int) -> None:
    assert claimed_region(text, nonce) == region
