"""Digests are compared only where they can be."""

from __future__ import annotations

import pytest

from crdtstream.observing.asking import RegionAnswer
from crdtstream.observing.digests import DIFFERENT, EQUAL, UNDECIDED, RegionDigest, region_digest, result_of

LOW, HIGH = {"1.a": 1}, {"1.a": 2}


@pytest.mark.parametrize(
    ("digests", "result"),
    [
        ([RegionDigest("x", LOW), RegionDigest("x", HIGH)], EQUAL),
        ([RegionDigest("x", LOW), RegionDigest("y", LOW)], DIFFERENT),
        ([RegionDigest("x", LOW), RegionDigest("y", HIGH)], UNDECIDED),
        ([RegionDigest("x", LOW), RegionDigest("y")], UNDECIDED),
        ([RegionDigest("x", LOW), RegionDigest(error="late"), RegionDigest("y", LOW)], DIFFERENT),
        ([RegionDigest("x", LOW), RegionDigest(error="late")], UNDECIDED),
        ([RegionDigest("x", LOW)], EQUAL),
    ],
)
def test_results(digests: list[RegionDigest], result: str) -> None:
    assert result_of(dict(enumerate(digests, 1))) == result


def test_a_vector_that_moved_meanwhile_is_none() -> None:
    def told(vector: bytes) -> RegionAnswer:
        return RegionAnswer("r1", b"vector:" + vector + b"\r\n")

    digest = RegionAnswer("r1", b"x")
    assert region_digest([told(b"1.a=1,2.b=2"), digest, told(b"2.b=2,1.a=1")]).vector == {"1.a": 1, "2.b": 2}
    assert region_digest([told(b"1.a=1"), digest, told(b"1.a=2")]) == RegionDigest("x")
    assert region_digest([told(b"1.a=1"), RegionAnswer("r1", error="late"), told(b"")]).error == "late"
