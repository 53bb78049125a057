"""Digests of several regions, compared where they can be: between regions that have applied the same effects.

Regions take writes at different moments, so digests that differ mean nothing by themselves. Where the vectors are equal
they must be equal; elsewhere they are asked again, a few times.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass

from crdtstream.observing.asking import RegionAnswer, Words
from crdtstream.observing.info import Vector, fields_of_info, vector_of
from crdtstream.observing.reading import RedisPorts

EQUAL, DIFFERENT, UNDECIDED = "equal", "different", "undecided"
PAUSE_S = 0.1
PATIENCE_S = 1.5
QUESTIONS: tuple[Words, ...] = (("INFO", "replication"), ("CRDT.DIGEST",), ("INFO", "replication"))


@dataclass(frozen=True)
class RegionDigest:
    """One region's digest, and what it had applied; no vector if that changed meanwhile."""

    digest: str = ""
    vector: Vector | None = None
    error: str = ""


def result_of(digests: Mapping[int, RegionDigest]) -> str:
    """Whether all that were asked hold the same, some hold different state at one vector, or neither is known."""
    told = [each for each in digests.values() if each.digest]
    if len(told) == len(digests) and len({each.digest for each in told}) <= 1:
        return EQUAL
    at_vector: dict[frozenset[tuple[str, int]], set[str]] = {}
    for each in told:
        if each.vector is not None:
            at_vector.setdefault(frozenset(each.vector.items()), set()).add(each.digest)
    return DIFFERENT if any(len(found) > 1 for found in at_vector.values()) else UNDECIDED


async def read_digests(ports: RedisPorts, addresses: Mapping[int, str], timeout_s: float) -> dict[int, RegionDigest]:
    """The digests of these regions, by number; asked again while it is undecided whether they are equal."""
    now_s = time.monotonic()
    ends_s, patient_until_s = now_s + timeout_s, now_s + PATIENCE_S
    while True:
        found = await ports.ask_all(addresses.values(), QUESTIONS, max(0.0, ends_s - time.monotonic()))
        digests = {region: region_digest(found[address]) for region, address in addresses.items()}
        late_s = time.monotonic() + PAUSE_S
        if result_of(digests) != UNDECIDED or late_s >= min(ends_s, patient_until_s):
            return digests
        await asyncio.sleep(PAUSE_S)


def region_digest(answers: list[RegionAnswer]) -> RegionDigest:
    before, digest, after = answers
    error = before.error or digest.error or after.error
    if error:
        return RegionDigest(error=error)
    began, ended = (vector_of(fields_of_info(told.value).get("vector", "")) for told in (before, after))
    return RegionDigest(digest.value.decode(), began if began == ended else None)
